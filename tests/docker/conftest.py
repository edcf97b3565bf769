"""The container engine with the image of this checkout, for all tests that run it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.clients import toolchains
from tests.docker.boxes import Container, run_box
from tests.docker.engine import Engine, NoEngineError, find_engine, lock


@pytest.fixture(scope="session")
def engine() -> Engine:
    """Return an engine that has the image of this checkout, which `make image` has built."""
    try:
        return find_engine()
    except NoEngineError as reason:
        toolchains.missing(str(reason))


@pytest.fixture(scope="module")
def chosen(request: pytest.FixtureRequest) -> list[str]:
    """Return the values of the parameter `command` of the module's tests that run."""
    items = (getattr(item, "callspec", None) for item in request.session.items if item.path == request.path)
    return [item.params["command"] for item in items if item is not None and "command" in item.params]


@pytest.fixture
def fixed_ports() -> Iterator[None]:
    """Keep other tests from publishing the port 9092."""
    with lock("ports"):
        yield


@pytest.fixture
def boxes(engine: Engine) -> Iterator[Callable[..., Container]]:
    """Return a function like `run_box`. The containers are removed after the test, whose clients reach their ports."""
    with ExitStack() as ends:
        ends.enter_context(engine.network())
        yield lambda *options, **more: ends.enter_context(run_box(engine, *options, **more))
