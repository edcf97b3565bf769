"""Decoded exchanges: as in the journal, with unknown ones as bytes, and never with secrets."""

import io
import json
import struct
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.clock import ManualClock
from minibroker.cluster.routing.routes import ROUTES, Route
from minibroker.server.inspection.exchanges import Exchange, Kind, Origin
from minibroker.server.inspection.message_json import detach, to_json
from minibroker.server.requests.endpoints import endpoint
from minibroker_lab.reading import MAX_SHOWN_BYTES, KnownTopics, read
from minibroker_lab.trace.lines import MAX_WAITING, LineWriter, Output, json_of, line_of
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import encode
from minibroker_protocol.messages.delegation_tokens import CreateDelegationTokenResponse
from minibroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minibroker_protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from minibroker_protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from minibroker_protocol.messages.sasl import SaslAuthenticateRequest
from minibroker_protocol.messages.scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from minibroker_protocol.schema import schema_of
from tests.broker.config.configs import BROKER, SET, change_request
from tests.broker.harness import frame_of
from tests.broker.socket_client import framed
from tests.protocol.message_strategies import message_class, messages
from tests.sweeps import few_examples, one_in

READ = [route for route in ROUTES if route.key != ApiKey.ENVELOPE]


def exchange_of(api_key: int, version: int, request: bytes, response: bytes) -> Exchange:
    exchange = Exchange(Kind.REQUEST, Origin("127.0.0.1:50000", "127.0.0.1:9092"))
    exchange.header = api_key, version, 0
    exchange.request_frame, exchange.response_frame = framed(request), framed(response) if response else b""
    exchange.bytes_in, exchange.bytes_out = len(exchange.request_frame), len(exchange.response_frame)
    return exchange


def raw(api_key: int, version: int, body: bytes = b"") -> bytes:
    return struct.pack(">hhih", api_key, version, 1, 1) + b"c" + body


def response_frame(response: Any, version: int) -> bytes:
    out = bytearray(struct.pack(">i", 1))
    message = response.__class__
    if version in schema_of(message).flexible and not message.__name__.startswith("ApiVersions"):
        out.append(0)
    encode(response, version, out, [])
    return bytes(out)


@pytest.mark.parametrize("route", one_in(2, READ), ids=lambda route: route.message)
def test_every_api_is_shown_as_the_journal_shows_it(route: Route) -> None:
    @given(st.data())
    @few_examples
    def check(data: st.DataObject) -> None:
        # ControlledShutdown v0 has a special header.
        version = data.draw(st.integers(max(route.first, route.key == ApiKey.CONTROLLED_SHUTDOWN), route.last))
        request = data.draw(messages(message_class(route, "Request"), version))
        response = data.draw(messages(message_class(route, "Response"), version))
        if route.key == ApiKey.API_VERSIONS:
            response.error_code = 0
        reading = read(
            exchange_of(route.key, version, frame_of(request, version), response_frame(response, version)), known_topics
        )
        assert reading.api == route.message
        assert to_json(reading.request, version) == to_json(detach(request), version)
        assert to_json(reading.response, version) == to_json(detach(response), version)
        shown = json.loads(json_of(reading))
        assert shown["request"] == json.loads(json.dumps(to_json(detach(request), version)))
        assert "requestBytes" not in shown
        assert line_of(reading).endswith("\n")
        assert line_of(reading)[:-1].isprintable()

    known_topics = KnownTopics()
    check()


def test_topic_ids_are_named_by_what_responses_have_told() -> None:
    known_topics, topic_id = KnownTopics(), bytes(range(16))
    partition = FetchPartition(partition=3, fetch_offset=0, partition_max_bytes=1)
    fetch_topic = FetchTopic(topic_id=topic_id, partitions=[partition])
    fetched = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[fetch_topic])
    ask = exchange_of(ApiKey.FETCH, 15, frame_of(fetched, 15), b"")
    assert [target.topic for target in read(ask, known_topics).targets] == [None]
    topic = MetadataResponseTopic(error_code=0, name="orders", topic_id=topic_id, partitions=[])
    response = response_frame(MetadataResponse(brokers=[], topics=[topic]), 12)
    read(exchange_of(ApiKey.METADATA, 12, raw(3, 12), response), known_topics)
    assert [(target.topic, target.partition) for target in read(ask, known_topics).targets] == [("orders", 3)]
    assert "orders-3" in line_of(read(ask, known_topics))


@pytest.mark.parametrize(
    ("api_key", "version", "name"), [(999, 3, "API 999"), (ApiKey.METADATA, 99, "Metadata"), (78, 1, "ShareFetch")]
)
def test_unknown_apis_and_versions_are_bytes(api_key: int, version: int, name: str) -> None:
    request, response = raw(api_key, version, b"\0\1" * MAX_SHOWN_BYTES), b"\0\0\0\1\xff\xfe"
    document = json.loads(json_of(read(exchange_of(api_key, version, request, response), KnownTopics())))
    values = [document[key] for key in ("api", "version", "clientId", "request")]
    assert values == [name, version, "c", None]
    assert document["requestBytes"] == {"size": len(request) + 4, "hex": request[:MAX_SHOWN_BYTES].hex()}
    assert document["responseBytes"] == {"size": 10, "hex": "00000001fffe"}


def test_an_api_versions_that_the_broker_does_not_know_is_answered_in_version_0() -> None:
    response = struct.pack(">ihi", 1, 35, 1) + struct.pack(">hhh", 18, 0, 3)
    document = json.loads(json_of(read(exchange_of(18, 4, raw(18, 4, b"\0\1\1\0"), response), KnownTopics())))
    assert document["errors"] == ["UNSUPPORTED_VERSION"]
    assert document["response"]["apiKeys"] == [{"apiKey": 18, "minVersion": 0, "maxVersion": 3}]


SECRET = b"hunter2 is the secret"


@pytest.mark.parametrize(
    ("request_frame", "response"),
    [
        (frame_of(SaslAuthenticateRequest(auth_bytes=SECRET), 2), b""),
        (raw(ApiKey.SASL_AUTHENTICATE, 77, SECRET), b"\0\0\0\1" + SECRET),
        (raw(ApiKey.ENVELOPE, 0, SECRET), b"\0\0\0\1" + SECRET),
        (raw(ApiKey.SASL_AUTHENTICATE, 1, SECRET), SECRET),
        (
            frame_of(
                AlterUserScramCredentialsRequest(
                    deletions=[],
                    upsertions=[
                        ScramCredentialUpsertion(
                            name="u", mechanism=1, iterations=4096, salt=SECRET, salted_password=SECRET
                        )
                    ],
                ),
                0,
            ),
            b"",
        ),
        *(
            (frame_of(change_request(BROKER, "", (SET, key, SECRET.decode())), 1), b"")
            for key in (
                "listener.name.internal.ssl.keystore.password",
                "listener.name.a.scram-sha-256.sasl.jaas.config",
                "my.plugin.db.password",
            )
        ),
        (
            raw(ApiKey.CREATE_DELEGATION_TOKEN, 3),
            response_frame(
                CreateDelegationTokenResponse(
                    error_code=0,
                    principal_type="User",
                    principal_name="u",
                    token_requester_principal_type="User",
                    token_requester_principal_name="u",
                    issue_timestamp_ms=0,
                    expiry_timestamp_ms=0,
                    max_timestamp_ms=0,
                    token_id="t",
                    hmac=SECRET,
                ),
                3,
            ),
        ),
    ],
)
def test_secrets_are_masked(request_frame: bytes, response: bytes) -> None:
    key, version = struct.unpack_from(">hh", request_frame)
    assert SECRET in request_frame + response
    reading = read(exchange_of(key, version, request_frame, response), KnownTopics())
    for text in (json_of(reading), line_of(reading)):
        assert SECRET.decode() not in text
        assert SECRET.hex() not in text


def test_tokens_are_masked() -> None:
    exchange = exchange_of(-1, -1, SECRET, SECRET)
    exchange.kind = Kind.TOKEN
    document = json.loads(json_of(read(exchange, KnownTopics())))
    assert document["api"] == "SASL token"
    assert document["requestBytes"] == document["responseBytes"] == {"size": len(SECRET) + 4, "hidden": True}


def test_a_line_tells_what_when_and_how_long() -> None:
    beat = HeartbeatRequest(group_id="billing", generation_id=1, member_id="m")
    exchange = exchange_of(ApiKey.HEARTBEAT, 3, frame_of(beat, 3), response_frame(HeartbeatResponse(error_code=25), 3))
    exchange.began, exchange.ended_ms = (0, 10.0), 12.25
    words = line_of(read(exchange, KnownTopics())).split()
    assert words[1:9] == ["test", "127.0.0.1:50000", "Heartbeat", "v3", "group", "billing", "UNKNOWN_MEMBER_ID", "2.2"]
    assert words[9:] == [f"{exchange.bytes_in}/{exchange.bytes_out}"]


class _FullFile(io.StringIO):
    """A file on a full disk."""

    def write(self, text: str, /) -> int:
        raise OSError(28, "No space left on device")


def test_an_output_that_fails_is_told_of_once() -> None:
    failures: list[OSError] = []
    output = Output(_FullFile(), failures.append)
    assert output.write("one")
    assert output.write("two")
    output.close()
    assert [failure.errno for failure in failures] == [28]


def test_the_line_writer_shows_what_came_when_the_time_has_come() -> None:
    clock, file = ManualClock(), io.StringIO()
    output = Output(file, Mock())
    writer = LineWriter(clock, output, lambda reading: f"{reading.exchange.number}\n", str, Mock())
    beat = framed(frame_of(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3))
    exchange = Exchange(Kind.REQUEST, Origin("c", "b"))
    writer.begin(exchange, beat)
    clock.advance(3)
    writer.end(exchange, b"\0\0\0\0")
    assert exchange.ended_ms is not None
    assert exchange.ended_ms - exchange.began_ms == 3
    clock.advance(20)
    for _ in range(MAX_WAITING + 5):  # Above the limit of waiting exchanges, all are shown immediately.
        other = Exchange(Kind.REQUEST, Origin("c", "b"))
        writer.begin(other, b"")
        writer.end(other, b"")
    writer.close()
    assert file.getvalue().split() == [str(number + 1) for number in range(MAX_WAITING + 6)]


def test_frames_beyond_the_limit_are_cut_to_their_head() -> None:
    writer = LineWriter(ManualClock(), Output(io.StringIO(), Mock()), line_of, str, Mock())
    exchanges = [Exchange(Kind.REQUEST, Origin("c", "b")) for _ in range(40)]
    frame = bytes(1 << 22)
    for exchange in exchanges:
        writer.begin(exchange, frame)
    assert {len(exchange.request_frame) for exchange in exchanges} == {1 << 22, 1024}
    assert sum(len(exchange.request_frame) for exchange in exchanges) <= (1 << 26) + 40 * 1024


def test_complaints_are_told_once() -> None:
    complaints: list[str] = []
    writer = LineWriter(ManualClock(), None, line_of, str, complaints.append)
    for text in ("a", "b", "a"):
        writer.complain(text)
    assert complaints == ["a", "b"]


def test_every_api_that_is_read_has_an_endpoint() -> None:
    assert all(endpoint(route.key).api == route.message for route in READ)
