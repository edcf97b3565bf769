"""Responses that cannot be encoded close their connection and log one line, without other effects."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from minibroker import Broker
from minibroker.cluster.routing.outcomes import Answer
from minibroker.server.requests.dispatch import UnencodableAnswerError, call_of, encode_answers
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from minibroker_protocol.messages.metadata import MetadataRequest
from tests.broker.config.configs import APPEND, TOPIC, change_request, describe_request
from tests.broker.harness import Harness, create_request, frame_of, response_of
from tests.broker.socket_client import SocketClient, framed

PING = MetadataRequest(topics=[])
KEY = "leader.replication.throttled.replicas"
DESCRIBE = describe_request(TOPIC, "t", KEY)
LONGEST = 32_767


@pytest.fixture(params=["plain", "journal"])
def served(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(topics=["t"], journal=request.param == "journal") as broker:
        yield broker


def grow_a_value_beyond_what_text_can_be(client: SocketClient) -> None:
    """Append to a list until it exceeds the protocol's text limit, with requests that are below the limit."""
    for first in (10_000, 20_000):
        value = ",".join(f"{number}:0" for number in range(first, first + 3000))
        answer = client.ask(change_request(TOPIC, "t", (APPEND, KEY, value)), 1)
        assert answer.responses[0].error_code == 0


def received(client: SocketClient) -> bytes:
    head = client.receive_bytes(4)
    return head + client.receive_bytes(int.from_bytes(head, "big"))


def test_answers_before_it_leave_and_the_connection_closes(served: Broker, caplog: pytest.LogCaptureFixture) -> None:
    describe = framed(frame_of(DESCRIBE, 1, 2))
    ping = framed(frame_of(PING, 4, 1))
    with SocketClient(served.address) as client, SocketClient(served.address) as other:
        grow_a_value_beyond_what_text_can_be(other)
        client.send_bytes(ping + describe + ping)
        assert response_of(PING, 4, received(client), 1).brokers
        assert client.is_closed()
        assert other.ask(PING, 4).brokers
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert "DescribeConfigsResponse v1" in line
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("damage", [{"delay_ms": 1}, {"truncate": 9}, {"corrupt": "body"}, {"throttle_ms": 1}])
def test_an_answer_that_a_fault_holds_costs_its_connection_too(damage: Any, caplog: pytest.LogCaptureFixture) -> None:
    with Broker(topics=["t"], journal=True) as broker:
        with SocketClient(broker.address) as client, SocketClient(broker.address) as other:
            grow_a_value_beyond_what_text_can_be(other)
            with broker.fault(api="DescribeConfigs", **damage):
                client.send(DESCRIBE, 1)
                assert client.is_closed()
            assert other.ask(PING, 4).brokers
        (entry,) = broker.requests.entries(api="DescribeConfigs")
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert "An answer cannot be encoded" in line
    assert "DescribeConfigsResponse v1" in line
    assert "DescribeConfigsResponse v1" in str(entry.failure)
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("version", [4, 7])
@pytest.mark.parametrize("name", ["x" * (LONGEST - 7), "\N{EURO SIGN}" * 10_920])
def test_an_error_message_that_repeats_a_long_name_is_cut(served: Broker, version: int, name: str) -> None:
    with SocketClient(served.address) as client:
        (topic,) = client.ask(create_request(name), version).topics
        assert (topic.name, topic.error_code) == (name, ErrorCode.INVALID_TOPIC_EXCEPTION)
        assert LONGEST - 3 <= len(topic.error_message.encode()) <= LONGEST
        assert topic.error_message.endswith("...")
        assert client.ask(PING, 4).brokers


def test_what_cannot_be_encoded_says_where_and_keeps_what_is_before_it(harness: Harness) -> None:
    session = harness.session()
    call, _ = call_of(memoryview(frame_of(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3)), session)
    sound = Answer(HeartbeatResponse(error_code=27), call, 1)
    fault = Answer(HeartbeatResponse(error_code=1 << 20), call, 2)
    with pytest.raises(UnencodableAnswerError, match="HeartbeatResponse v3") as caught:
        encode_answers([sound, fault, sound])
    assert caught.value.data == encode_answers([sound])[0]
