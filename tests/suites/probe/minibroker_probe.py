"""A pytest plugin that only looks: which tests ran, when, and how they ended, a line of JSON for each.

It runs in the environment of a foreign suite, so it needs nothing but pytest. The lines go to the file that
MINIBROKER_PROBE names: {"test": node id, "outcome": "passed" | "failed" | "skipped", "began": ..., "ended": ...}, in
seconds since the epoch. Of a test that is run again the last run counts.
"""

import json
import os
import time
from typing import Any

_began: dict[str, float] = {}
_outcomes: dict[str, str] = {}


def pytest_runtest_logstart(nodeid: str) -> None:
    _began[nodeid] = time.time()
    _outcomes[nodeid] = "passed"


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "setup":
        _outcomes[report.nodeid] = "passed"
    if report.outcome in {"failed", "skipped"} and _outcomes[report.nodeid] != "failed":
        _outcomes[report.nodeid] = report.outcome


def pytest_runtest_logfinish(nodeid: str) -> None:
    seen = {"test": nodeid, "outcome": _outcomes[nodeid], "began": _began[nodeid], "ended": time.time()}
    with open(os.environ["MINIBROKER_PROBE"], "a", encoding="utf-8") as lines:
        print(json.dumps(seen), file=lines)
