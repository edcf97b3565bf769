"""DescribeConfigs: what is configured, and where it comes from."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from minibroker.config import BROKER_KEYS, TOPIC_KEYS
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.broker.config.configs import BROKER, GROUP, LOGGER, METRICS, TOPIC, describe, put, rows, synonyms
from tests.broker.harness import Harness

TOPIC_SOURCE, BROKER_SOURCE, CLUSTER_SOURCE, STATIC, DEFAULT, LOGGER_SOURCE, METRICS_SOURCE, GROUP_SOURCE = range(1, 9)
Configured = Callable[[dict[str, str]], Harness]


def test_a_topic_is_described_with_all_of_its_keys(harness: Harness) -> None:
    harness.create("u", 1, retention_ms="1000", cleanup_policy="compact,delete")
    found = rows(harness, TOPIC, "u")
    assert found.keys() == {name for name, key in TOPIC_KEYS.items() if not key.is_internal}
    described = {name: (row.value, row.config_source, row.config_type) for name, row in found.items()}
    assert described["retention.ms"] == ("1000", TOPIC_SOURCE, 5)
    assert described["cleanup.policy"] == ("compact,delete", TOPIC_SOURCE, 7)
    assert described["max.message.bytes"] == ("1048588", DEFAULT, 3)
    assert not any(row.read_only or row.is_sensitive for row in found.values())


def test_synonyms_and_documentation_come_when_they_are_asked_for(harness: Harness) -> None:
    (row,) = rows(harness, TOPIC, "t", "max.message.bytes").values()
    assert (row.synonyms, row.documentation) == ([], None)
    assert synonyms(harness, TOPIC, "t", "max.message.bytes") == [("message.max.bytes", "1048588", DEFAULT)]
    (row,) = rows(harness, TOPIC, "t", "max.message.bytes", include_documentation=True).values()
    assert row.documentation == TOPIC_KEYS["max.message.bytes"].documentation


@pytest.mark.parametrize("version", range(5))
def test_every_version_tells_the_value(harness: Harness, version: int) -> None:
    (row,) = rows(harness, TOPIC, "t", "retention.ms", version=version).values()
    assert row.value == "604800000"
    assert row.is_default == (version == 0)
    assert row.config_source == (DEFAULT if version else -1)
    assert row.config_type == (5 if version >= 3 else 0)


def test_version_0_tells_what_was_set_from_what_was_not(harness: Harness) -> None:
    assert put(harness, TOPIC, "t", "retention.ms", "5000") == (0, None)
    found = rows(harness, TOPIC, "t", "retention.ms", "retention.bytes", version=0)
    assert {name: row.is_default for name, row in found.items()} == {"retention.ms": False, "retention.bytes": True}


def test_only_the_keys_that_are_asked_for_are_told(harness: Harness) -> None:
    assert list(rows(harness, TOPIC, "t", "retention.ms", "no.such.key")) == ["retention.ms"]
    assert not rows(harness, TOPIC, "t", "no.such.key")


def test_a_broker_describes_itself(configured: Configured) -> None:
    harness = configured({"node.id": "7", "log.retention.ms": "5000", "ssl.key.password": "secret", "unheard.of": "x"})
    found = rows(harness, BROKER, "7", include_synonyms=True)
    assert found.keys() == {name for name, key in BROKER_KEYS.items() if not key.is_internal} | {"unheard.of"}
    described = {name: (row.value, row.config_source, row.read_only, row.is_sensitive) for name, row in found.items()}
    assert described["node.id"] == ("7", STATIC, True, False)
    assert described["log.retention.ms"] == ("5000", STATIC, False, False)
    assert described["num.partitions"] == ("1", DEFAULT, True, False)
    assert described["ssl.key.password"] == (None, STATIC, False, True)
    assert described["unheard.of"] == (None, STATIC, True, True)
    assert [each.value for each in found["ssl.key.password"].synonyms] == [None]


def test_all_brokers_have_in_common_what_was_altered_for_all(harness: Harness) -> None:
    assert not rows(harness, BROKER, "")
    assert put(harness, BROKER, "", "log.retention.ms", "5000") == (0, None)
    assert put(harness, BROKER, "", "unheard.of", "x") == (0, None)
    found = rows(harness, BROKER, "")
    described = {name: (row.value, row.config_source, row.read_only, row.is_sensitive) for name, row in found.items()}
    assert described == {
        "log.retention.ms": ("5000", CLUSTER_SOURCE, False, False),
        "unheard.of": (None, CLUSTER_SOURCE, True, True),
    }


def test_sources_are_told_in_the_order_in_which_they_count(configured: Configured) -> None:
    harness = configured({"log.retention.ms": "1", "log.retention.hours": "3"})
    for name, text in {"": "2", str(harness.core.cluster.first.id): "3"}.items():
        assert put(harness, BROKER, name, "log.retention.ms", text) == (0, None)
    of_broker = [
        ("log.retention.ms", "3", BROKER_SOURCE),
        ("log.retention.ms", "2", CLUSTER_SOURCE),
        ("log.retention.ms", "1", STATIC),
        ("log.retention.hours", "3", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    ]
    assert synonyms(harness, BROKER, str(harness.core.cluster.first.id), "log.retention.ms") == of_broker
    assert synonyms(harness, TOPIC, "t", "retention.ms") == of_broker
    assert put(harness, TOPIC, "t", "retention.ms", "4") == (0, None)
    assert synonyms(harness, TOPIC, "t", "retention.ms") == [("retention.ms", "4", TOPIC_SOURCE), *of_broker]


def test_a_group_has_the_brokers_settings_and_its_own(harness: Harness) -> None:
    assert put(harness, GROUP, "g", "consumer.session.timeout.ms", "50000") == (0, None)
    assert synonyms(harness, GROUP, "g", "consumer.session.timeout.ms") == [
        ("consumer.session.timeout.ms", "50000", GROUP_SOURCE),
        ("group.consumer.session.timeout.ms", "45000", DEFAULT),
    ]
    (row,) = rows(harness, GROUP, "other", "consumer.session.timeout.ms").values()
    assert (row.value, row.config_source) == ("45000", DEFAULT)


def test_before_4_3_a_group_has_no_settings_of_the_broker_as_synonyms(tmp_path: Path) -> None:
    config = {"minibroker.emulate": "4.2", "group.consumer.session.timeout.ms": "46000"}
    with closing(Harness(str(tmp_path), config)) as harness:
        name = "consumer.session.timeout.ms"
        assert synonyms(harness, GROUP, "g", name) == [(name, "46000", DEFAULT)]
        assert put(harness, GROUP, "g", name, "50000") == (0, None)
        assert synonyms(harness, GROUP, "g", name) == [(name, "50000", GROUP_SOURCE)]


def test_a_subscription_to_client_metrics_is_described_also_before_it_is_made(harness: Harness) -> None:
    described = {name: (row.value, row.config_source) for name, row in rows(harness, METRICS, "m").items()}
    assert described == {"interval.ms": ("300000", DEFAULT), "match": ("", DEFAULT), "metrics": ("", DEFAULT)}
    assert put(harness, METRICS, "m", "interval.ms", "1000") == (0, None)
    assert synonyms(harness, METRICS, "m", "interval.ms") == [("interval.ms", "1000", METRICS_SOURCE)]


def test_loggers_tell_their_levels(harness: Harness) -> None:
    found = rows(harness, LOGGER, str(harness.core.cluster.first.id))
    assert {"root", "minibroker", "minibroker.cluster.logs.log_manager"} <= found.keys()
    row = found["root"]
    assert (row.config_source, row.config_type, row.read_only) == (LOGGER_SOURCE, 0, False)
    assert row.value in {"DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN"}


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (BROKER, "1" * 5000, ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {'1' * 5000}"),
        (LOGGER, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (METRICS, "", ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
        (GROUP, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
    ],
)
def test_what_cannot_be_described_is_refused_as_kafka_refuses_it(
    harness: Harness, kind: int, name: str, code: ErrorCode, message: str
) -> None:
    result = describe(harness, kind, name)
    assert (result.error_code, result.error_message, result.configs) == (code, message, [])


def test_a_type_that_does_not_exist_spoils_the_whole_request(harness: Harness) -> None:
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name="t", configuration_keys=None) for kind in (TOPIC, 1)
    ]
    results = harness.ask(DescribeConfigsRequest(resources=resources), 4).results
    assert [(each.error_code, each.configs) for each in results] == [(ErrorCode.INVALID_REQUEST, [])] * 2
