"""What minibroker says to mistakes: `messages.txt` has each mistake with its message.

A message names what, where and a remedy. `RECORD_MESSAGES=1 pytest tests/broker/test_messages.py` writes the messages
again. Read the difference as somebody who has never seen minibroker.
"""

import contextlib
import io
import os
import re
import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import minibroker
from minibroker import Broker
from minibroker.cli.main import main
from minibroker.pytest_plugin import _read_options, chaos_runs  # pyright: ignore[reportPrivateUsage] - as below
from minibroker.server.faults.fault import read_faults

pytest_plugins = ["pytester"]

pytestmark = pytest.mark.slow

TABLE: Final = Path(__file__).with_name("messages.txt")
_CHOICES: Final = re.compile(r"invalid choice: (\S+) .*")
"""argparse lists them differently in each version of Python."""
_FILES: Final = {
    "file.txt": "text",
    "folder/file": "",
    "broken.json": "{",
    "seeds.toml": "topics = 1",
    "faults.json": '[{"api": "Fetch", "error": 5}]',
}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders"], journal=True) as broker:
        broker.produce("orders", {"id": 1})
        yield broker


class Mistakes:
    """Makes mistakes, each in the place that its first word names."""

    def __init__(self, pytester: pytest.Pytester, broker: Broker) -> None:
        self._pytester = pytester
        self._names = {**vars(minibroker), "Broker": Broker, "broker": broker, "read_faults": read_faults}

    def make(self, mistake: str) -> str:
        """Return the message."""
        place, text = mistake.split(" ", 1)
        if place == "$":
            return self._command(text)
        if place == ">>>":
            return self._python(text)
        if place == "[pytest]":
            return self._python("read(text)", text=text, read=self._settings)
        if place == "@pytest.mark":
            return self._python("read(text)", text=text, read=self._mark)
        Path(f"{place}.yaml").write_text(text)
        return self._python(
            {"seeds": "Broker(seed_data='seeds.yaml').start()"}.get(place, "read_faults('faults.yaml')")
        )

    def _command(self, arguments: str) -> str:
        output = io.StringIO()
        with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
            main(shlex.split(arguments))
        return _CHOICES.sub(r"invalid choice: \1 ...", output.getvalue().partition("\n`minibroker")[0])

    def _python(self, code: str, **names: Any) -> str:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                exec(code, {**self._names, **names})
            except Exception as error:  # noqa: BLE001 - of any class
                return f"{type(error).__name__}: {error}"
        return "\n".join(f"{warning.category.__name__}: {warning.message}" for warning in caught)

    def _settings(self, text: str) -> None:
        is_option = text.startswith("--")
        self._pytester.makeini(f"[pytest]\n{'' if is_option else text}")
        config = self._pytester.parseconfig(*(shlex.split(text) if is_option else ()))
        with Broker(**_read_options(config, is_under_chaos=False)):
            pass

    def _mark(self, text: str) -> None:
        item = self._pytester.getitem("def test_func(): pass")
        item.add_marker(eval(f"pytest.mark.{text}"))
        chaos_runs.read_plan(item)


def test_each_mistake_is_answered_as_recorded(pytester: pytest.Pytester, broker: Broker) -> None:
    for name, text in _FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    mistakes = Mistakes(pytester, broker)
    recorded = TABLE.read_text()
    lines: list[str] = []
    for mistake in re.findall(r"^\S.*", recorded, re.MULTILINE):
        message = mistakes.make(mistake)
        assert message.strip(), f"{mistake} is no mistake"
        lines += [mistake, *(f"    {line}" for line in message.splitlines())]
    made = "".join(f"{line}\n" for line in lines)
    if "RECORD_MESSAGES" in os.environ:
        TABLE.write_text(made)
    else:
        assert made == recorded
