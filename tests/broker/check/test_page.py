"""docs/checks.md: its examples run, and its names are those of the checks."""

import inspect
import subprocess
from typing import Any

from minibroker import Broker
from minibroker.operations.asynchronous_trials import AsyncCheck
from tests.documented import ROOT, blocks
from tests.patience import PATIENCE_S

PAGE = "docs/checks.md"


def test_the_examples_run() -> None:
    first, second, *_ = [block.text for block in blocks(PAGE) if block.language == "python"]
    exec(compile(first, PAGE, "exec"), {})
    with Broker(check=True, topics=["orders", "order-lines"]) as broker:
        broker.produce("orders", {"lines": ["tea", "jam"]}, key="o")
        for number in range(2):
            broker.produce("order-lines", "line", headers={"line-id": f"o-{number}"})
        namespace: dict[str, Any] = {"broker": broker}
        exec(compile(second, PAGE, "exec"), namespace)


def test_the_request_is_answered_as_the_page_says() -> None:
    (command,) = [block.text for block in blocks(PAGE) if block.language == "sh"]
    (answer,) = [block.text for block in blocks(PAGE) if block.language == "json"]
    with Broker(control="127.0.0.1:0", topics=["orders", "invoices"]) as broker:
        told = command.replace("127.0.0.1:9900", broker.control_url.removeprefix("http://"))
        done = subprocess.run(told, shell=True, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert done.stdout.replace(" ", "") == answer.replace(" ", "").strip()


def test_the_page_names_every_check() -> None:
    text = (ROOT / PAGE).read_text()
    checks = {name for name, _ in inspect.getmembers(AsyncCheck, inspect.isfunction) if not name.startswith("_")}
    assert [name for name in checks - {"run"} if f"| `{name}(" not in text] == []
