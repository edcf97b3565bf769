"""Connections to a broker in this process: order, delays, limits, and misbehaving clients."""

import logging
import random
import socket
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from minibroker import Broker
from minibroker.cluster.routing.routes import ROUTES
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.fetch import FetchRequest
from minibroker_protocol.messages.metadata import MetadataRequest
from minibroker_protocol.messages.produce import ProduceRequest
from minibroker_protocol.messages.topics import DeleteTopicsRequest
from minibroker_protocol.records.header import HEADER, compute_crc, read_header
from tests.broker.harness import batch, fetch_request, frame_of, only_partition, produce_request, values_in
from tests.broker.socket_client import SocketClient, framed
from tests.patience import PATIENCE_S

PING = MetadataRequest(topics=[])


@pytest.fixture
def served() -> Iterator[Broker]:
    with Broker(topics=["t", "other"]) as broker:
        yield broker


@pytest.fixture
def client(served: Broker) -> Iterator[SocketClient]:
    with SocketClient(served.address) as connected:
        yield connected


@pytest.fixture
def second(served: Broker) -> Iterator[SocketClient]:
    """A second client, which must never notice what the first one does."""
    with SocketClient(served.address) as connected:
        assert connected.ask(PING, 12).brokers
        yield connected
        assert connected.ask(PING, 12).brokers
        assert (
            connected.ask(produce_request(batch(b"x"), "other"), 9).responses[0].partition_responses[0].error_code == 0
        )


@pytest.fixture(autouse=True)
def nothing_went_wrong(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Assert that no client's fault is logged as an error of the broker."""
    yield
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def until(condition: Callable[[], bool], client: SocketClient) -> None:
    """Exchange requests between client and broker until a condition holds.

    Raises:
        AssertionError: It never does.
    """
    for _ in range(100_000):
        if condition():
            return
        client.ask(PING, 12)
    raise AssertionError("it did not come about")


# Order


def test_requests_are_answered_in_their_order(client: SocketClient) -> None:
    numbers = [
        client.send(request, version)
        for request, version in (
            (produce_request(batch(b"a")), 9),
            (fetch_request(("t", 0, 0)), 12),
            (PING, 1),
            (produce_request(batch(b"b")), 3),
            (ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3),
            (fetch_request(("t", 0, 1)), 4),
        )
    ]
    assert [client.receive()[0] for _ in numbers] == numbers


def test_requests_that_arrive_together_see_one_another(client: SocketClient) -> None:
    sent = produce_request(batch(b"a")), fetch_request(("t", 0, 0)), produce_request(batch(b"b"))
    frames = b"".join(framed(frame_of(request, version)) for request, version in zip(sent, (9, 12, 9), strict=True))
    client.send_bytes(frames)
    client._asked = {1: (sent[0], 9)}
    assert client.receive()[1].responses[0].partition_responses[0].base_offset == 0
    client._asked = {1: (sent[1], 12)}
    assert values_in(only_partition(client.receive()[1]).records) == [(0, b"a")]
    client._asked = {1: (sent[2], 9)}
    assert client.receive()[1].responses[0].partition_responses[0].base_offset == 1


def test_a_thousand_requests_may_be_under_way(client: SocketClient) -> None:
    numbers = [client.send(produce_request(batch(b"%d" % index)), 9) for index in range(1000)]
    offsets = []
    for number in numbers:
        answered, response = client.receive()
        assert answered == number
        offsets.append(response.responses[0].partition_responses[0].base_offset)
    assert offsets == list(range(1000))


def test_a_waiting_fetch_holds_back_its_connection_and_no_other(client: SocketClient, second: SocketClient) -> None:
    waiting = client.send(fetch_request(("t", 0, 0), max_wait_ms=600_000), 12)
    later_numbers = [client.send(fetch_request(("t", 0, 1), max_wait_ms=0), 12), client.send(PING, 12)]
    for _ in range(20):
        second.ask(PING, 12)
    client.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        client.socket.recv(1)
    client.socket.settimeout(PATIENCE_S)
    second.ask(produce_request(batch(b"a")), 9)
    number, response = client.receive()
    assert (number, values_in(only_partition(response).records)) == (waiting, [(0, b"a")])
    assert [client.receive()[0] for _ in later_numbers] == later_numbers


def test_a_fetch_behind_a_waiting_fetch_waits_as_well(client: SocketClient, second: SocketClient) -> None:
    numbers = [client.send(fetch_request(("t", 0, offset), max_wait_ms=600_000), 12) for offset in (0, 1, 2)]
    for index, number in enumerate(numbers):
        second.ask(produce_request(batch(b"%d" % index)), 9)
        answered, response = client.receive()
        assert (answered, values_in(only_partition(response).records)) == (number, [(index, b"%d" % index)])


def test_bytes_behind_a_waiting_fetch_stay_in_the_kernel_but_for_a_few(served: Broker, second: SocketClient) -> None:
    count, limit = 50, 16 << 10
    delayed = frame_of(fetch_request(("t", 0, 0), max_wait_ms=600_000, min_bytes=1), 12)
    start = framed(delayed) + struct.pack(">i", 90_000_000)
    second.ask(fetch_request(("t", 0, 0), max_wait_ms=0), 12)
    clients = [SocketClient(served.address) for _ in range(count)]
    second.ask(PING, 12)
    tracemalloc.start()
    try:
        for client in clients:
            client.socket.setblocking(False)
            client.socket.send(start + bytes(1 << 20))
        for _ in range(10):
            second.ask(PING, 12)
        memory = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        for client in clients:
            client.socket.close()
    assert count * (limit - 1024) < memory < count * (limit + 16_384)


def test_more_requests_than_a_buffer_holds_may_wait_behind_a_fetch(client: SocketClient, second: SocketClient) -> None:
    waiting = client.send(fetch_request(("t", 0, 0), max_wait_ms=600_000), 12)
    later_numbers = [client.send(produce_request(batch(bytes(900_000)), "other"), 9) for _ in range(2)]
    second.ask(produce_request(batch(b"a")), 9)
    assert [client.receive()[0] for _ in range(3)] == [waiting, *later_numbers]


def test_a_wait_ends_when_its_time_is_up(client: SocketClient) -> None:
    data = only_partition(client.ask(fetch_request(("t", 0, 0), max_wait_ms=50), 12))
    assert (data.error_code, values_in(data.records)) == (0, [])


def test_a_client_that_goes_away_while_it_waits_is_forgotten(served: Broker, second: SocketClient) -> None:
    topic = served.services.core.topics.get("t")  # Only internal state shows whether a listener is gone.
    assert topic is not None
    with SocketClient(served.address) as client:
        client.send(fetch_request(("t", 0, 0), max_wait_ms=600_000), 12)
        until(lambda: topic.partitions[0].opened_log is not None, second)
        until(lambda: len(topic.partitions[0].log._listeners) == 1, second)
    until(lambda: not topic.partitions[0].log._listeners, second)
    second.ask(produce_request(batch(b"a")), 9)


# Produce without responses


def test_produce_without_acks_is_not_answered(client: SocketClient) -> None:
    for index in range(10):
        client.send(produce_request(batch(b"%d" % index), acks=0), 9)
    data = only_partition(client.ask(fetch_request(("t", 0, 0)), 12))
    assert [value for _, value in values_in(data.records)] == [b"%d" % index for index in range(10)]


def test_produce_without_acks_that_fails_closes_the_connection_after_earlier_answers(
    client: SocketClient, second: SocketClient
) -> None:
    number = client.send(PING, 12)
    client.send(produce_request(batch(b"a"), "missing", acks=0), 9)
    assert client.receive()[0] == number
    assert client.is_closed()


# Arrival of bytes


def test_a_request_may_arrive_byte_by_byte(client: SocketClient) -> None:
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    request = produce_request(batch(b"a"))
    client._asked[1] = (request, 9)
    for byte in framed(frame_of(request, 9)):
        client.send_bytes(bytes([byte]))
    assert client.receive()[1].responses[0].partition_responses[0].base_offset == 0


def test_a_request_may_be_larger_than_the_shared_buffer(client: SocketClient) -> None:
    large = batch(random.Random(1).randbytes(1_048_000))
    outcome = client.ask(produce_request(large), 9).responses[0].partition_responses[0]
    assert (outcome.error_code, outcome.base_offset) == (0, 0)
    assert client.ask(produce_request(batch(bytes(3 << 20))), 9).responses[0].partition_responses[0].error_code == 10
    stored = only_partition(client.ask(fetch_request(("t", 0, 0), partition_max_bytes=2 << 20), 12)).records
    assert bytes(stored or b"")[61:] == large[61:]  # type: ignore[arg-type]  # what was read is a memoryview


@pytest.mark.parametrize("limit", [100, 1000])
def test_a_frame_may_have_as_many_bytes_as_configured(limit: int) -> None:
    config = {"socket.request.max.bytes": str(limit)}
    with Broker(config=config) as broker:
        frame = frame_of(PING, 1)
        with SocketClient(broker.address) as client:
            client._asked[1] = (PING, 1)
            client.send_bytes(framed(frame + bytes(limit - len(frame))))
            assert client.receive()[0] == 1
            client.send_bytes(framed(frame + bytes(limit + 1 - len(frame))))
            assert client.is_closed()


# Bytes that are not a request


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", -1),
        struct.pack(">i", -(2**31)),
        struct.pack(">i", 100 * 1024 * 1024 + 1),
        framed(b""),
        framed(b"\0"),
        framed(bytes(9)),
        framed(struct.pack(">hhih", ApiKey.METADATA, 1, 1, 30_000)),
        framed(struct.pack(">hhih", ApiKey.METADATA, 1, 1, -2)),
        framed(struct.pack(">hhih", 500, 0, 1, -1)),
        framed(struct.pack(">hhih", -1, 0, 1, -1)),
        framed(struct.pack(">hhih", ApiKey.METADATA, 14, 1, -1) + bytes(10)),
        framed(struct.pack(">hhih", ApiKey.FETCH, 13, 1, -1) + bytes(30)),
        framed(struct.pack(">hhih", ApiKey.PRODUCE, -1, 1, -1) + bytes(30)),
        framed(struct.pack(">hhih", ApiKey.METADATA, 1, 1, -1) + b"\x7f\xff\xff\xff"),
        framed(struct.pack(">hhih", ApiKey.METADATA, 12, 1, -1) + b"\0\xff\xff\xff\xff\x0f"),
        framed(frame_of(produce_request(batch(b"a")), 9)[:-5]),
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),  # TLS
    ],
)
def test_what_is_no_request_closes_the_connection(client: SocketClient, second: SocketClient, data: bytes) -> None:
    number = client.send(PING, 12)
    client.send_bytes(data)
    assert client.receive()[0] == number  # Earlier requests get their responses.
    assert client.is_closed()


def test_an_unknown_version_of_api_versions_is_answered_and_the_connection_goes_on(client: SocketClient) -> None:
    client.send_bytes(framed(struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 1, -1) + b"\0\x02a\x021\0"))
    client._asked[1] = (ApiVersionsRequest(), 0)
    number, response = client.receive()
    assert (number, response.error_code) == (1, ErrorCode.UNSUPPORTED_VERSION)
    assert client.ask(PING, 12).brokers


def test_garbage_behind_a_waiting_fetch_waits_for_its_turn(client: SocketClient, second: SocketClient) -> None:
    waiting = client.send(fetch_request(("t", 0, 0), max_wait_ms=600_000), 12)
    client.send_bytes(b"\xff\xff\xff\xff garbage")
    for _ in range(5):
        second.ask(PING, 12)
    second.ask(produce_request(batch(b"a")), 9)
    number, response = client.receive()
    assert (number, values_in(only_partition(response).records)) == (waiting, [(0, b"a")])
    assert client.is_closed()


def test_a_large_answer_leaves_whole_before_garbage_behind_it_closes_the_connection(
    served: Broker, second: SocketClient
) -> None:
    for _ in range(4):
        second.ask(produce_request(batch(bytes(1_000_000))), 9)
    with SocketClient(served.address, receive_buffer=4096) as client:
        request = fetch_request(("t", 0, 0), partition_max_bytes=4 << 20)
        client.send_bytes(framed(frame_of(request, 12)) * 5 + b"\xff\xff\xff\xff")
        second.ask(PING, 12)
        for _ in range(5):
            client._asked[1] = (request, 12)
            assert len(values_in(only_partition(client.receive()[1]).records)) == 4
        assert client.is_closed()


def ends(client: SocketClient) -> None:
    """Close the sending side, and read until the broker has closed."""
    with suppress(ConnectionError):
        client.socket.shutdown(socket.SHUT_WR)
        while client.socket.recv(65_536):
            pass


def test_random_bytes_end_with_a_closed_connection(served: Broker, second: SocketClient) -> None:
    dice = random.Random(7)
    for _ in range(60):
        with SocketClient(served.address) as client:
            data = dice.randbytes(dice.randrange(1, 3000))
            if dice.random() < 0.8:  # Most have a valid length.
                data = framed(data)
            if dice.random() < 0.5:  # Many of these have a valid key and version.
                route = dice.choice(ROUTES)
                version = dice.randint(route.first, route.last)
                data = framed(struct.pack(">hhih", route.key, version, 1, -1) + data)
            client.send_bytes(data)
            ends(client)


def test_requests_that_are_cut_by_the_end_of_the_connection_do_nothing(served: Broker, second: SocketClient) -> None:
    frame = framed(frame_of(produce_request(batch(b"a")), 9))
    for cut in range(0, len(frame), 7):
        with SocketClient(served.address) as client:
            client.send_bytes(frame[:cut])
            ends(client)
    assert only_partition(second.ask(fetch_request(("t", 0, 0), max_wait_ms=0), 12)).high_watermark == 0


@pytest.mark.parametrize(
    "field",
    [
        {"batch_length": 2**31 - 1},
        {"batch_length": -(2**31)},
        {"batch_length": 0},
        {"batch_length": 10},
        {"record_count": 2**31 - 1},
        {"record_count": -1},
        {"record_count": 0},
        {"record_count": 2},
        {"last_offset_delta": 2**31 - 1},
        {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
        {"attributes": 5},
        {"attributes": 1},
    ],
)
def test_a_batch_that_lies_is_refused_and_the_connection_goes_on(
    client: SocketClient, second: SocketClient, field: dict[str, int]
) -> None:
    lying = batch(b"a" * 100)
    HEADER.pack_into(lying, 0, *read_header(lying)._replace(**field))
    lying[17:21] = compute_crc(memoryview(lying)).to_bytes(4, "big")
    for version in (2, 3, 9):
        outcome = client.ask(produce_request(bytearray(lying), "t"), version).responses[0].partition_responses[0]
        assert outcome.error_code in {
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.INVALID_RECORD,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        }
    assert client.ask(produce_request(batch(b"a")), 9).responses[0].partition_responses[0].base_offset == 0


def test_lies_and_garbage_leave_memory_as_it_was(served: Broker, second: SocketClient) -> None:
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    produce = ProduceRequest(acks=1, timeout_ms=0, topic_data=[])
    lies = [
        struct.pack(">i", 100 << 20) + bytes(1000),
        framed(frame_of(fetch, 4)[:-4] + b"\x7f\xff\xff\xff"),
        framed(frame_of(produce, 3)[:-4] + b"\x7f\xff\xff\xff"),
        framed(frame_of(produce, 9)[:-2] + b"\xff\xff\xff\xff\x0f\0"),
        struct.pack(">i", 2**31 - 1),
    ]

    def attack() -> None:
        for lie in lies * 3:
            with SocketClient(served.address) as client:
                client.send_bytes(lie)
                ends(client)
        second.ask(PING, 12)

    attack()
    tracemalloc.start()
    try:
        attack()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        attack()
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 200_000
    assert peak - before < 3 << 20  # one first grant of 2 MiB at a time


def test_a_fetch_is_answered_before_a_request_behind_it_removes_what_it_has_found(
    client: SocketClient, second: SocketClient
) -> None:
    number = client.send(produce_request(batch(b"kept until it is sent")), 9)
    assert client.receive()[0] == number
    frames = [framed(frame_of(fetch_request(("t", 0, 0), max_wait_ms=0), 12, 2))]
    frames.append(framed(frame_of(DeleteTopicsRequest(topic_names=["t"], timeout_ms=20_000), 3, 3)))
    client._asked[2] = (fetch_request(("t", 0, 0), max_wait_ms=0), 12)
    client._asked[3] = (DeleteTopicsRequest(topic_names=["t"], timeout_ms=20_000), 3)
    client.send_bytes(b"".join(frames))
    number, fetched = client.receive()
    assert (number, values_in(only_partition(fetched).records)) == (2, [(0, b"kept until it is sent")])
    number, deleted = client.receive()
    assert (number, deleted.responses[0].error_code) == (3, 0)
