"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources.

Some tests configure one of several brokers or all of them, and some send as many keys as Kafka's controller writes at
once, or more. These tests are one file because their handlers are one module.
"""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker.cluster.cluster_metadata import ClusterFileError
from minibroker.cluster.topic_admin import MAX_RECORDS
from minibroker.config import BROKER_KEYS, TOPIC_KEYS
from minibroker.config.keys import ConfigResourceType
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ListConfigResourcesRequest,
)
from tests.broker.config.configs import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    LOGGER,
    METRICS,
    OK,
    SET,
    SUBTRACT,
    TOPIC,
    change,
    change_request,
    describe,
    put,
    replace,
    rows,
    synonyms,
    value,
)
from tests.broker.harness import Configured, Harness, batch

TOPIC_SOURCE, BROKER_SOURCE, CLUSTER_SOURCE, STATIC, DEFAULT, LOGGER_SOURCE, METRICS_SOURCE, GROUP_SOURCE = range(1, 9)


def test_a_topic_is_described_with_all_of_its_keys(harness: Harness) -> None:
    harness.create("u", 1, retention_ms="1000", cleanup_policy="compact,delete")
    configs = rows(harness, TOPIC, "u")
    assert configs.keys() == {name for name, key in TOPIC_KEYS.items() if not key.is_internal}
    described = {name: (row.value, row.config_source, row.config_type) for name, row in configs.items()}
    assert described["retention.ms"] == ("1000", TOPIC_SOURCE, 5)
    assert described["cleanup.policy"] == ("compact,delete", TOPIC_SOURCE, 7)
    assert described["max.message.bytes"] == ("1048588", DEFAULT, 3)
    assert not any(row.read_only or row.is_sensitive for row in configs.values())


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
    described = rows(harness, TOPIC, "t", "retention.ms", "retention.bytes", version=0)
    assert {name: row.is_default for name, row in described.items()} == {"retention.ms": False, "retention.bytes": True}


def test_only_the_keys_that_are_asked_for_are_told(harness: Harness) -> None:
    assert list(rows(harness, TOPIC, "t", "retention.ms", "no.such.key")) == ["retention.ms"]
    assert not rows(harness, TOPIC, "t", "no.such.key")


def test_a_broker_describes_itself(configured: Configured) -> None:
    harness = configured({"node.id": "7", "log.retention.ms": "5000", "ssl.key.password": "secret", "unheard.of": "x"})
    configs = rows(harness, BROKER, "7", include_synonyms=True)
    assert configs.keys() == {name for name, key in BROKER_KEYS.items() if not key.is_internal} | {"unheard.of"}
    described = {name: (row.value, row.config_source, row.read_only, row.is_sensitive) for name, row in configs.items()}
    assert described["node.id"] == ("7", STATIC, True, False)
    assert described["log.retention.ms"] == ("5000", STATIC, False, False)
    assert described["num.partitions"] == ("1", DEFAULT, True, False)
    assert described["ssl.key.password"] == (None, STATIC, False, True)
    assert described["unheard.of"] == (None, STATIC, True, True)
    assert [synonym.value for synonym in configs["ssl.key.password"].synonyms] == [None]


def test_all_brokers_have_in_common_what_was_altered_for_all(harness: Harness) -> None:
    assert not rows(harness, BROKER, "")
    assert put(harness, BROKER, "", "log.retention.ms", "5000") == (0, None)
    assert put(harness, BROKER, "", "unheard.of", "x") == (0, None)
    configs = rows(harness, BROKER, "")
    described = {name: (row.value, row.config_source, row.read_only, row.is_sensitive) for name, row in configs.items()}
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


def test_before_4_3_a_group_has_no_settings_of_the_broker_as_synonyms(configured: Configured) -> None:
    config = {"minibroker.emulate": "4.2", "group.consumer.session.timeout.ms": "46000"}
    harness, name = configured(config), "consumer.session.timeout.ms"
    assert synonyms(harness, GROUP, "g", name) == [(name, "46000", DEFAULT)]
    assert put(harness, GROUP, "g", name, "50000") == (0, None)
    assert synonyms(harness, GROUP, "g", name) == [(name, "50000", GROUP_SOURCE)]


def test_a_subscription_to_client_metrics_is_described_also_before_it_is_made(harness: Harness) -> None:
    described = {name: (row.value, row.config_source) for name, row in rows(harness, METRICS, "m").items()}
    assert described == {"interval.ms": ("300000", DEFAULT), "match": ("", DEFAULT), "metrics": ("", DEFAULT)}
    assert put(harness, METRICS, "m", "interval.ms", "1000") == (0, None)
    assert synonyms(harness, METRICS, "m", "interval.ms") == [("interval.ms", "1000", METRICS_SOURCE)]


def test_loggers_tell_their_levels(harness: Harness) -> None:
    loggers = rows(harness, LOGGER, str(harness.core.cluster.first.id))
    assert {"root", "minibroker", "minibroker.cluster.logs.log_manager"} <= loggers.keys()
    row = loggers["root"]
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
    assert [(result.error_code, result.configs) for result in results] == [(ErrorCode.INVALID_REQUEST, [])] * 2


INVALID_CONFIG, INVALID_REQUEST = ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(3))
def test_what_is_not_named_goes_back_to_its_default(harness: Harness, version: int) -> None:
    assert put(harness, TOPIC, "t", "retention.ms", "5") == OK
    assert replace(harness, TOPIC, "t", {"segment.ms": "6"}, version=version) == OK
    described = rows(harness, TOPIC, "t", "retention.ms", "segment.ms")
    assert (described["retention.ms"].value, described["segment.ms"].value) == ("604800000", "6")
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
    described = rows(harness, kind, name, key)
    assert key not in described or described[key].value != text


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


NODE = "1"


THROTTLED = "leader.replication.throttled.replicas"


def test_a_topics_key_counts_at_once_and_after_a_restart(harness: Harness) -> None:
    assert put(harness, TOPIC, "t", "max.message.bytes", "100") == OK
    assert harness.produce(batch(b"x" * 200)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    harness.restart()
    assert value(harness, TOPIC, "t", "max.message.bytes") == "100"
    assert put(harness, TOPIC, "t", "max.message.bytes", None) == OK
    assert harness.produce(batch(b"x" * 200)).error_code == 0
    assert value(harness, TOPIC, "t", "max.message.bytes") == "1048588"


def test_other_keys_stay_as_they_are(harness: Harness) -> None:
    assert change(harness, TOPIC, "t", (SET, "retention.ms", "1"), (SET, "segment.ms", "2")) == OK
    assert change(harness, TOPIC, "t", (SET, "retention.ms", "3"), (DELETE, "segment.bytes", None)) == OK
    assert dict(harness.topic().config.overrides) == {"retention.ms": "3", "segment.ms": "2"}


def test_items_are_appended_to_lists_and_taken_away(harness: Harness) -> None:
    steps = [
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact,delete", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "compact", ""),
        (APPEND, "delete", "delete"),
    ]
    for operation, items, then in steps:
        assert change(harness, TOPIC, "t", (operation, "cleanup.policy", items)) == OK
        assert value(harness, TOPIC, "t", "cleanup.policy") == then


def test_with_validate_only_nothing_changes(harness: Harness) -> None:
    assert change(harness, TOPIC, "t", (SET, "retention.ms", "5"), validate_only=True) == OK
    refused = change(harness, TOPIC, "t", (SET, "retention.ms", "x"), validate_only=True)
    assert refused[0] == INVALID_CONFIG
    assert value(harness, TOPIC, "t", "retention.ms") == "604800000"


@pytest.mark.parametrize(
    ("name", "changes", "code", "message"),
    [
        (
            "t",
            [(APPEND, "retention.ms", "5")],
            INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            "t",
            [(SET, "retention.ms", None), (APPEND, THROTTLED, None)],
            INVALID_REQUEST,
            f"Null value not supported for : retention.ms, {THROTTLED}",
        ),
        (
            "t",
            [(SET, "retention.ms", "1"), (SET, "retention.ms", "2")],
            INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        ("t", [(7, "retention.ms", "1")], INVALID_REQUEST, "Unknown operations type 7"),
        (
            "nowhere",
            [(SET, "retention.ms", "1")],
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'nowhere' does not exist.",
        ),
        ("", [(SET, "retention.ms", "1")], INVALID_REQUEST, "Default topic resources are not allowed."),
        (
            ".",
            [(SET, "retention.ms", "1")],
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: '.' is not allowed",
        ),
    ],
)
def test_what_a_topic_cannot_have_is_refused_as_kafka_refuses_it(
    harness: Harness, name: str, changes: list[tuple[int, str, str | None]], code: int, message: str | None
) -> None:
    assert change(harness, TOPIC, name, *changes) == (code, message)
    assert not harness.topic().config.overrides


def test_each_resource_may_appear_once_and_has_its_own_outcome(harness: Harness) -> None:
    request = change_request(TOPIC, "t", (SET, "retention.ms", "1"), times=2)
    request.resources += change_request(TOPIC, "nowhere").resources + change_request(GROUP, "g").resources
    results = [(response.error_code, response.error_message) for response in harness.ask(request, 0).responses]
    twice = (INVALID_REQUEST, "Each resource must appear at most once.")
    missing = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nowhere' does not exist.")
    assert results == [twice, twice, missing, OK]


@pytest.mark.parametrize("kind", [0, 1, 3, 64, -1])
def test_a_type_that_does_not_exist_is_refused(harness: Harness, kind: int) -> None:
    assert put(harness, kind, "x", "a", "b") == (INVALID_REQUEST, f"Unknown resource type {kind}")


def test_a_disk_that_refuses_leaves_the_topic_as_it_was(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(28, "No space left on device", "file")

    monkeypatch.setattr(harness.core.topics, "save", refuse)
    code, message = put(harness, TOPIC, "t", "retention.ms", "5")
    assert (code, message) == (ErrorCode.KAFKA_STORAGE_ERROR, "file: No space left on device")
    assert value(harness, TOPIC, "t", "retention.ms") == "604800000"


@pytest.mark.parametrize("name", [NODE, ""])
def test_a_brokers_key_counts_at_once_for_topics_and_after_a_restart(harness: Harness, name: str) -> None:
    assert put(harness, BROKER, name, "message.max.bytes", "100") == OK
    assert harness.produce(batch(b"x" * 200)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    harness.create("u")
    assert harness.produce(batch(b"x" * 200), "u").error_code == ErrorCode.MESSAGE_TOO_LARGE
    harness.restart()
    assert harness.produce(batch(b"x" * 200)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert put(harness, BROKER, name, "message.max.bytes", None) == OK
    assert harness.produce(batch(b"x" * 200)).error_code == 0


def test_a_broker_counts_before_all_brokers_and_a_topic_before_both(harness: Harness) -> None:
    for name, text in {"": "1000", NODE: "2000"}.items():
        assert put(harness, BROKER, name, "log.retention.ms", text) == OK
    assert value(harness, TOPIC, "t", "retention.ms") == "2000"
    assert put(harness, TOPIC, "t", "retention.ms", "3000") == OK
    assert put(harness, BROKER, NODE, "log.retention.ms", None) == OK
    assert value(harness, TOPIC, "t", "retention.ms") == "3000"
    assert put(harness, TOPIC, "t", "retention.ms", None) == OK
    assert value(harness, TOPIC, "t", "retention.ms") == "1000"


def test_the_cleaner_and_the_verification_of_transactions_follow_the_broker(harness: Harness) -> None:
    before = harness.services.transactions.verifies
    assert put(harness, BROKER, NODE, "transaction.partition.verification.enable", "false") == OK
    assert put(harness, BROKER, NODE, "log.cleaner.backoff.ms", "20") == OK
    assert (before, harness.services.transactions.verifies) == (True, False)
    assert harness.core.config.integer("log.cleaner.backoff.ms") == 20


def test_a_topic_whose_override_no_longer_fits_keeps_it(harness: Harness) -> None:
    assert put(harness, TOPIC, "t", "min.compaction.lag.ms", "1000") == OK
    assert put(harness, BROKER, "", "log.cleaner.max.compaction.lag.ms", "10") == OK
    described = rows(harness, TOPIC, "t", "min.compaction.lag.ms", "max.compaction.lag.ms")
    assert {name: row.value for name, row in described.items()} == {
        "min.compaction.lag.ms": "1000",
        "max.compaction.lag.ms": "10",
    }


NOT_AT_RUN_TIME = "Cannot update these configs dynamically: Set"


NOT_FOR_ALL = "Cannot update these configs at default cluster level, broker id must be specified: Set"


IN_A_PART = (
    "Invalid value org.apache.kafka.common.config.ConfigException: {} for configuration Invalid dynamic configuration"
)


THREADS = "Dynamic thread count update validation failed for background.threads"


@pytest.mark.parametrize(
    ("name", "key", "text", "message"),
    [
        (NODE, "node.id", "5", f"{NOT_AT_RUN_TIME}(node.id)"),
        ("", "sasl.enabled.mechanisms", "PLAIN", f"{NOT_FOR_ALL}(sasl.enabled.mechanisms)"),
        (
            NODE,
            "ssl.keystore.location",
            "/x",
            (
                "These security configs can be dynamically updated only per-listener using the listener prefix: "
                "HashSet(ssl.keystore.location)"
            ),
        ),
        (
            NODE,
            "background.threads",
            "4",
            IN_A_PART.format(f"{THREADS}=4, value should be at least half the current value 10"),
        ),
        (NODE, "listeners", "PLAINTEXT://a:1", "listeners cannot be altered while minibroker runs"),
        (NODE, "advertised.listeners", "a:1", "advertised.listeners: 'a:1' is not NAME://HOST:PORT"),
        ("5", "log.retention.ms", "1", "Unexpected broker id, expected 1, but received 5"),
        ("x", "log.retention.ms", "1", "Node id must be an integer, but it is: x"),
    ],
)
def test_what_a_broker_cannot_have_is_refused_as_kafka_refuses_it(
    harness: Harness, name: str, key: str, text: str, message: str
) -> None:
    assert put(harness, BROKER, name, key, text) == (INVALID_REQUEST, message)
    assert harness.core.metadata.read("configs") is None


def test_what_does_not_go_together_is_refused(harness: Harness) -> None:
    code, message = put(harness, BROKER, NODE, "log.cleaner.dedupe.buffer.size", "10")
    assert code == INVALID_REQUEST
    assert message is not None
    assert "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread." in message


def test_a_broker_keeps_what_nobody_knows_and_does_not_show_it(harness: Harness) -> None:
    for name in ("unheard.of", "listener.name.plaintext.ssl.keystore.password", "leader.replication.throttled.rate"):
        assert put(harness, BROKER, NODE, name, "100") == OK
    configs = rows(harness, BROKER, NODE)
    described = {
        name: (configs[name].value, configs[name].config_type, configs[name].read_only) for name in list(configs)[-3:]
    }
    assert described == {
        "unheard.of": (None, 0, True),
        "listener.name.plaintext.ssl.keystore.password": (None, 9, True),
        "leader.replication.throttled.rate": ("100", 5, True),
    }


def test_lists_of_brokers_are_appended_to(harness: Harness) -> None:
    assert change(harness, BROKER, NODE, (APPEND, "log.cleanup.policy", "compact")) == OK
    assert value(harness, BROKER, NODE, "log.cleanup.policy") == "delete,compact"
    message = "Config value append is not allowed for config key: log.retention.ms"
    assert change(harness, BROKER, NODE, (APPEND, "log.retention.ms", "5")) == (INVALID_CONFIG, message)


def test_what_was_altered_is_in_a_file_of_its_own(harness: Harness) -> None:
    assert put(harness, BROKER, "", "log.retention.ms", "5") == OK
    assert put(harness, GROUP, "g", "consumer.session.timeout.ms", "50000") == OK
    saved = json.loads(Path(harness.data_dir, "minibroker-cluster.json").read_text())["sections"]["configs"]
    assert saved == {
        "brokers": {"": {"log.retention.ms": "5"}},
        "groups": {"g": {"consumer.session.timeout.ms": "50000"}},
    }
    assert put(harness, GROUP, "g", "consumer.session.timeout.ms", None) == OK
    assert harness.core.metadata.read("configs")["groups"] == {}


def test_what_cannot_count_any_more_is_said_and_left_out(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    harness.core.metadata.write("configs", {"brokers": {"": {"log.retention.ms": "never"}}})
    harness.restart()
    assert "What was altered for brokers does not count" in caplog.text
    assert value(harness, TOPIC, "t", "retention.ms") == "604800000"
    assert value(harness, BROKER, NODE, "log.retention.ms") is None


def test_groups_and_subscriptions_that_cannot_count_any_more_are_said_and_left_out(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    saved = {"groups": {"g": {"nonsense": "1"}}, "client_metrics": {"m": {"interval.ms": "x"}, "n": {"metrics": "*"}}}
    harness.core.metadata.write("configs", saved)
    harness.restart()
    assert "What was altered for g does not count: Unknown group config name: nonsense" in caplog.text
    assert harness.core.configs.group("g").integer("consumer.session.timeout.ms") == 45_000
    assert list(harness.core.configs.all_of(ConfigResourceType.CLIENT_METRICS)) == ["n"]


@pytest.mark.parametrize("damaged", [[], {"brokers": []}, {"brokers": {"": "x"}}, {"brokers": {"": {"a": 1}}}])
def test_a_section_of_another_form_is_said_to_be_damaged(harness: Harness, damaged: object) -> None:
    harness.core.metadata.write("configs", damaged)
    with pytest.raises(ClusterFileError, match="the section configs is damaged"):
        harness.restart()
    harness.core.metadata.write("configs", None)
    harness.start()


def test_a_reset_gives_back_what_there_was_at_the_start(harness: Harness) -> None:
    assert put(harness, BROKER, "", "log.retention.ms", "5") == OK
    harness.core.metadata.write_first(harness.data_dir)
    harness.core.metadata.load()
    assert value(harness, TOPIC, "t", "retention.ms") == "604800000"


def test_a_groups_key_counts_when_it_is_next_asked_for(harness: Harness) -> None:
    assert put(harness, GROUP, "g", "consumer.heartbeat.interval.ms", "7000") == OK
    assert harness.core.configs.group("g").integer("consumer.heartbeat.interval.ms") == 7_000
    assert harness.core.configs.group("other").integer("consumer.heartbeat.interval.ms") == 5_000


@pytest.mark.parametrize(
    ("name", "key", "text", "code", "message"),
    [
        ("", "consumer.session.timeout.ms", "50000", INVALID_REQUEST, "Default group resources are not allowed."),
        ("g", "streams.warmup", "5", INVALID_CONFIG, "Unknown group config name: streams.warmup"),
    ],
)
def test_what_a_group_cannot_have_is_refused(
    harness: Harness, name: str, key: str, text: str, code: ErrorCode, message: str
) -> None:
    assert put(harness, GROUP, name, key, text) == (code, message)


@pytest.mark.parametrize(
    ("name", "key", "text", "code", "message"),
    [
        ("", "metrics", "*", INVALID_REQUEST, "Subscription name can't be empty"),
        ("m", "nonsense", "x", INVALID_REQUEST, "Unknown client metrics configuration: nonsense"),
        (
            "m",
            "match",
            "client_id=a{9999999999}",
            INVALID_CONFIG,
            "Illegal client matching pattern: client_id=a{9999999999}",
        ),
    ],
)
def test_what_a_subscription_cannot_have_is_refused_as_kafka_refuses_it(
    harness: Harness, name: str, key: str, text: str, code: ErrorCode, message: str
) -> None:
    assert put(harness, METRICS, name, key, text) == (code, message)


@pytest.fixture
def _levels() -> Iterator[None]:
    logger = logging.getLogger("minibroker")
    before = logger.level
    yield
    logger.setLevel(before)


@pytest.mark.usefixtures("_levels")
def test_a_loggers_level_counts_until_the_broker_stops(harness: Harness) -> None:
    logger = logging.getLogger("minibroker.cluster.logs.log_manager")
    before = logger.level
    assert put(harness, LOGGER, NODE, "minibroker.cluster.logs.log_manager", "TRACE") == OK
    assert (logger.level, value(harness, LOGGER, NODE, "minibroker.cluster.logs.log_manager")) == (5, "TRACE")
    assert put(harness, LOGGER, NODE, "minibroker.cluster.logs.log_manager", None) == OK
    assert logger.level == logging.NOTSET
    assert put(harness, LOGGER, NODE, "root", "FATAL") == OK
    assert value(harness, LOGGER, NODE, "minibroker.cluster.logs.log_manager") == "FATAL"
    assert logging.getLogger("minibroker").level == logging.CRITICAL
    assert put(harness, LOGGER, NODE, "minibroker.cluster.logs.log_manager", "ERROR") == OK
    harness.restart()
    assert logger.level == before
    assert logging.getLogger("minibroker").level != logging.CRITICAL


VALID = "is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"


@pytest.mark.parametrize(
    ("operation", "logger", "level", "code", "message"),
    [
        (SET, "root", "debug", INVALID_CONFIG, f"Cannot set the log level of root to debug as it {VALID}"),
        (SET, "no.such.logger", "INFO", INVALID_CONFIG, "Logger no.such.logger does not exist!"),
        (DELETE, "no.such.logger", None, INVALID_CONFIG, "Logger no.such.logger does not exist!"),
        (DELETE, "root", None, INVALID_REQUEST, "Removing the log level of the root logger is not allowed"),
        (APPEND, "root", "INFO", INVALID_REQUEST, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
    ],
)
def test_what_cannot_be_done_to_a_logger_is_refused_as_kafka_refuses_it(
    harness: Harness, operation: int, logger: str, level: str | None, code: ErrorCode, message: str
) -> None:
    assert change(harness, LOGGER, NODE, (operation, logger, level)) == (code, message)


def test_a_logger_is_not_changed_with_validate_only(harness: Harness) -> None:
    before = value(harness, LOGGER, NODE, "minibroker")
    assert change(harness, LOGGER, NODE, (SET, "root", "FATAL"), validate_only=True) == OK
    assert value(harness, LOGGER, NODE, "minibroker") == before


@pytest.mark.parametrize("key", ["num.io.threads", "max.connections"])
def test_zeros_in_front_of_a_number_are_no_harm_however_many_they_are(key: str, harness: Harness) -> None:
    assert put(harness, BROKER, "1", key, "0" * 5000 + "8") == OK


EVERYTHING = [(2, "t"), (4, "1"), (8, "1"), (16, "m"), (32, "g")]


@pytest.fixture
def with_all_kinds(harness: Harness) -> Harness:
    """A broker with a configuration of every type of resource."""
    assert put(harness, METRICS, "m", "metrics", "*") == OK
    assert put(harness, GROUP, "g", "consumer.session.timeout.ms", "50000") == OK
    return harness


def listed(harness: Harness, *kinds: int, version: int = 1) -> list[tuple[int, str]]:
    response = harness.ask(ListConfigResourcesRequest(resource_types=list(kinds)), version)
    assert response.error_code == 0
    return [(resource.resource_type, resource.resource_name) for resource in response.config_resources]


def test_all_types_are_listed_or_one(with_all_kinds: Harness) -> None:
    assert sorted(listed(with_all_kinds)) == EVERYTHING
    for kind, name in EVERYTHING:
        assert listed(with_all_kinds, kind, kind) == [(kind, name)]
    assert listed(with_all_kinds, version=0) == [(16, "m")]


def test_what_was_taken_back_is_not_listed(with_all_kinds: Harness) -> None:
    assert put(with_all_kinds, METRICS, "m", "metrics", None) == OK
    assert listed(with_all_kinds, version=0) == []


def test_a_type_that_does_not_exist_is_not_listed(harness: Harness) -> None:
    response = harness.ask(ListConfigResourcesRequest(resource_types=[2, 3]), 1)
    assert (response.error_code, response.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])


def asking(cluster: Harness, node: int) -> Harness:
    """Return the cluster, with requests to the given node."""
    cluster.asks = node
    return cluster


def test_each_broker_describes_what_was_altered_for_it_and_for_all(several: Harness) -> None:
    key = "log.cleaner.backoff.ms"
    assert put(asking(several, 2), BROKER, "2", key, "222") == OK
    assert put(asking(several, 3), BROKER, "3", key, "333") == OK
    assert put(asking(several, 3), BROKER, "", key, "111") == OK
    described = {node: synonyms(asking(several, node), BROKER, str(node), key)[:2] for node in (1, 2, 3)}
    of_all = (key, "111", CLUSTER_SOURCE)
    assert described == {
        1: [of_all, (key, "15000", DEFAULT)],
        2: [(key, "222", BROKER_SOURCE), of_all],
        3: [(key, "333", BROKER_SOURCE), of_all],
    }
    assert [value(asking(several, node), BROKER, str(node), "node.id") for node in (1, 2, 3)] == ["1", "2", "3"]
    several.restart()
    assert value(asking(several, 2), BROKER, "2", key) == "222"


def test_a_broker_is_altered_from_what_it_has_itself(several: Harness) -> None:
    for threads in ("16", "32", "64"):  # At most twice as many are allowed each time.
        assert put(asking(several, 2), BROKER, "2", "num.io.threads", threads) == OK
    assert put(asking(several, 1), BROKER, "1", "num.io.threads", "32")[0] == ErrorCode.INVALID_REQUEST


def test_a_broker_does_not_alter_another_one(several: Harness) -> None:
    code, message = put(asking(several, 2), BROKER, "1", "message.max.bytes", "1000")
    assert (code, message) == (ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 2, but received 1")


@pytest.mark.parametrize(("kind", "name"), [(BROKER, ""), (BROKER, NODE), (TOPIC, "t"), (GROUP, "g")])
def test_more_keys_than_a_controller_writes_at_once_are_refused_unread(harness: Harness, kind: int, name: str) -> None:
    many = [(SET, f"key-{number}", "v") for number in range(MAX_RECORDS + 1)]
    refused = (ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    assert change(harness, kind, name, *many) == refused


def test_a_broker_keeps_as_many_keys_as_a_controller_writes_at_once(harness: Harness) -> None:
    many = [(SET, f"key-{number}", "v") for number in range(MAX_RECORDS)]
    assert change(harness, BROKER, NODE, *many) == OK
    assert len(harness.core.configs.of(ConfigResourceType.BROKER, NODE)) == MAX_RECORDS
