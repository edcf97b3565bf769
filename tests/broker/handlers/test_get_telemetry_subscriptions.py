"""GetTelemetrySubscriptions: what a client should send."""

import pytest

from minibroker.cluster.routing.outcomes import Answer
from minibroker.server.requests.dispatch import accept
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.api_versions import ApiVersionsRequest
from minibroker_protocol.messages.telemetry import GetTelemetrySubscriptionsRequest
from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.uuids import uuid_text
from tests.broker.config.configs import METRICS, OK, put
from tests.broker.harness import Harness, frame_of
from tests.broker.telemetry import CLIENT, OTHER, ask, push


def subscribe(harness: Harness, name: str = "m", **keys: str) -> None:
    """Set keys of a subscription; `interval_ms` stands for interval.ms."""
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
    known = ask(harness).subscription_id
    assert push(harness, known + 1) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert ask(harness).error_code == 0


def test_subscriptions_survive_a_restart(harness: Harness) -> None:
    subscribe(harness, metrics="a.")
    harness.restart()
    assert ask(harness).requested_metrics == ["a."]
