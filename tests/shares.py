"""Tests are shared between processes that run at the same time, as `make test` does: `pytest --numprocesses 4`.

A file is run by one process, so that what its tests share is made once. Files whose tests share something that takes
long to start are kept together. What takes longest comes first, so that the processes end at about the same time.
"""

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

SPARK: Final = "spark"
"""The files whose tests share a Spark, which takes long to start: a parameter of theirs is of its type."""
LONGEST: Final = (
    "tests/clients/matrix/test_matrix.py",
    "tests/kafka/test_directories_",
    "tests/kafka/test_consumer_groups.py",
    "tests/clients/test_control_clients.py",
    "tests/clients/test_consumer_groups.py",
    "tests/kafka/test_newest_directories.py",
    "tests/docker/test_testcontainers.py",
    "tests/clients/test_language_pages.py",
    "tests/clients/test_groups.py",
    "tests/broker/grade/test_checks.py",
    "tests/broker/terminal/test_app.py",
    "tests/torture/test_share_kills.py",
    "tests/torture/test_kills.py",
    "tests/kafka/",
    "tests/clients/",
    "tests/pipeline/",
    "tests/broker/page/",
    "tests/docker/",
    "tests/torture/",
    "tests/pytest_plugin/",
    "tests/command_line_tools/",
    "tests/test_",
)
"""By the time that a file takes (`make test ARGS=--junit-xml=FILE` tells), behind those of Spark.

What follows has thousands of short tests, so that no process is at work for long when the others have ended.
"""
_ROOT: Final = Path(__file__).parents[1]


def scheduler(config: pytest.Config, log: Any) -> Any:
    """The scheduler for pytest-xdist: it hands out tests by `share`, in their order."""
    base: Any = import_module("xdist.scheduler.loadscope").LoadScopeScheduling

    class Shares(base):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return share(nodeid)

    config.option.loadscopereorder = False  # the files with most tests would be first
    return Shares(config, log)


def share(nodeid: str) -> str:
    """The group that a test is handed out with: its file, or all files that use Spark."""
    file = nodeid.partition("::")[0]
    return SPARK if uses_spark(file) else file


def place(nodeid: str) -> int:
    """The place of a test's share among all of them: what takes long has a low one."""
    if share(nodeid) == SPARK:
        return -1
    return next((at for at, start in enumerate(LONGEST) if nodeid.startswith(start)), len(LONGEST))


@cache
def uses_spark(file: str) -> bool:
    """Whether a file has tests that ask for the Spark of `tests/pipeline/conftest.py`."""
    path = _ROOT / file
    return file.startswith("tests/pipeline/") and path.exists() and "spark: SparkSession" in path.read_text()
