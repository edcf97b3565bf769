"""IncrementalAlterConfigs: single keys, which count at once and are kept."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker.cluster.section_store import ClusterFileError
from minibroker.config.keys import ConfigResourceType
from minibroker_protocol.error_codes import ErrorCode
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
    put,
    rows,
    value,
)
from tests.broker.harness import Harness, batch

NODE = "1"
INVALID_CONFIG, INVALID_REQUEST = ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST
THROTTLED = "leader.replication.throttled.replicas"


# Topics


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
    assert dict(harness.core.topics.get("t").config.overrides) == {"retention.ms": "3", "segment.ms": "2"}  # type: ignore[union-attr] # it is there


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
    assert not harness.core.topics.get("t").config.overrides  # type: ignore[union-attr] # it is there


def test_each_resource_may_appear_once_and_has_its_own_outcome(harness: Harness) -> None:
    request = change_request(TOPIC, "t", (SET, "retention.ms", "1"), times=2)
    request.resources += change_request(TOPIC, "nowhere").resources + change_request(GROUP, "g").resources
    found = [(each.error_code, each.error_message) for each in harness.ask(request, 0).responses]
    twice = (INVALID_REQUEST, "Each resource must appear at most once.")
    missing = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nowhere' does not exist.")
    assert found == [twice, twice, missing, OK]


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


# Brokers


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
    found = rows(harness, TOPIC, "t", "min.compaction.lag.ms", "max.compaction.lag.ms")
    assert {name: row.value for name, row in found.items()} == {
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
    found = rows(harness, BROKER, NODE)
    described = {name: (found[name].value, found[name].config_type, found[name].read_only) for name in list(found)[-3:]}
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
    kept = json.loads(Path(harness.data_dir, "minibroker-cluster.json").read_text())["sections"]["configs"]
    assert kept == {
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
    kept = {"groups": {"g": {"nonsense": "1"}}, "client_metrics": {"m": {"interval.ms": "x"}, "n": {"metrics": "*"}}}
    harness.core.metadata.write("configs", kept)
    harness.restart()
    assert "What was altered for g does not count: Unknown group config name: nonsense" in caplog.text
    assert harness.core.configs.group("g").session_timeout_ms == 45_000
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


# Groups and client metrics


def test_a_groups_key_counts_when_it_is_next_asked_for(harness: Harness) -> None:
    assert put(harness, GROUP, "g", "consumer.heartbeat.interval.ms", "7000") == OK
    assert harness.core.configs.group("g").heartbeat_interval_ms == 7_000
    assert harness.core.configs.group("other").heartbeat_interval_ms == 5_000


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


# Loggers


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
