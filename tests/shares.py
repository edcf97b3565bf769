"""How tests are shared between processes that run at the same time, as `make test` has it: `pytest --numprocesses 2`.

A file is run by one process, so that what its tests share is made once. Files whose tests share something that takes
long to start are kept together. What takes longest comes first, so that the processes end at about the same time.
"""

from importlib import import_module
from typing import Any, Final

import pytest

TOGETHER: Final = ("tests/pipeline/",)
"""One Spark serves all of them."""
LONGEST: Final = (*TOGETHER, "tests/kafka/", "tests/clients/", "tests/torture/", "tests/pytest_plugin/", "tests/test_")
"""By the time that a test takes. What follows has thousands of short ones."""


def scheduler(config: pytest.Config, log: Any) -> Any:
    """What hands tests out in pytest-xdist: by `share`, in their order."""
    base: Any = import_module("xdist.scheduler.loadscope").LoadScopeScheduling

    class Shares(base):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return share(nodeid)

    config.option.loadscopereorder = False  # the files with most tests would be first
    return Shares(config, log)


def share(nodeid: str) -> str:
    """What a test is handed out with: its file, or its room."""
    file = nodeid.partition("::")[0]
    return next((room for room in TOGETHER if file.startswith(room)), file)


def place(nodeid: str) -> int:
    """The place of a test's room among all of them: what takes long has a low one."""
    return next((at for at, room in enumerate(LONGEST) if nodeid.startswith(room)), len(LONGEST))
