"""The guides for testers: the service tutorial, troubleshooting, and important settings."""

import asyncio
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from minibroker import AsyncBroker, Broker, OperationError
from minibroker.config.key_tables import BROKER_KEYS, TOPIC_KEYS
from tests.documented import ROOT, Block, blocks, code
from tests.patience import PATIENCE_S
from tests.programs import module_command, run_program, run_to_success

pytestmark = pytest.mark.slow

SERVICES: Final = {"docs/service.md": "billing", "docs/kafka-python-service.md": "shipping"}
"""Pages that test a service, and the names of its module."""
TROUBLES: Final = "docs/troubleshooting.md"
SETTINGS: Final = "docs/settings-in-tests.md"


@pytest.mark.parametrize(("page", "module"), SERVICES.items(), ids=SERVICES.values())
def test_the_service_and_its_tests_run(page: str, module: str, tmp_path: Path) -> None:
    (service,) = code(page, "The service", "python")
    assert "TIMEOUT_S = 10\n" in service
    tests = "\n\n".join(block.text for block in blocks(page) if block.language == "python" and block.text != service)
    (tmp_path / f"{module}.py").write_text(service.replace("TIMEOUT_S = 10\n", f"TIMEOUT_S = {PATIENCE_S}\n"))
    (tmp_path / f"test_{module}.py").write_text(tests)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nkafka_timeout = {PATIENCE_S}\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    result = run_to_success(command, cwd=tmp_path, timeout=2 * PATIENCE_S)
    assert f"{tests.count('def test_')} passed" in result.stdout


def _warning(provoke: Callable[[], object]) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        provoke()
    return "\n".join(f"{warning.category.__name__}: {warning.message}" for warning in caught)


def _fault_that_nobody_entered() -> str:
    with Broker() as broker:
        return _warning(lambda: broker.fault(api="Produce", drop="after"))


def _loop_held_by_a_client() -> str:
    async def hold() -> None:
        async with AsyncBroker(topics=["orders"]) as broker:
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
            producer.produce("orders", b"x")
            producer.flush(4)

    return _warning(lambda: asyncio.run(hold()))


def _taken_port() -> str:
    with Broker() as broker:
        address = broker.bootstrap_servers
        command = [*module_command("minibroker"), "serve", "--listen", address]
        result = run_program(command, cwd=ROOT)
    return result.stderr.replace(address, "127.0.0.1:9092")


def _shared_directory(tmp_path: Path) -> str:
    with Broker(data_dir=tmp_path), pytest.raises(OSError, match="another broker") as caught:
        Broker(data_dir=tmp_path).start()
    return str(caught.value)


def _misspelt_names() -> str:
    lines: list[str] = []
    with Broker(topics=["orders"]) as broker:
        wrong: list[Callable[[], object]] = [
            lambda: broker.fault(api="Prodce"),
            lambda: broker.fault(api="Produce", error="NOT_LEADER"),
            lambda: broker.records("ordres"),
        ]
        for call in wrong:
            with pytest.raises((OperationError, ValueError)) as caught:
                call()
            lines.append(str(caught.value))
        lines.append(_warning(lambda: broker.configure({"auto.create.topic.enable": "false"})))
    return "\n".join(lines)


def _client_with_tls() -> str:
    read_end, write_end = os.pipe()
    command = [*module_command("minibroker"), "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=write_end, text=True, cwd=ROOT) as serving:
        os.close(write_end)
        assert serving.stdout is not None
        address = serving.stdout.readline().split("bootstrap=")[1].split()[0]
        client = Producer({"bootstrap.servers": address, "security.protocol": "SSL", "log_level": 0})
        with os.fdopen(read_end) as errors:
            line = errors.readline()
            client.flush(0)
            serving.terminate()
            errors.read()
    return line


def _message_with(text: str, tmp_path: Path) -> str:
    """Return the broker's messages in the situation described by a block."""
    situations: dict[str, Callable[[], str]] = {
        "was made and never installed": _fault_that_nobody_entered,
        "this line holds up": _loop_held_by_a_client,
        "cannot listen on": _taken_port,
        "speaks TLS": _client_with_tls,
        "in use by another broker": lambda: _shared_directory(tmp_path),
        "did you mean": _misspelt_names,
    }
    (provoke,) = [situation for sign, situation in situations.items() if sign in text]
    return provoke()


MESSAGES: Final = [block for block in blocks(TROUBLES) if block.language == "text"]


@pytest.mark.parametrize("block", MESSAGES, ids=lambda block: str(block.line))
def test_a_message_that_troubleshooting_quotes_is_what_the_broker_says(block: Block, tmp_path: Path) -> None:
    message = _message_with(block.text, tmp_path)
    for line in block.text.splitlines():
        assert line in message


def _default(name: str) -> str:
    key = TOPIC_KEYS.get(name) or BROKER_KEYS[name]
    return str(key.default).lower() if key.default is not None else "null"


def test_the_settings_that_matter_exist_and_have_the_defaults_that_the_page_gives() -> None:
    table = (ROOT / SETTINGS).read_text().split("## Of the client")[0]
    rows = re.findall(r"^\| (`.+?) \| `?([\w-]+)`? ?(?:\(.+?\) )?\|", table, re.MULTILINE)
    assert len(rows) == 13
    assert not [
        (name, default, _default(name))
        for names, default in rows
        for name in re.findall(r"`([a-z.]+)`", names)
        if _default(name) not in {default.lower(), f"['{default}']"}
    ]
