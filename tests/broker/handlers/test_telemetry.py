"""GetTelemetrySubscriptions and PushTelemetry."""

import pytest

from minibroker.cluster.routing.outcomes import Answer
from minibroker.server import telemetry
from minibroker.server.requests.dispatch import accept
from minibroker.server.telemetry import PUSHES_PER_CLIENT, ClientMetric, TelemetryPush, read_metrics
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.telemetry import GetTelemetrySubscriptionsRequest
from minibroker_protocol.primitives import ZERO_UUID, uuid_text
from minibroker_protocol.records.compression import compress
from minibroker_protocol.records.header import CompressionCodec
from tests.broker.config.configs import METRICS, OK, put
from tests.broker.harness import Harness, frame_of
from tests.broker.telemetry import CLIENT, OTHER, ask, counter, gauge, push


def subscribe(harness: Harness, name: str = "m", **keys: str) -> None:
    """Set keys of a subscription. `interval_ms` stands for interval.ms."""
    for key, text in keys.items():
        assert put(harness, METRICS, name, key.replace("_", "."), text) == OK


def test_without_a_subscription_nothing_is_wanted(harness: Harness) -> None:
    response = ask(harness)
    assert response.error_code == 0
    assert response.client_instance_id == CLIENT
    assert response.requested_metrics == []
    assert response.push_interval_ms == 300_000
    assert response.accepted_compression_types == [4, 3, 1, 2]
    assert response.telemetry_max_bytes == 1_048_576
    assert response.delta_temporality


def test_a_client_without_an_id_is_given_one(harness: Harness) -> None:
    first, second = ask(harness, ZERO_UUID).client_instance_id, ask(harness, ZERO_UUID).client_instance_id
    assert ZERO_UUID not in {first, second}
    assert first != second


def test_subscriptions_that_match_are_put_together(harness: Harness) -> None:
    subscribe(harness, "one", metrics="b.,a.", interval_ms="5000", match="client_id=te.*")
    subscribe(harness, "two", metrics="a.,c.", interval_ms="1000")
    subscribe(harness, "other", metrics="d.", interval_ms="100", match="client_id=other")
    response = ask(harness)
    assert response.requested_metrics == ["a.", "b.", "c."]
    assert response.push_interval_ms == 1_000


def test_a_subscription_to_everything_stands_for_all_others(harness: Harness) -> None:
    subscribe(harness, "one", metrics="a.")
    subscribe(harness, "two", metrics="*")
    assert ask(harness).requested_metrics == ["*"]


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        (f"client_instance_id={uuid_text(CLIENT)}", True),
        ("client_id=test", True),
        ("client_id=tes", False),
        ("client_software_name=a-.*,client_software_version=1\\..*", True),
        ("client_software_name=a-.*,client_software_version=2\\..*", False),
        ("client_source_address=127\\.0\\.0\\.1", True),
        ("client_source_address=10\\..*", False),
        ("client_source_port=1234", True),
        ("client_source_port=123", False),
    ],
)
def test_clients_are_known_by_what_they_say_of_themselves(harness: Harness, match: str, *, matches: bool) -> None:
    subscribe(harness, metrics="a.", match=match)
    session = harness.session()
    session.client_port = 1234
    hello = ApiVersionsRequest(client_software_name="a-client", client_software_version="1.2")
    accept(memoryview(bytearray(frame_of(hello, 3))), session)
    question = GetTelemetrySubscriptionsRequest(client_instance_id=CLIENT)
    answer = accept(memoryview(bytearray(frame_of(question, 0))), session)
    assert isinstance(answer, Answer)
    assert answer.response.requested_metrics == (["a."] if matches else [])


def test_who_asks_again_before_its_time_is_throttled(harness: Harness) -> None:
    subscribe(harness, interval_ms="1000")
    assert ask(harness).error_code == 0
    harness.clock.advance(999)
    assert ask(harness).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    harness.clock.advance(1)
    assert ask(harness).error_code == 0


def test_a_change_of_the_subscriptions_is_told_at_once_and_has_another_id(harness: Harness) -> None:
    before = ask(harness)
    subscribe(harness, metrics="a.")
    after = ask(harness)
    assert (after.error_code, after.requested_metrics) == (0, ["a."])
    assert before.subscription_id != after.subscription_id
    assert ask(harness, OTHER).subscription_id != after.subscription_id


def test_who_was_told_that_its_subscription_is_unknown_may_ask_at_once(harness: Harness) -> None:
    subscription_id = ask(harness).subscription_id
    assert push(harness, subscription_id + 1) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert ask(harness).error_code == 0


def test_subscriptions_survive_a_restart(harness: Harness) -> None:
    subscribe(harness, metrics="a.")
    harness.restart()
    assert ask(harness).requested_metrics == ["a."]


MINUTES_5 = 300_000


def test_what_is_sent_is_kept(harness: Harness) -> None:
    data = gauge("a.b", 1.5, topic="t") + counter("c", -7)
    assert push(harness, ask(harness).subscription_id, data) == 0
    (saved,) = harness.services.telemetry.pushes()
    assert saved == TelemetryPush(
        uuid_text(CLIENT), "test", "/127.0.0.1", harness.clock.now_ms(), is_last=False, data=data
    )
    assert saved.metrics() == [ClientMetric("a.b", 1.5, {"topic": "t"}), ClientMetric("c", -7, {})]


@pytest.mark.parametrize("codec", CompressionCodec)
def test_every_codec_is_taken(harness: Harness, codec: CompressionCodec) -> None:
    data = gauge("a", 1.0, filler="x" * (3_000_000 if codec else 1_000))
    packed = data if codec is CompressionCodec.NONE else compress(codec, data)
    assert push(harness, ask(harness).subscription_id, packed, compression_type=codec) == 0
    assert [saved.data for saved in harness.services.telemetry.pushes()] == [data]


def test_the_last_ones_of_each_client_are_kept(harness: Harness) -> None:
    subscription_id = ask(harness).subscription_id
    for number in range(PUSHES_PER_CLIENT + 3):
        assert push(harness, subscription_id, gauge("a", number)) == 0
        harness.clock.advance(MINUTES_5)
    values = [metric.value for saved in harness.services.telemetry.pushes() for metric in saved.metrics()]
    assert values == list(range(3, PUSHES_PER_CLIENT + 3))
    harness.services.telemetry.forget()
    assert harness.services.telemetry.pushes() == []


def test_what_clients_send_costs_bounded_memory_whoever_they_say_they_are(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "_MAX_KEPT_BYTES", 2500)

    def send(client: bytes) -> None:
        data = gauge("a", 1.0, filler="x" * 900)
        subscription_id = ask(harness, client).subscription_id
        assert push(harness, subscription_id, data, client=client, terminating=True) == 0

    def kept() -> int:
        return sum(len(saved.data) for saved in harness.services.telemetry.pushes())

    for number in range(20, 30):
        send(bytes([number]) * 16)
        assert kept() <= 2500
    subscription_id = ask(harness).subscription_id
    for _ in range(5):
        assert push(harness, subscription_id, gauge("a", 1.0, filler="x" * 900)) == 0
        assert kept() <= 2500
        harness.clock.advance(MINUTES_5)
    assert kept() > 1000


def test_who_sends_before_its_time_is_throttled_but_for_its_last_metrics(harness: Harness) -> None:
    subscription_id = ask(harness).subscription_id
    assert push(harness, subscription_id, gauge("a", 1)) == 0
    assert push(harness, subscription_id, gauge("a", 2)) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(harness, subscription_id, gauge("a", 3), terminating=True) == 0
    assert push(harness, subscription_id, gauge("a", 4)) == ErrorCode.INVALID_REQUEST
    assert [saved.is_last for saved in harness.services.telemetry.pushes()] == [False, True]


def test_a_change_of_the_subscriptions_makes_the_old_one_unknown(harness: Harness) -> None:
    subscription_id = ask(harness).subscription_id
    assert put(harness, METRICS, "m", "metrics", "a.") == OK
    assert push(harness, subscription_id, gauge("a", 1)) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    subscription_id = ask(harness).subscription_id
    harness.clock.advance(MINUTES_5)
    assert push(harness, subscription_id, gauge("a", 1)) == 0


def test_a_client_that_was_silent_for_long_is_a_new_one(harness: Harness) -> None:
    subscription_id = ask(harness).subscription_id
    assert push(harness, subscription_id, terminating=True) == 0
    harness.clock.advance(3 * MINUTES_5 + 1)
    assert push(harness, subscription_id) == 0


@pytest.mark.parametrize("client", [ZERO_UUID, bytes(15) + b"\1"])
def test_an_id_that_kafka_gives_nobody_is_refused(harness: Harness, client: bytes) -> None:
    assert push(harness, 0, client=client) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("data", "codec", "code"),
    [
        (b"x", 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (b"junk", 1, ErrorCode.INVALID_RECORD),
        (bytes(1_048_577), 0, ErrorCode.TELEMETRY_TOO_LARGE),
    ],
)
def test_what_cannot_be_metrics_is_refused(harness: Harness, data: bytes, codec: int, code: ErrorCode) -> None:
    assert push(harness, ask(harness).subscription_id, data, compression_type=codec) == code
    assert harness.services.telemetry.pushes() == []


def test_metrics_that_unpack_to_too_much_are_refused(harness: Harness) -> None:
    limit = ask(harness).telemetry_max_bytes
    subscription_id = ask(harness, OTHER).subscription_id
    packed = compress(CompressionCodec.GZIP, bytes(4 * limit))
    assert push(harness, subscription_id, packed, client=OTHER, compression_type=1) == ErrorCode.NONE
    harness.clock.advance(10 * 60_000)
    packed = compress(CompressionCodec.GZIP, bytes(4 * limit + 1))
    assert push(harness, subscription_id, packed, client=OTHER, compression_type=1) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x05ab", b"\x0b", gauge("a", 1)[:-1]])
def test_bytes_that_are_no_metrics_are_said_to_be_none(data: bytes) -> None:
    with pytest.raises(ValueError, match="no OTLP metrics"):
        read_metrics(data)
