"""Requests and responses of one connection: how they are matched, and which addresses are replaced."""

import struct
from typing import Any

import pytest

from minibroker.server.inspection.exchanges import Exchange, Kind
from minibroker_lab.trace.conversation import MAX_HELD_BYTES, Conversation
from minibroker_protocol.codec import decode, encode
from minibroker_protocol.messages.groups import HeartbeatRequest
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minibroker_protocol.messages.sasl import SaslHandshakeRequest
from tests.broker.harness import frame_of
from tests.broker.socket_client import framed


class ExchangeLog:
    """Records the completed exchanges and the complaints."""

    def __init__(self) -> None:
        self.over: list[Exchange] = []
        self.complaints: list[str] = []

    def begin(self, exchange: Exchange, frame: bytes | bytearray) -> None:
        exchange.request_frame = bytes(frame)

    def end(self, exchange: Exchange, frame: bytes | bytearray, size: int = 0) -> None:
        exchange.response_frame = bytes(frame)
        exchange.bytes_out = size
        self.over.append(exchange)

    def complain(self, text: str) -> None:
        self.complaints.append(text)


@pytest.fixture
def ends() -> ExchangeLog:
    return ExchangeLog()


@pytest.fixture
def conversation(ends: Any) -> Conversation:
    return Conversation("c:1", "b:2", ends, lambda host, port: ("proxy", port + 1) if host == "b" else None)


def ask(conversation: Conversation, request: Any, version: int, number: int) -> None:
    frame = framed(frame_of(request, version, number))
    conversation.request(frame, len(frame))


def answer(conversation: Conversation, content: bytes) -> bytes:
    frame = framed(content)
    return bytes(conversation.response(frame, len(frame)))


def metadata(number: int) -> bytes:
    out = bytearray(struct.pack(">i", number) + b"\0")
    brokers = [MetadataResponseBroker(node_id=node_id, host="b" * node_id, port=9092) for node_id in (1, 2)]
    encode(MetadataResponse(brokers=brokers, topics=[]), 12, out, [])
    return bytes(out)


BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def produce(acks: int, transactional_id: str | None = None) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=b"r")
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1,
        topic_data=[TopicProduceData(name="t", partition_data=[partition])],
    )


def test_responses_are_matched_by_their_correlation_ids(conversation: Conversation, ends: ExchangeLog) -> None:
    for number in (5, 6, 7):
        ask(conversation, BEAT, 3, number)
    for number in (5, 7, 6, 9):
        assert answer(conversation, struct.pack(">i", number) + b"xyz") == framed(struct.pack(">i", number) + b"xyz")
    assert [exchange.correlation_id for exchange in ends.over] == [5, 7, 6, 0]
    assert [exchange.kind for exchange in ends.over] == [Kind.REQUEST] * 3 + [Kind.UNASKED]
    assert [exchange.response_frame[8:] for exchange in ends.over] == [b"xyz"] * 4
    assert conversation.pending == 0


def test_addresses_are_replaced_and_noted(conversation: Conversation, ends: ExchangeLog) -> None:
    ask(conversation, MetadataRequest(topics=None), 12, 1)
    passed = answer(conversation, metadata(1))
    assert struct.unpack(">ii", passed[:8]) == (len(passed) - 4, 1)
    response = decode(MetadataResponse, memoryview(passed), 12, 9)[0]
    assert [(broker.host, broker.port) for broker in response.brokers] == [("proxy", 9093), ("bb", 9092)]
    (exchange,) = ends.over
    assert exchange.replaced == {"b:9092": "proxy:9093"}
    assert exchange.response_frame == framed(metadata(1))


def test_addresses_that_cannot_be_replaced_pass_with_a_complaint(conversation: Conversation, ends: ExchangeLog) -> None:
    header = struct.pack(">hhih", 3, 99, 1, -1)
    conversation.request(framed(header), 4 + len(header))
    assert answer(conversation, metadata(1)) == framed(metadata(1))
    ask(conversation, MetadataRequest(topics=None), 12, 2)
    assert answer(conversation, metadata(2)[:-9]) == framed(metadata(2)[:-9])
    ask(conversation, MetadataRequest(topics=None), 12, 3)
    assert conversation.holds(struct.pack(">ii", 100, 3), 104)
    assert not conversation.holds(struct.pack(">ii", MAX_HELD_BYTES, 3), MAX_HELD_BYTES + 4)
    unknown, cut, large = ends.complaints
    assert unknown == "a response to Metadata v99 is unknown. Its addresses pass as they are"
    assert cut.startswith("a response to Metadata v12 cannot be read: ")
    assert large == f"a response to Metadata has {MAX_HELD_BYTES + 4} bytes, so its addresses pass as they are"


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("transactional_id", [None, "id" * 50])
def test_produce_without_acks_has_no_response(
    conversation: Conversation, ends: ExchangeLog, version: int, transactional_id: str | None
) -> None:
    for number, acks in enumerate((0, 1, -1)):
        ask(conversation, produce(acks, transactional_id if version >= 3 else None), version, number)
    assert [(exchange.correlation_id, exchange.expects_response) for exchange in ends.over] == [(0, False)]
    assert conversation.pending == 2


@pytest.mark.parametrize("version", [2, 8, 9, 12])
def test_acks_are_those_of_each_request_however_often_it_comes(
    conversation: Conversation, ends: ExchangeLog, version: int
) -> None:
    cases = [(acks, name) for acks in (0, 0, 1, 1, 0, -1) for name in (None, "t" if version >= 3 else None)]
    for number, (acks, name) in enumerate(cases):
        ask(conversation, produce(acks, name), version, number)
    assert [exchange.correlation_id for exchange in ends.over] == [
        number for number, case in enumerate(cases) if not case[0]
    ]


def test_tokens_without_a_header_are_told_from_requests(conversation: Conversation, ends: ExchangeLog) -> None:
    ask(conversation, SaslHandshakeRequest(mechanism="PLAIN"), 0, 1)
    answer(conversation, struct.pack(">ihi", 1, 0, 0))
    plain = framed(b"\0Admin\0secret")
    conversation.request(plain, len(plain))
    assert answer(conversation, b"") == framed(b"")
    ask(conversation, BEAT, 3, 2)
    answer(conversation, struct.pack(">i", 2))
    assert [exchange.kind for exchange in ends.over] == [Kind.REQUEST, Kind.TOKEN, Kind.REQUEST]


def test_tokens_of_gssapi_may_come_first_and_the_last_one_without_an_answer(
    conversation: Conversation, ends: ExchangeLog
) -> None:
    for token in (b"\x60\x82 first", b"", b"\x05\x04\x04\xff last"):
        conversation.request(framed(token), 4 + len(token))
        if not token.endswith(b"last"):
            assert answer(conversation, b"\x60\x81 answer") == framed(b"\x60\x81 answer")
    ask(conversation, BEAT, 3, 7)
    answer(conversation, struct.pack(">i", 7) + b"x")
    assert [(exchange.kind, bool(exchange.response_frame)) for exchange in ends.over] == [
        (Kind.TOKEN, True),
        (Kind.TOKEN, True),
        (Kind.TOKEN, False),
        (Kind.REQUEST, True),
    ]


def test_frames_without_a_header_are_unreadable(conversation: Conversation, ends: ExchangeLog) -> None:
    conversation.request(framed(b"\0\x01"), 6)
    assert [exchange.kind for exchange in ends.over] == [Kind.UNREADABLE]
    assert conversation.pending == 0


def test_requests_that_wait_at_the_end_have_failed(conversation: Conversation, ends: ExchangeLog) -> None:
    ask(conversation, BEAT, 3, 1)
    conversation.close("the broker closed the connection")
    assert [exchange.failure for exchange in ends.over] == ["the broker closed the connection"]
