"""Keeps the pytest of others away from minibroker's own tests, and says what these need."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent

# pytest loads this file before that of the tests, whose imports would fail.
if find_spec("hypothesis") is None and Path.cwd().is_relative_to(HERE):
    sys.exit("minibroker's own tests need more packages: `make test` installs them and runs the tests")


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Ignore this folder if it lies beside the tests that are run."""
    return None if config.rootpath.is_relative_to(HERE) else True
