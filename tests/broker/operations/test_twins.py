"""The broker's methods for its own loop, and the same for other threads."""

import inspect
from pathlib import Path

import pytest

from minibroker import AsyncBroker, Broker
from minibroker.operations.twin import FACE, HANDLES, blocking_source, path_of


@pytest.mark.parametrize("module", [FACE, HANDLES])
def test_the_blocking_methods_are_those_of_the_asynchronous_ones(module: str) -> None:
    written = Path(path_of(module)).read_text(encoding="utf-8")
    assert written == blocking_source(module), "python -m minibroker.operations.twin writes it anew"


def test_both_are_given_the_same_arguments() -> None:
    assert inspect.signature(Broker) == inspect.signature(AsyncBroker)


async def test_on_the_callers_loop_they_are_awaited() -> None:
    async with Broker(topics=["t"]) as broker:
        await broker.produce("t", {"id": 1})
        assert [each.json() for each in await broker.records("t")] == [{"id": 1}]
        assert (await broker.wait_for("t"))[0].offset == 0
        assert (await broker.group("g").describe()).state == "Dead"
        await broker.clock.advance(10)
        assert await broker.retention.run() == 0
        assert list(await broker.topics()) == ["t"]


def test_nothing_can_be_asked_of_a_broker_that_does_not_run() -> None:
    broker = Broker()
    with pytest.raises(RuntimeError, match="the broker is not running"):
        broker.topics()
    broker.start()
    with pytest.raises(RuntimeError, match="the broker is running"):
        broker.start()
    assert broker.topics() == {}
    broker.stop()
    broker.stop()
    with pytest.raises(RuntimeError, match="the broker is not running"):
        broker.topics()


def test_its_own_thread_cannot_wait_for_itself() -> None:
    with Broker() as broker:

        async def ask() -> None:
            broker.topics()

        with pytest.raises(RuntimeError, match="the broker's own thread"):
            broker.wait(ask())
