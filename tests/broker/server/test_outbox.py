"""Outgoing responses: the same bytes arrive whatever the kernel accepts, and memory does not grow."""

import asyncio
import errno
import logging
import os
import random
import socket
import tracemalloc
from asyncio.trsock import TransportSocket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from minibroker import Broker
from minibroker.server import outbox
from minibroker.server.outbox import Outbox
from minibroker_protocol.messages.metadata import MetadataRequest
from minibroker_protocol.messages.topics import DeleteTopicsRequest
from minibroker_storage.files import FileHandle, FilePool, LogSlice
from minibroker_storage.layout import file_name
from tests.broker.harness import batch, fetch_request, frame_of, only_partition, produce_request
from tests.broker.socket_client import SocketClient, framed
from tests.sweeps import one_in

PING: Final = MetadataRequest(topics=[])
PARTITIONS: Final = 5
SIZE: Final = 600_000
CONTENT: Final = b"from the file" * 10_000
_sendfile: Final[Callable[[int, int, int, int], int] | None] = getattr(os, "sendfile", None)

pytestmark = pytest.mark.skipif(_sendfile is None, reason="os.sendfile is missing here: only the fallback can be used")


def full_now_and_then(calls: int) -> int:
    if calls % 3 == 1:
        raise BlockingIOError
    return 50_021


def interrupted(calls: int) -> int:
    if calls % 2:
        raise InterruptedError
    return 50_021


def refused(_calls: int) -> int:
    raise OSError(22, "Invalid argument")


def refused_half_way(calls: int) -> int:
    if calls > 2:
        raise OSError(95, "Operation not supported")
    return 100_003


WHIMS: Final[dict[str, Callable[[int], int] | None]] = {
    "missing": None,
    "plain": lambda _calls: 1 << 30,
    "short": lambda _calls: 10_007,
    "full_now_and_then": full_now_and_then,
    "interrupted": interrupted,
    "refused": refused,
    "refused_half_way": refused_half_way,
}
"""Variants of the kernel's `sendfile`. Each returns the most bytes to send in a call, given the number of calls."""


@pytest.fixture(params=one_in(3, WHIMS))
def whim(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """One variant of `os.sendfile`. Asserts at the end that it was called, unless it is missing."""
    name: str = request.param
    limit, calls = WHIMS[name], 0
    if limit is None:
        monkeypatch.delattr(os, "sendfile")
        monkeypatch.setattr(outbox, "HAS_SENDFILE", False)
        yield name
        return

    def sendfile(out: int, source: int, offset: int, count: int) -> int:
        nonlocal calls
        assert _sendfile is not None
        calls += 1
        return _sendfile(out, source, offset, min(count, limit(calls)))

    monkeypatch.setattr(os, "sendfile", sendfile)
    yield name
    assert calls > 0


@pytest.fixture(autouse=True)
def nothing_went_wrong(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.fixture
def served() -> Iterator[Broker]:
    with Broker(topics=[f"t:{PARTITIONS}"]) as broker:
        yield broker


@pytest.fixture
def stored(served: Broker) -> list[bytes]:
    """The contents of the partitions, from the broker's files."""
    dice = random.Random(3)
    with SocketClient(served.address) as client:
        for partition in range(PARTITIONS):
            for _ in range(partition):
                halves = dice.randbytes(SIZE // 2), dice.randbytes(SIZE // 2)
                client.ask(produce_request(batch(*halves), "t", partition), 9)
    contents = [b""]  # An empty partition has no file.
    for partition in range(1, PARTITIONS):
        with open(f"{served.data_dir}/t-{partition}/{file_name(0, '.log')}", "rb") as file:
            contents.append(file.read())
    assert [len(content) // SIZE for content in contents] == [0, 1, 2, 3, 4]
    return contents


EVERYTHING: Final = fetch_request(
    *(("t", partition, 0) for partition in range(PARTITIONS)), max_wait_ms=0, partition_max_bytes=50 << 20
)


def fetched(client: SocketClient) -> list[bytes]:
    """Return the bytes of every partition in the next response."""
    _, response = client.receive()
    return [bytes(data.records) for topic in response.responses for data in topic.partitions]


def ask_for_more_than_the_kernel_takes(client: SocketClient) -> int:
    """Send twenty requests at once, for 120 MB. Return the size of one response, after reading its header."""
    frame = frame_of(EVERYTHING, 12)
    client.send_bytes((framed(frame)) * 20)
    return int.from_bytes(client.receive_bytes(4), "big") + 4


def handle_of(folder: Path, content: bytes) -> FileHandle:
    """Return the handle of a new file."""
    (folder / "log").write_bytes(content)
    return FilePool(4).handle(str(folder / "log"))


def no_descriptor(*_: object) -> socket.socket:
    raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.parametrize("receive_buffer", [None, 4096])
def test_without_a_second_descriptor_the_same_bytes_arrive(
    served: Broker, stored: list[bytes], monkeypatch: pytest.MonkeyPatch, receive_buffer: int | None
) -> None:
    topic = served.services.core.topics.get("t")
    assert topic is not None
    with SocketClient(served.address, receive_buffer=receive_buffer) as client:
        monkeypatch.setattr(TransportSocket, "dup", no_descriptor)
        for _ in range(3):
            client.send(EVERYTHING, 12)
            assert fetched(client) == stored
        assert client.ask(PING, 12).brokers
        monkeypatch.undo()
        client.send(EVERYTHING, 12)
        assert fetched(client) == stored
        assert client.ask(PING, 12).brokers
    assert not any(partition.log.segments[0].log.pinned for partition in topic.partitions)


async def test_a_range_that_fails_in_an_unforeseen_way_is_unpinned_when_the_connection_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = handle_of(tmp_path, CONTENT)
    out = Outbox(Transport(), lambda: None, lambda: None)
    out.sendfile = False

    def fails(*_: object) -> bytes:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(os, "pread", fails)
    with pytest.raises(RuntimeError):
        out.send(bytearray(b"before "), [(7, LogSlice(handle, 0, len(CONTENT)))] * 2)
    pinned = [handle.pinned]
    out.close()
    assert [*pinned, handle.pinned] == [True, False]
    handle.close()


@pytest.mark.parametrize("whim", WHIMS, indirect=True)
@pytest.mark.parametrize("receive_buffer", [None, 4096])
def test_whatever_sendfile_does_the_same_bytes_arrive(
    served: Broker, stored: list[bytes], whim: str, receive_buffer: int | None
) -> None:
    with SocketClient(served.address, receive_buffer=receive_buffer) as client:
        client.send(EVERYTHING, 12)
        client.send(PING, 12)
        client.send(EVERYTHING, 4)
        assert fetched(client) == stored
        assert client.receive()[1].brokers
        assert fetched(client) == stored
        assert client.ask(PING, 12).brokers


def test_a_slow_reader_holds_nobody_else_up(served: Broker, stored: list[bytes], whim: str) -> None:
    with SocketClient(served.address, receive_buffer=4096) as slow, SocketClient(served.address) as quick:
        slow.send(EVERYTHING, 12)
        for _ in range(3):
            quick.send(EVERYTHING, 12)
            assert fetched(quick) == stored
        assert fetched(slow) == stored


@pytest.mark.parametrize("available", [True, False])
def test_a_client_that_never_reads_costs_no_memory_and_is_not_read_from(
    served: Broker, stored: list[bytes], monkeypatch: pytest.MonkeyPatch, *, available: bool
) -> None:
    monkeypatch.setattr(outbox, "HAS_SENDFILE", available)
    with SocketClient(served.address, receive_buffer=4096) as deaf, SocketClient(served.address) as other:
        other.ask(PING, 12)
        tracemalloc.start()
        try:
            for _ in range(500):  # These requests are for 3 GB.
                deaf.send(EVERYTHING, 12)
            for _ in range(50):
                other.ask(PING, 12)
            assert tracemalloc.get_traced_memory()[1] < 5 << 20
        finally:
            tracemalloc.stop()
        assert fetched(deaf) == stored  # The client can still start reading.


def test_a_client_that_goes_away_half_way_leaves_no_file_pinned(served: Broker, stored: list[bytes], whim: str) -> None:
    topic = served.services.core.topics.get("t")  # Only internal state shows whether a file is pinned.
    assert topic is not None
    handles = [partition.log.segments[0].log for partition in topic.partitions]
    with SocketClient(served.address) as other:
        with SocketClient(served.address, receive_buffer=4096) as client:
            ask_for_more_than_the_kernel_takes(client)
            assert any(handle.pinned for handle in handles)
        for _ in range(100_000):
            other.ask(PING, 12)
            if not any(handle.pinned for handle in handles):
                return
    raise AssertionError("still pinned")


def test_a_topic_that_is_deleted_while_its_bytes_leave_is_delivered_whole(
    served: Broker, stored: list[bytes], whim: str
) -> None:
    with SocketClient(served.address, receive_buffer=4096) as client, SocketClient(served.address) as other:
        client.send(EVERYTHING, 12)
        head = client.receive_bytes(100)
        assert other.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=20_000), 3).responses[0].error_code == 0
        length = int.from_bytes(head[:4], "big")
        data = head + client.receive_bytes(4 + length - len(head))
        assert all(content in data for content in stored)
        assert only_partition(client.ask(fetch_request(("t", 0, 0), max_wait_ms=0), 12)).error_code == 3


def test_a_file_that_is_cut_while_its_bytes_leave_closes_the_connection(
    served: Broker, stored: list[bytes], whim: str
) -> None:
    with SocketClient(served.address, receive_buffer=4096) as client, SocketClient(served.address) as other:
        size = ask_for_more_than_the_kernel_takes(client)
        os.truncate(f"{served.data_dir}/t-4/{file_name(0, '.log')}", 1000)
        with pytest.raises(ConnectionError):
            client.receive_bytes(20 * size)
        assert other.ask(PING, 12).brokers


class Transport(asyncio.Transport):
    """A transport that only records what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.pieces = 0
        self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data
        self.pieces += 1

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default


async def test_nothing_is_written_while_asyncio_says_that_there_is_room_again(tmp_path: Path) -> None:
    handle = handle_of(tmp_path, CONTENT)
    transport, drained = Transport(), asyncio.Event()
    out = Outbox(transport, lambda: None, drained.set)
    out.sendfile = False
    out.pause()
    out.send(bytearray(b"before "), [(7, LogSlice(handle, 0, len(CONTENT)))])
    out.resume()
    assert transport.written == b""
    out.pause()  # If the transport pauses again in the meantime, the outbox must not continue.
    await asyncio.sleep(0)
    assert (bytes(transport.written), handle.pinned, out.is_blocked) == (b"", True, True)
    out.resume()
    await drained.wait()
    assert (bytes(transport.written), handle.pinned, out.is_blocked) == (b"before " + CONTENT, False, False)
    handle.close()


async def test_a_large_answer_waits_in_pieces_which_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = bytearray(os.urandom(3_000_000))
    transport = Transport()
    out = Outbox(transport, lambda: None, lambda: None)

    def write(data: memoryview) -> None:
        assert data.obj is answer
        transport.written += data
        out.pause()

    monkeypatch.setattr(transport, "write", write)
    out.send(answer, [])
    sent = len(transport.written)
    assert 0 < sent <= 262_144
    out.resume()
    await asyncio.sleep(0)
    assert (len(transport.written), out.is_blocked) == (2 * sent, True)
    while len(transport.written) < len(answer):
        out.resume()
        await asyncio.sleep(0)
    assert transport.written == answer


async def test_small_ranges_leave_in_one_piece_with_what_is_around_them(tmp_path: Path) -> None:
    handle = handle_of(tmp_path, b"from the file")
    transport = Transport()
    out = Outbox(transport, lambda: None, lambda: None)
    out.send(bytearray(b"[]()"), [(1, LogSlice(handle, 5, 3)), (3, LogSlice(handle, 9, 4))])
    assert (transport.pieces, bytes(transport.written), handle.pinned) == (1, b"[the](file)", False)
    handle.close()


async def test_a_small_range_of_a_file_that_was_cut_or_closed_ends_the_connection(tmp_path: Path) -> None:
    handle = handle_of(tmp_path, b"from the file")
    for _ in range(2):
        transport = Transport()
        Outbox(transport, lambda: None, lambda: None).send(bytearray(b"before "), [(7, LogSlice(handle, 0, 14))])
        assert (bytes(transport.written), transport.is_aborted) == (b"", True)
        handle.close()
