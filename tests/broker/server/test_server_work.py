"""Work of a server outside its event loop: callbacks, errors, and stopping while it runs."""

import asyncio
import contextlib
import logging
import socket
import threading
from pathlib import Path

import pytest

from minibroker import Broker
from minibroker.broker.asynchronous import AsyncBroker
from minibroker.cluster.logs.log_manager import LogManager
from minibroker.server import server
from minibroker.server.server import Server
from tests.patience import PATIENCE_S


def server_of(broker: AsyncBroker) -> Server:
    assert broker._server is not None
    return broker._server


async def test_a_stop_waits_for_work_in_the_background(tmp_path: Path) -> None:
    release = threading.Event()
    done: list[str] = []

    def work() -> None:
        release.wait(PATIENCE_S)
        done.append(f"work, {threading.current_thread() is not loop_thread}")

    def then() -> None:
        done.append(f"then, {threading.current_thread() is loop_thread}")
        services.core.background(lambda: done.append("more work"))

    loop_thread = threading.current_thread()
    async with AsyncBroker(data_dir=str(tmp_path)) as broker:
        services = server_of(broker).services
        services.core.background(work, then)
        assert done == []
        release.set()
    assert done == ["work, True", "then, True", "more work"]


async def test_work_that_fails_is_logged_and_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    def work() -> None:
        raise OSError("a full disk")

    async with AsyncBroker(data_dir=str(tmp_path)) as broker:
        server_of(broker).services.core.background(work, lambda: done.append("then"))
    assert done == ["then"]
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "a full disk"


async def test_only_a_directory_that_is_kept_is_forced_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags: list[bool] = []
    real = LogManager.close

    def close(self: LogManager, *, keep: bool = True) -> None:
        flags.append(keep)
        real(self, keep=keep)

    monkeypatch.setattr(LogManager, "close", close)
    async with Broker():
        pass
    async with Broker(data_dir=str(tmp_path)):
        pass
    assert flags == [False, True]


async def test_a_stop_lets_the_loop_turn_between_the_directories_that_it_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_SLICE_S", 0.0)
    counts: set[int] = set()

    def count() -> int:
        return len(list(tmp_path.glob("t-*")))

    async def watch() -> None:
        while True:
            counts.add(count())
            await asyncio.sleep(0)

    async with AsyncBroker(data_dir=str(tmp_path)) as broker:
        await broker.create_topic("t", partitions=9)
        watching = asyncio.create_task(watch())
    watching.cancel()
    assert counts >= set(range(1, 9))
    assert count() == 9


@pytest.mark.parametrize("rounds", range(4))
async def test_a_stop_closes_connections_that_are_still_being_accepted(rounds: int) -> None:
    with contextlib.ExitStack() as stack:
        async with Broker() as broker:
            clients = [stack.enter_context(socket.create_connection(broker.address, PATIENCE_S)) for _ in range(5)]
            for _ in range(rounds):
                await asyncio.sleep(0)
        for client in clients:
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""
