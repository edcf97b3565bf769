"""Brokers without sockets, and where their data is."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.broker.harness import Harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    """A broker without sockets, with one topic "t" of one partition."""
    made = Harness(str(tmp_path / "data"))
    made.create()
    yield made
    made.state.close()


@pytest.fixture
def configured(tmp_path: Path) -> Iterator[Callable[[dict[str, str]], Harness]]:
    """A function that makes a broker without sockets, of a configuration, with one topic "t" of one partition."""
    with ExitStack() as ends:

        def make(config: dict[str, str]) -> Harness:
            made = Harness(str(tmp_path / "data"), config)
            ends.callback(made.close)
            made.create()
            return made

        yield make
