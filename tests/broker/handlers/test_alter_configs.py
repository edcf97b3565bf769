"""AlterConfigs: whole configurations."""

import pytest

from minibroker_protocol.error_codes import ErrorCode
from tests.broker.config.configs import BROKER, GROUP, LOGGER, METRICS, OK, TOPIC, put, replace, rows, value
from tests.broker.harness import Harness

INVALID_REQUEST = ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(3))
def test_what_is_not_named_goes_back_to_its_default(harness: Harness, version: int) -> None:
    assert put(harness, TOPIC, "t", "retention.ms", "5") == OK
    assert replace(harness, TOPIC, "t", {"segment.ms": "6"}, version=version) == OK
    found = rows(harness, TOPIC, "t", "retention.ms", "segment.ms")
    assert (found["retention.ms"].value, found["segment.ms"].value) == ("604800000", "6")
    assert replace(harness, TOPIC, "t", {}, version=version) == OK
    assert value(harness, TOPIC, "t", "segment.ms") == "604800000"


@pytest.mark.parametrize(
    ("kind", "name", "key", "text"),
    [
        (BROKER, "1", "log.retention.ms", "5"),
        (BROKER, "", "log.retention.ms", "5"),
        (METRICS, "m", "interval.ms", "1000"),
        (GROUP, "g", "consumer.session.timeout.ms", "50000"),
    ],
)
def test_all_that_is_kept_can_be_replaced(harness: Harness, kind: int, name: str, key: str, text: str) -> None:
    assert replace(harness, kind, name, {key: text}, validate_only=True) == OK
    assert harness.core.metadata.read("configs") is None
    assert replace(harness, kind, name, {key: text}) == OK
    assert value(harness, kind, name, key) == text
    assert replace(harness, kind, name, {}) == OK
    found = rows(harness, kind, name, key)
    assert key not in found or found[key].value != text


@pytest.mark.parametrize(
    ("kind", "name", "texts", "code", "message"),
    [
        (TOPIC, "t", {"segment.ms": None}, INVALID_REQUEST, "Null value not supported for : segment.ms"),
        (TOPIC, "t", {"nonsense": "1"}, ErrorCode.INVALID_CONFIG, "Unknown topic config name: nonsense"),
        (TOPIC, "nowhere", {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nowhere' does not exist."),
        (BROKER, "1", {"node.id": "9"}, INVALID_REQUEST, "Cannot update these configs dynamically: Set(node.id)"),
        (LOGGER, "1", {"root": "INFO"}, INVALID_REQUEST, "Unknown resource type 8"),
        (1, "t", {}, INVALID_REQUEST, "Unknown resource type 1"),
    ],
)
def test_what_is_not_allowed_is_refused_as_kafka_refuses_it(
    harness: Harness, kind: int, name: str, texts: dict[str, str | None], code: ErrorCode, message: str
) -> None:
    assert put(harness, TOPIC, "t", "retention.ms", "5") == OK
    assert replace(harness, kind, name, texts) == (code, message)
    assert value(harness, TOPIC, "t", "retention.ms") == "5"
