"""The watchdog for an event loop that the broker shares with the caller's code."""

import asyncio
import logging
import threading
import time
import warnings
from collections.abc import Callable

import pytest

from minibroker import AsyncBroker, Broker, MinibrokerWarning
from minibroker.server import loop_watch
from minibroker.server.loop_watch import LoopWatch
from minibroker_protocol.messages.metadata import MetadataRequest
from tests.broker.socket_client import SocketClient
from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the watchdog's times."""
    monkeypatch.setattr(loop_watch, "_CHECK_INTERVAL_S", 0.01)
    monkeypatch.setattr(loop_watch, "_BLOCKED_AFTER_S", 0.05)


def hold_up(until: Callable[[], object]) -> None:
    """Block this thread, like a client that waits for its broker."""
    deadline = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


@pytest.mark.parametrize("is_connected", [False, True])
async def test_a_client_that_blocks_the_brokers_loop_is_a_warning_while_it_waits(*, is_connected: bool) -> None:
    async with Broker() as broker:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")  # set before any client can wait
            with SocketClient(broker.address) as client:
                if is_connected:
                    await asyncio.to_thread(client.ask, MetadataRequest(topics=[]), 12)
                line = test_a_client_that_blocks_the_brokers_loop_is_a_warning_while_it_waits.__code__.co_firstlineno
                client.send(MetadataRequest(topics=[]), 12)
                hold_up(lambda: caught)
        (warning,) = caught
    assert warning.category is MinibrokerWarning
    assert "run the broker with `with Broker()`, or call the client with `await asyncio.to_thread(...)`" in str(
        warning.message
    )
    assert warning.filename == __file__
    assert line < warning.lineno < line + 15


async def test_where_warnings_are_errors_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with AsyncBroker() as broker:
        with warnings.catch_warnings(), SocketClient(broker.address) as client:
            warnings.simplefilter("error")
            client.send(MetadataRequest(topics=[]), 12)
            hold_up(lambda: caplog.records)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("minibroker.support.advice", logging.WARNING)
    assert record.getMessage().startswith(f"{__file__}:")


async def test_a_loop_that_stands_still_while_nobody_waits_is_left_alone() -> None:
    looks: list[int] = []

    def nobody_waits() -> bool:
        looks.append(1)
        return False

    watch = LoopWatch(nobody_waits)
    hold_up(lambda: len(looks) >= 3)  # A warning would have been logged, and the thread would have ended.
    await asyncio.sleep(0)
    looks.clear()
    hold_up(lambda: looks)
    watch.stop()


async def test_its_thread_ends_with_the_broker_and_others_have_none() -> None:
    def threads() -> set[str]:
        return {thread.name for thread in threading.enumerate() if thread.name == "minibroker-watch"}

    async with AsyncBroker():
        assert threads() == {"minibroker-watch"}
    assert threads() == set()
    with Broker() as broker:
        assert threads() == set()
        assert broker.is_running
    async with broker:
        assert threads() == {"minibroker-watch"}
    assert threads() == set()
