"""The broker's methods for its own loop, and the same for other threads."""

import asyncio
import inspect
from pathlib import Path

import pytest

import minibroker.broker
from minibroker import AsyncBroker, Broker, WaitTimeoutError
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


async def test_the_methods_of_a_broker_on_the_callers_loop_are_those_of_what_async_with_gives() -> None:
    broker = Broker()
    async with broker as kafka:
        assert (broker.is_running, kafka.is_running) == (True, True)
        with pytest.raises(RuntimeError, match=r"`async with broker as kafka: await kafka\.produce"):
            broker.produce("t", "x")
        with pytest.raises(RuntimeError, match="the broker is running"):
            broker.start()
        with pytest.raises(RuntimeError, match="the broker is running"):
            await kafka.start()
        assert broker.bootstrap_servers == kafka.bootstrap_servers
    assert not broker.is_running
    with broker, pytest.raises(RuntimeError, match="the broker is running"):
        await broker.__aenter__()


def test_an_async_broker_says_that_it_takes_async_with() -> None:
    with (
        pytest.raises(TypeError, match=r"`async with AsyncBroker\(\)`; for `with` there is `Broker\(\)`"),
        AsyncBroker(),
    ):
        raise AssertionError("it was entered")


async def test_a_call_that_holds_up_a_running_loop_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minibroker.broker, "_LOOK_AGAIN", 0.01)
    with Broker() as broker:
        with (
            pytest.warns(RuntimeWarning, match="this thread runs an event loop") as caught,
            pytest.raises(WaitTimeoutError, match=r"(?s)no topic 'orders'.*await asyncio\.to_thread\(kafka\.expect"),
        ):
            broker.expect("orders", timeout=1)  # long enough for one look at a busy machine
        assert [each.filename for each in caught] == [__file__]
        broker.produce("orders", "x")
        assert broker.expect("orders", "x").offset == 0  # and what need not wait is no reason to warn
        with pytest.raises(WaitTimeoutError) as late:
            await asyncio.to_thread(broker.expect, "orders", "y", timeout=0.3)
        assert "event loop" not in str(late.value)


def test_its_own_thread_cannot_wait_for_itself() -> None:
    with Broker() as broker:

        async def ask() -> None:
            broker.topics()

        with pytest.raises(RuntimeError, match="the broker's own thread"):
            broker.wait(ask())
