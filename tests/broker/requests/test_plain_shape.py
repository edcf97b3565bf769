"""Requests in the plain shape get the same response, byte for byte, as in their full form."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from minibroker.cluster.routing.outcomes import Answer, Outcome
from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.server.inspection.recording import recording_of
from minibroker.server.requests import dispatch
from minibroker.server.requests.dispatch import accept, accept_plain, call_of, compose
from minibroker_protocol.codec import plain_codec_for, response_encoder_for
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    ForgottenTopic,
    PartitionData,
)
from minibroker_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.record import NewRecord
from minibroker_protocol.schema import schema_of
from tests.broker.faults.tapped import Channel, Tapped
from tests.broker.harness import Harness, batch, bytes_of, fetch_request, frame_of, produce_request

SENT = build_batch([NewRecord(b"k", b"v", 1_700_000_000_000)])
IDEMPOTENT = batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0)


def produce(records: Any, topic: str = "t", *, acks: int = -1, index: int = 0) -> ProduceRequest:
    data = PartitionProduceData(index=index, records=records)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


REQUESTS: list[Any] = [
    produce(SENT),
    produce(SENT, acks=1),
    produce(SENT, acks=0),
    produce(SENT, acks=7),
    produce(SENT, "nowhere"),
    produce(SENT, index=5),
    produce(None),
    produce(b""),
    produce(SENT[:-3]),
    produce(SENT, "stamped"),
    produce(SENT, "flushed"),
    produce(SENT, "small"),
    produce(SENT, "compacted"),
    produce(batch(b"v"), "compacted"),
    produce(IDEMPOTENT),
    produce(IDEMPOTENT),
    produce(batch(b"v", producer_id=7, producer_epoch=0, base_sequence=9)),
    produce(build_batch([NewRecord(b"k", b"v", 1_700_000_000_000)], codec=CompressionCodec.ZSTD)),
    fetch_request(("t", 0, 0), max_wait_ms=0),
    fetch_request(("t", 0, 1), max_wait_ms=0),
    fetch_request(("t", 0, 4), max_wait_ms=0),
    fetch_request(("t", 0, 99), max_wait_ms=0),
    fetch_request(("t", 0, -1), max_wait_ms=0),
    fetch_request(("t", 3, 0), max_wait_ms=0),
    fetch_request(("nowhere", 0, 0), max_wait_ms=0),
    fetch_request(("t", 0, 0), max_wait_ms=0, max_bytes=1),
    fetch_request(("t", 0, 0), max_wait_ms=0, max_bytes=-1),
    fetch_request(("t", 0, 0), max_wait_ms=0, isolation_level=1),
    fetch_request(("t", 0, 0), max_wait_ms=0, isolation_level=3),
    fetch_request(("t", 0, 0), max_wait_ms=0, session_epoch=0),
    fetch_request(("t", 0, 0), ("t", 0, 1), max_wait_ms=0),
]
"""A sequence: each request depends on the effects of the earlier ones."""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Harness, Harness]]:
    brokers = Harness(str(tmp_path / "plain")), Harness(str(tmp_path / "full"))
    for harness in brokers:
        harness.create()
        harness.create("stamped", message_timestamp_type="LogAppendTime")
        harness.create("flushed", flush_messages="1")
        harness.create("small", max_message_bytes="10")
        harness.create("compacted", cleanup_policy="compact")
    yield brokers
    for harness in brokers:
        harness.close()


def answered(harness: Harness, take: Any, request: Any, version: int) -> bytes | str:
    """Return the bytes of a response, or the name of another outcome or error."""
    try:
        outcome: Outcome = take(memoryview(bytearray(frame_of(request, version))), harness.session())
    except UnservedRequestError as error:
        return str(error)
    harness.core.writes.commit()
    if isinstance(outcome, Answer):
        return bytes_of(outcome)
    harness.run_soon()
    return type(outcome).__name__


@pytest.mark.parametrize("version", range(13))
def test_the_plain_shape_is_answered_as_the_full_form(pair: tuple[Harness, Harness], version: int) -> None:
    plain, full = pair
    for number, request in enumerate(REQUESTS):
        if version < 4 and isinstance(request, FetchRequest):
            continue
        if isinstance(request, FetchRequest) and request.session_epoch == 0:
            continue  # Session ids are random.
        assert answered(plain, accept_plain, request, version) == answered(full, accept, request, version), number


def is_plain(harness: Harness, request: Any, version: int) -> bool:
    outcome = accept_plain(memoryview(bytearray(frame_of(request, version))), harness.session())
    return isinstance(outcome, Answer) and type(outcome.response) is tuple


def test_most_requests_of_producers_and_consumers_are_in_the_plain_shape(pair: tuple[Harness, Harness]) -> None:
    harness, _ = pair
    assert all(is_plain(harness, produce(SENT), version) for version in range(3, 13))
    assert all(is_plain(harness, fetch_request(("t", 0, 0), max_wait_ms=0), version) for version in range(10, 13))
    assert not is_plain(harness, produce(SENT, "compacted"), 9)


@pytest.mark.parametrize("guard", ["authorizer", "quota", "fault"])
def test_whatever_looks_at_messages_gets_whole_ones(tmp_path: Path, guard: str) -> None:
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    rights = {"authorizer.class.name": name, "super.users": "User:ANONYMOUS"}
    tapped = Tapped(str(tmp_path / "data"), rights if guard == "authorizer" else None)
    if guard == "quota":
        tapped.services.quota_table.alter({frozenset({("user", None)}): {"producer_byte_rate": 1e9}})
    elif guard == "fault":
        tapped.fault(api="Heartbeat", error=27)
    take = compose(tapped.services, None, Channel())
    outcome = take(memoryview(bytearray(frame_of(produce_request(SENT), 9))), tapped.session())
    assert isinstance(outcome, Answer)
    assert isinstance(outcome.response, ProduceResponse)
    tapped.close()


@pytest.mark.parametrize("version", range(13))
def test_the_journal_shows_the_plain_shape_as_the_full_form(pair: tuple[Harness, Harness], version: int) -> None:
    journals = [recording_of(harness.services).keep_journal() for harness in pair]
    for request in REQUESTS:
        if isinstance(request, FetchRequest) and (version < 4 or request.session_epoch == 0):
            continue
        for harness in pair:
            take = compose(harness.services, None, Channel())
            with patch.object(dispatch, "_handle_plain", return_value=None) if harness is pair[1] else nullcontext():
                answered(harness, take, request, version)
    plain, full = ([entry.to_json() for entry in journal] for journal in journals)
    assert plain == full


def test_an_error_that_the_handler_lets_through_is_answered(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds in `dispatch.handle` and in `KafkaApis.handle`."""

    def fail(*_: object) -> None:
        raise LookupError("a fault of ours")

    monkeypatch.setattr("minibroker.server.handlers.produce.append", fail)
    response = harness.send(produce(SENT), 9)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("version", range(14))
def test_a_produce_response_has_the_same_bytes_in_both_shapes(version: int) -> None:
    is_flexible = version in schema_of(ProduceResponse).flexible
    _, encode = plain_codec_for(ProduceRequest, ProduceResponse, version, flexible_header=is_flexible)
    partition = PartitionProduceResponse(
        index=3, error_code=0, base_offset=1 << 40, log_append_time_ms=5, log_start_offset=6
    )
    topic = TopicProduceResponse(name="orders", topic_id=bytes(range(16)), partition_responses=[partition])
    frames = bytearray(), bytearray()
    encode(("orders", bytes(range(16)), 3, 0, 1 << 40, 5, 6, 7), 99, frames[0], [])
    whole = response_encoder_for(ProduceResponse, version, flexible_header=is_flexible)
    whole(ProduceResponse(responses=[topic], throttle_time_ms=7), 99, frames[1], [])
    assert frames[0] == frames[1]


@pytest.mark.parametrize("version", range(19))
@pytest.mark.parametrize("records", [b"", b"r" * 10, b"r" * 1000])
def test_a_fetch_response_has_the_same_bytes_in_both_shapes(version: int, records: bytes) -> None:
    is_flexible = version in schema_of(FetchResponse).flexible
    _, encode = plain_codec_for(FetchRequest, FetchResponse, version, flexible_header=is_flexible)
    partition = PartitionData(
        partition_index=3,
        error_code=0,
        high_watermark=9,
        last_stable_offset=8,
        log_start_offset=7,
        preferred_read_replica=-1,
        records=records,
    )
    topic = FetchableTopicResponse(topic="orders", topic_id=bytes(range(16)), partitions=[partition])
    frames = bytearray(), bytearray()
    encode((0, 0, 0, "orders", bytes(range(16)), 3, 0, 9, 8, 7, -1, records), 99, frames[0], [])
    whole = response_encoder_for(FetchResponse, version, flexible_header=is_flexible)
    whole(FetchResponse(responses=[topic]), 99, frames[1], [])
    assert frames[0] == frames[1]


@pytest.mark.parametrize("version", range(7, 18))
def test_other_shapes_are_left_to_the_full_decoder(pair: tuple[Harness, Harness], version: int) -> None:
    session = pair[0].session()

    def decoded(request: FetchRequest) -> tuple[Any, ...] | None:
        frame = memoryview(frame_of(request, version))
        call, _ = call_of(frame, session)
        return call.decode_plain(frame, call.body, len(frame))

    fetch = fetch_request(("t", 0, 0))
    values = decoded(fetch)
    assert values is not None
    assert len(values) == 16
    assert decoded(fetch_request()) is None
    assert decoded(fetch_request(("t", 0, 0), ("t", 1, 0))) is None
    assert decoded(fetch_request(("t", 0, 0), ("u", 0, 0))) is None
    fetch.forgotten_topics_data = [ForgottenTopic(topic="u", partitions=[0])]
    assert decoded(fetch) is None


def test_the_journal_leaves_the_records_of_a_long_request_alone(tapped: Tapped) -> None:
    tapped.create("packed", compression_type="gzip")
    journal = recording_of(tapped.services).keep_journal()
    many = build_batch([NewRecord(b"k", b"v" * 10, 1_700_000_000_000)] * 1500)
    asking = tapped.start_asking(produce_request(many, "packed"), 9)
    while not asking.is_answered():
        tapped.run_soon()
    assert asking.response.responses[0].partition_responses[0].error_code == 0
    assert [entry.request.topic_data[0].partition_data[0].records.records for entry in journal] == [1500]


def test_a_watcher_sees_each_request_once(tapped: Tapped) -> None:
    tapped.create("packed", compression_type="gzip")
    watched: list[Any] = []
    recording_of(tapped.services).watch(watched.append)
    data = [PartitionProduceData(index=0, records=SENT) for _ in "ab"]
    topics = [
        TopicProduceData(name=name, partition_data=[partition])
        for name, partition in zip(("t", "packed"), data, strict=True)
    ]
    tapped.start_asking(ProduceRequest(acks=0, timeout_ms=1000, topic_data=topics), 9)
    assert len(watched) == 1


def test_a_connection_keeps_no_call_of_a_long_header(harness: Harness) -> None:
    session = harness.session()
    for client_id in ("c", "c" * 1000):
        frame = memoryview(bytearray(frame_of(produce(SENT), 9, client_id=client_id)))
        assert isinstance(accept_plain(frame, session), Answer)
    assert [call.client_id for call in session.calls.values()] == ["c"]
