import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.config import (
    BROKER_KEYS,
    TOPIC_KEYS,
    BrokerConfig,
    ConfigEntry,
    ConfigError,
    ConfigKey,
    ConfigSource,
    ConfigType,
    PropertiesError,
    TopicConfig,
    parse_properties,
)
from minibroker.config.reference import render

ROOT = Path(__file__).parents[2]
DEFAULTS = BrokerConfig.from_properties({})
LONG_MAX = 2**63 - 1

# Type, default and importance as `KafkaConfig.configDef` of Kafka 3.9.1 prints them.
BROKER_GOLDEN = """
advertised.listeners STRING null HIGH
authorizer.class.name STRING  LOW
auto.create.topics.enable BOOLEAN true HIGH
broker.id INT -1 HIGH
compression.gzip.level INT -1 MEDIUM
compression.type STRING producer HIGH
connections.max.idle.ms LONG 600000 MEDIUM
controller.quorum.voters LIST  HIGH
create.topic.policy.class.name CLASS null LOW
default.replication.factor INT 1 MEDIUM
delete.topic.enable BOOLEAN true HIGH
fetch.max.bytes INT 57671680 MEDIUM
group.consumer.migration.policy STRING disabled MEDIUM
group.coordinator.rebalance.protocols LIST classic MEDIUM
group.initial.rebalance.delay.ms INT 3000 MEDIUM
group.max.session.timeout.ms INT 1800000 MEDIUM
group.max.size INT 2147483647 MEDIUM
group.min.session.timeout.ms INT 6000 MEDIUM
listener.security.protocol.map STRING SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT LOW
listeners STRING PLAINTEXT://:9092 HIGH
log.cleaner.dedupe.buffer.size LONG 134217728 MEDIUM
log.cleaner.io.max.bytes.per.second DOUBLE 1.7976931348623157E308 MEDIUM
log.cleaner.min.cleanable.ratio DOUBLE 0.5 MEDIUM
log.cleanup.policy LIST delete MEDIUM
log.dir STRING /tmp/kafka-logs HIGH
log.dirs STRING null HIGH
log.flush.interval.messages LONG 9223372036854775807 HIGH
log.index.interval.bytes INT 4096 MEDIUM
log.index.size.max.bytes INT 10485760 MEDIUM
log.message.format.version STRING 3.0-IV1 MEDIUM
log.retention.bytes LONG -1 HIGH
log.retention.check.interval.ms LONG 300000 MEDIUM
log.retention.hours INT 168 HIGH
log.retention.minutes INT null HIGH
log.retention.ms LONG null HIGH
log.roll.hours INT 168 HIGH
log.segment.bytes INT 1073741824 HIGH
log.segment.delete.delay.ms LONG 60000 HIGH
max.connections.per.ip INT 2147483647 MEDIUM
max.incremental.fetch.session.cache.slots INT 1000 MEDIUM
message.max.bytes INT 1048588 HIGH
min.insync.replicas INT 1 HIGH
node.id INT -1 HIGH
num.partitions INT 1 MEDIUM
offset.metadata.max.bytes INT 4096 HIGH
offsets.commit.required.acks SHORT -1 HIGH
offsets.retention.minutes INT 10080 HIGH
offsets.topic.num.partitions INT 50 HIGH
offsets.topic.replication.factor SHORT 3 HIGH
offsets.topic.segment.bytes INT 104857600 HIGH
producer.id.expiration.ms INT 86400000 LOW
queued.max.request.bytes LONG -1 MEDIUM
queued.max.requests INT 500 HIGH
replica.lag.time.max.ms LONG 30000 HIGH
sasl.enabled.mechanisms LIST GSSAPI MEDIUM
sasl.jaas.config PASSWORD null MEDIUM
socket.listen.backlog.size INT 50 MEDIUM
socket.receive.buffer.bytes INT 102400 HIGH
socket.request.max.bytes INT 104857600 HIGH
transaction.max.timeout.ms INT 900000 HIGH
transaction.state.log.min.isr INT 2 HIGH
transactional.id.expiration.ms INT 604800000 HIGH
"""

# The same of `LogConfig.configDefCopy`: every key of a topic.
TOPIC_GOLDEN = """
cleanup.policy LIST delete MEDIUM
compression.gzip.level INT -1 MEDIUM
compression.lz4.level INT 9 MEDIUM
compression.type STRING producer MEDIUM
compression.zstd.level INT 3 MEDIUM
delete.retention.ms LONG 86400000 MEDIUM
file.delete.delay.ms LONG 60000 MEDIUM
flush.messages LONG 9223372036854775807 MEDIUM
flush.ms LONG 9223372036854775807 MEDIUM
follower.replication.throttled.replicas LIST  MEDIUM
index.interval.bytes INT 4096 MEDIUM
leader.replication.throttled.replicas LIST  MEDIUM
local.retention.bytes LONG -2 MEDIUM
local.retention.ms LONG -2 MEDIUM
max.compaction.lag.ms LONG 9223372036854775807 MEDIUM
max.message.bytes INT 1048588 MEDIUM
message.downconversion.enable BOOLEAN true LOW
message.format.version STRING 3.0-IV1 MEDIUM
message.timestamp.after.max.ms LONG 9223372036854775807 MEDIUM
message.timestamp.before.max.ms LONG 9223372036854775807 MEDIUM
message.timestamp.difference.max.ms LONG 9223372036854775807 MEDIUM
message.timestamp.type STRING CreateTime MEDIUM
min.cleanable.dirty.ratio DOUBLE 0.5 MEDIUM
min.compaction.lag.ms LONG 0 MEDIUM
min.insync.replicas INT 1 MEDIUM
preallocate BOOLEAN false MEDIUM
remote.log.copy.disable BOOLEAN false MEDIUM
remote.log.delete.on.disable BOOLEAN false MEDIUM
remote.storage.enable BOOLEAN false MEDIUM
retention.bytes LONG -1 MEDIUM
retention.ms LONG 604800000 MEDIUM
segment.bytes INT 1073741824 MEDIUM
segment.index.bytes INT 10485760 MEDIUM
segment.jitter.ms LONG 0 MEDIUM
segment.ms LONG 604800000 MEDIUM
unclean.leader.election.enable BOOLEAN false MEDIUM
"""


def facts(key: ConfigKey) -> str:
    return (
        f"{key.name} {key.type.name} {'null' if key.default is None else key.text(key.default)} {key.importance.name}"
    )


@pytest.mark.parametrize("row", BROKER_GOLDEN.strip().splitlines())
def test_a_broker_key_has_kafkas_type_default_and_importance(row: str) -> None:
    assert facts(BROKER_KEYS[row.split(maxsplit=1)[0]]) == row


def test_the_topic_keys_are_kafkas_with_type_default_and_importance() -> None:
    assert [facts(key) for key in TOPIC_KEYS.values()] == TOPIC_GOLDEN.strip().splitlines()


def test_both_tables_are_in_order_and_every_key_says_what_it_means() -> None:
    for table in (BROKER_KEYS, TOPIC_KEYS):
        assert list(table) == sorted(table)
        assert all(key.documentation.endswith(".") for key in table.values())


@pytest.mark.parametrize("key", [*BROKER_KEYS.values(), *TOPIC_KEYS.values()], ids=lambda key: key.name)
def test_the_text_of_a_default_is_read_back_as_that_default(key: ConfigKey) -> None:
    text = key.text(key.default)
    if text is None:
        assert key.default is None
    else:
        assert key.parse(text) == key.default


def test_without_properties_a_topic_has_the_defaults_of_its_own_table() -> None:
    assert DEFAULTS.topic_defaults == {name: key.default for name, key in TOPIC_KEYS.items()}


def test_batches_of_up_to_a_hundred_records_are_opened_unless_told_otherwise() -> None:
    assert DEFAULTS.integer("minibroker.validate.records.max") == 100
    assert (
        BrokerConfig.from_properties({"minibroker.validate.records.max": "-1"}).integer(
            "minibroker.validate.records.max"
        )
        == -1
    )
    with pytest.raises(ConfigError, match="Value must be at least -1"):
        BrokerConfig.from_properties({"minibroker.validate.records.max": "-2"})


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("num.partitions", " 7 ", 7),
        ("num.partitions", "+7", 7),
        ("num.partitions", "\u0661", 1),
        ("auto.create.topics.enable", " False ", False),
        ("auto.create.topics.enable", "TRUE", True),
        ("log.cleaner.min.cleanable.ratio", "5e-1", 0.5),
        ("log.cleaner.min.cleanable.ratio", ".5", 0.5),
        ("log.cleaner.min.cleanable.ratio", "0.5f", 0.5),
        ("log.cleaner.io.max.bytes.per.second", "-Infinity", float("-inf")),
        ("log.cleanup.policy", "compact, delete", ["compact", "delete"]),
        ("log.cleanup.policy", "", []),
        ("compression.type", " gzip ", "gzip"),
        ("compression.gzip.level", "-1", -1),
        ("group.consumer.migration.policy", "Upgrade", "Upgrade"),
        ("controller.quorum.voters", "1@a:9093,2@[::1]:9093", ["1@a:9093", "2@[::1]:9093"]),
        ("log.message.format.version", "0.10.0", "0.10.0"),
        ("log.message.format.version", "0.10.2-IV0.1", "0.10.2-IV0.1"),
        ("log.message.format.version", "3.9.1.2.3", "3.9.1.2.3"),
        ("log.message.format.version", "4.0-IV1", "4.0-IV1"),
        ("ssl.key.password", " x ", "x"),
    ],
)
def test_a_value_is_read_as_kafka_reads_it(name: str, text: str, value: object) -> None:
    assert BROKER_KEYS[name].parse(text) == value


CODECS = "uncompressed, zstd, lz4, snappy, gzip, producer"
SESSION = "group.consumer.session.timeout.ms"


# What Kafka 3.9.1 says to these. Where it names neither key nor value, or names its own check, that is put in front.
@pytest.mark.parametrize(
    ("name", "text", "shown", "because"),
    [
        ("num.partitions", "abc", "abc", "Not a number of type INT"),
        ("num.partitions", "", "", "Not a number of type INT"),
        ("num.partitions", "1_000", "1_000", "Not a number of type INT"),
        ("num.partitions", "1.0", "1.0", "Not a number of type INT"),
        ("num.partitions", "7\u00a0", "7\u00a0", "Not a number of type INT"),
        ("num.partitions", "2147483648", "2147483648", "Not a number of type INT"),
        ("num.partitions", "0", "0", "Value must be at least 1"),
        ("log.retention.ms", "9223372036854775808", "9223372036854775808", "Not a number of type LONG"),
        ("offsets.commit.required.acks", "32768", "32768", "Not a number of type SHORT"),
        ("log.cleaner.min.cleanable.ratio", "abc", "abc", "Not a number of type DOUBLE"),
        ("log.cleaner.min.cleanable.ratio", "inf", "inf", "Not a number of type DOUBLE"),
        ("log.cleaner.min.cleanable.ratio", "1e", "1e", "Not a number of type DOUBLE"),
        ("log.cleaner.min.cleanable.ratio", "2", "2.0", "Value must be no more than 1"),
        ("log.cleaner.min.cleanable.ratio", "-0.1", "-0.1", "Value must be at least 0"),
        ("auto.create.topics.enable", "yes", "yes", "Expected value to be either true or false"),
        ("compression.type", "Zstd", "Zstd", f"String must be one of: {CODECS}"),
        ("log.cleanup.policy", "delete,bogus", "bogus", "String must be one of: compact, delete"),
        ("log.cleanup.policy", "compact,", "", "String must be one of: compact, delete"),
        ("compression.gzip.level", "0", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.gzip.level", "10", "10", "Value must be between 1 and 9 or equal to -1"),
        ("compression.lz4.level", "18", "18", "Value must be no more than 17"),
        ("compression.zstd.level", "-131073", "-131073", "Value must be at least -131072"),
        (
            "group.consumer.migration.policy",
            "x",
            "x",
            "String must be one of (case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL",
        ),
        ("log.message.format.version", "0.10", "0.10", "Version 0.10 is not a valid version"),
        ("log.message.format.version", "4.0", "4.0", "Version 4.0 is not a valid version"),
        ("log.message.format.version", "3.9.", "3.9.", "Version 3.9. is not a valid version"),
        ("log.message.format.version", "3.9-IV9", "3.9-IV9", "Version 3.9-IV9 is not a valid version"),
        ("controller.quorum.voters", "1@a:1,b", "b", "Each entry should be in the form `{id}@{host}:{port}`."),
        ("controller.quorum.voters", "x@a:1", "x@a:1", "Each entry should be in the form `{id}@{host}:{port}`."),
        (
            "controller.quorum.voters",
            "1@a:99999",
            "1@a:99999",
            "Each entry should be in the form `{id}@{host}:{port}`.",
        ),
        # Rules between keys.
        ("log.dirs", " , ", ",", "At least one log directory must be defined via log.dirs or log.dir."),
        ("log.dir", "", "", "At least one log directory must be defined via log.dirs or log.dir."),
        ("log.roll.ms", "0", "0", "log.roll.ms must be greater than or equal to 1"),
        ("log.roll.jitter.ms", "-1", "-1", "log.roll.jitter.ms must be greater than or equal to 0"),
        (
            "log.retention.minutes",
            "0",
            "0",
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        (
            "log.cleaner.dedupe.buffer.size",
            "1048576",
            "1048576",
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
        ("offsets.topic.compression.codec", "9", "9", "Unknown compression type id"),
        (
            "offsets.commit.required.acks",
            "4",
            "4",
            (
                "offsets.commit.required.acks must be greater or equal to -1 and less or equal to "
                "offsets.topic.replication.factor"
            ),
        ),
        (
            "queued.max.request.bytes",
            "5",
            "5",
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        ),
        (
            "max.connections.per.ip",
            "0",
            "0",
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        ),
        (
            "group.coordinator.rebalance.protocols",
            "consumer",
            "[consumer]",
            "Disabling the 'classic' protocol is not supported.",
        ),
        (SESSION, "10", "10", f"{SESSION} must be greater than or equals to group.consumer.min.session.timeout.ms"),
        (SESSION, "60001", "60001", f"{SESSION} must be less than or equals to group.consumer.max.session.timeout.ms"),
        (
            "group.consumer.max.heartbeat.interval.ms",
            "10",
            "10",
            (
                "group.consumer.max.heartbeat.interval.ms must be greater than or equals to "
                "group.consumer.min.heartbeat.interval.ms"
            ),
        ),
    ],
)
def test_a_value_that_will_not_do_is_refused_in_kafkas_words(name: str, text: str, shown: str, because: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        BrokerConfig.from_properties({name: text})
    assert str(refusal.value) == f"Invalid value {shown} for configuration {name}: {because}"
    assert refusal.value.name == name


def test_a_rule_between_keys_takes_both_from_the_properties() -> None:
    config = BrokerConfig.from_properties({"queued.max.request.bytes": "5", "socket.request.max.bytes": "5"})
    assert config.integer("queued.max.request.bytes") == 5


def test_node_id_and_broker_id_are_one_thing() -> None:
    assert DEFAULTS.integer("node.id") == -1
    for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        config = BrokerConfig.from_properties({name: "3"})
        assert (config.integer(name), config.integer(other)) == (3, 3)
        assert config.value_source(other) is ConfigSource.STATIC_BROKER_CONFIG
    with pytest.raises(ConfigError, match=r"You must set `node\.id` to the same value as `broker\.id`"):
        BrokerConfig.from_properties({"node.id": "1", "broker.id": "2"})


def test_unknown_broker_keys_are_kept_and_listed() -> None:
    config = BrokerConfig.from_properties({"num.partitions": "2", "confluent.metrics.enable": "x", "no.such.key": ""})
    assert config.unknown == {"confluent.metrics.enable": "x", "no.such.key": ""}
    assert config.given == {"num.partitions": "2"}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"segment.bytes": "10", "bogus": "1"}, "Unknown topic config name: bogus"),
        ({"log.segment.bytes": "100"}, "Unknown topic config name: log.segment.bytes"),
        ({"segment.bytes": "10"}, "Invalid value 10 for configuration segment.bytes: Value must be at least 14"),
        ({"retention.ms": "-2"}, "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        (
            {"message.timestamp.type": "Log"},
            (
                "Invalid value Log for configuration message.timestamp.type: "
                "String must be one of: CreateTime, LogAppendTime"
            ),
        ),
        (
            {"leader.replication.throttled.replicas": "*,1:2"},
            (
                "Invalid value [*, 1:2] for configuration leader.replication.throttled.replicas: "
                "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following "
                "format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
            ),
        ),
        (
            {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "10"},
            "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (10)",
        ),
        (
            {"remote.storage.enable": "true"},
            (
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            ),
        ),
    ],
)
def test_overrides_that_will_not_do_are_refused_in_kafkas_words(overrides: dict[str, str | None], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        TopicConfig(DEFAULTS, overrides)
    assert str(refusal.value) == message
    assert refusal.value.name in overrides


@pytest.mark.parametrize("text", ["*", "1:2", "1:2,3:4", ""])
def test_throttled_replicas_are_pairs_of_numbers_or_a_star(text: str) -> None:
    name = "follower.replication.throttled.replicas"
    assert TopicConfig(DEFAULTS, {name: text}).value_text(name) == text


def test_a_lag_of_the_broker_and_one_of_the_topic_may_not_contradict_each_other() -> None:
    broker = BrokerConfig.from_properties({"log.cleaner.max.compaction.lag.ms": "10"})
    with pytest.raises(ConfigError, match="conflict topic config setting"):
        TopicConfig(broker, {"min.compaction.lag.ms": "11"})


# `KafkaConfig.extractLogConfigMap` of Kafka 3.9.1 for the same properties.
@pytest.mark.parametrize(
    ("properties", "name", "value"),
    [
        ({"log.retention.hours": "2"}, "retention.ms", 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "5"}, "retention.ms", 300_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "5", "log.retention.ms": "7"}, "retention.ms", 7),
        ({"log.retention.hours": "3", "log.retention.ms": "-1"}, "retention.ms", -1),
        ({"log.retention.hours": "-5"}, "retention.ms", -1),
        ({"log.roll.hours": "2"}, "segment.ms", 7_200_000),
        ({"log.roll.hours": "2", "log.roll.ms": "9"}, "segment.ms", 9),
        ({"log.roll.jitter.hours": "2"}, "segment.jitter.ms", 7_200_000),
        ({"log.roll.jitter.hours": "2", "log.roll.jitter.ms": "0"}, "segment.jitter.ms", 0),
        ({"log.flush.scheduler.interval.ms": "77"}, "flush.ms", 77),
        ({"log.flush.scheduler.interval.ms": "77", "log.flush.interval.ms": "5"}, "flush.ms", 5),
        ({"message.max.bytes": "500"}, "max.message.bytes", 500),
        ({"log.index.size.max.bytes": "500"}, "segment.index.bytes", 500),
        ({"log.segment.delete.delay.ms": "1"}, "file.delete.delay.ms", 1),
        ({"log.message.timestamp.difference.max.ms": "50"}, "message.timestamp.before.max.ms", 50),
        ({"log.message.timestamp.difference.max.ms": "50"}, "message.timestamp.after.max.ms", 50),
    ],
)
def test_the_first_broker_key_that_is_set_gives_a_topic_its_default(
    properties: dict[str, str], name: str, value: int
) -> None:
    broker = BrokerConfig.from_properties(properties)
    assert TopicConfig(broker, {}).integer(name) == value
    assert TopicConfig(broker, {name: "33"}).integer(name) == 33
    assert TopicConfig(broker, {"preallocate": "true"}).integer(name) == value


def test_the_older_timestamp_limit_stands_in_while_the_newer_ones_are_not_set() -> None:
    broker = BrokerConfig.from_properties({"log.message.timestamp.after.max.ms": "7"})
    topic = TopicConfig(broker, {"message.timestamp.difference.max.ms": "50"})
    assert topic.integer("message.timestamp.before.max.ms") == 50
    assert topic.integer("message.timestamp.after.max.ms") == 7
    # DescribeConfigs goes on showing what is set.
    assert topic.value_text("message.timestamp.before.max.ms") == str(LONG_MAX)


def test_overrides_are_kept_as_given_and_read_once_trimmed() -> None:
    topic = TopicConfig(DEFAULTS, {"segment.ms": " 5000 "})
    assert topic.overrides == {"segment.ms": " 5000 "}
    assert topic.integer("segment.ms") == 5000
    assert topic.value_text("segment.ms") == "5000"


def test_topics_do_not_share_their_overrides() -> None:
    first = TopicConfig(DEFAULTS, {"cleanup.policy": "compact"})
    second = TopicConfig(DEFAULTS, {})
    assert (first.items("cleanup.policy"), second.items("cleanup.policy")) == (["compact"], ["delete"])


TOPIC, STATIC, DEFAULT = ConfigSource


# What Kafka 3.9.1 answers to DescribeConfigs with synonyms, the broker and the topic set up like these.
DESCRIBED_BROKER = BrokerConfig.from_properties(
    {
        "log.retention.hours": "5",
        "log.retention.minutes": "400",
        "log.segment.bytes": "2000000",
        "log.flush.scheduler.interval.ms": "100000",
        "compression.type": "gzip",
        "ssl.key.password": "secret",
    }
)
DESCRIBED_TOPIC = TopicConfig(DESCRIBED_BROKER, {"cleanup.policy": "compact,delete", "segment.ms": " 5000 "})


@pytest.mark.parametrize(
    ("name", "value", "source", "synonyms"),
    [
        (
            "cleanup.policy",
            "compact,delete",
            TOPIC,
            [("cleanup.policy", "compact,delete", TOPIC), ("log.cleanup.policy", "delete", DEFAULT)],
        ),
        ("segment.ms", "5000", TOPIC, [("segment.ms", "5000", TOPIC)]),
        (
            "segment.bytes",
            "2000000",
            STATIC,
            [("log.segment.bytes", "2000000", STATIC), ("log.segment.bytes", "1073741824", DEFAULT)],
        ),
        (
            "compression.type",
            "gzip",
            STATIC,
            [("compression.type", "gzip", STATIC), ("compression.type", "producer", DEFAULT)],
        ),
        ("retention.ms", "24000000", DEFAULT, []),
        ("flush.ms", "100000", DEFAULT, []),
        ("remote.storage.enable", "false", DEFAULT, []),
        ("min.cleanable.dirty.ratio", "0.5", DEFAULT, [("log.cleaner.min.cleanable.ratio", "0.5", DEFAULT)]),
    ],
)
def test_a_topics_value_is_described_with_the_source_and_synonyms_that_kafka_gives(
    name: str, value: str, source: ConfigSource, synonyms: list[tuple[str, str, ConfigSource]]
) -> None:
    assert DESCRIBED_TOPIC.value_text(name) == value
    assert DESCRIBED_TOPIC.value_source(name) is source
    assert DESCRIBED_TOPIC.value_synonyms(name) == [ConfigEntry(*synonym) for synonym in synonyms]


@pytest.mark.parametrize(
    ("name", "value", "source", "synonyms"),
    [
        (
            "log.retention.minutes",
            "400",
            STATIC,
            [
                ("log.retention.minutes", "400", STATIC),
                ("log.retention.hours", "5", STATIC),
                ("log.retention.hours", "168", DEFAULT),
            ],
        ),
        (
            "log.retention.hours",
            "5",
            STATIC,
            [("log.retention.hours", "5", STATIC), ("log.retention.hours", "168", DEFAULT)],
        ),
        ("log.retention.ms", None, DEFAULT, []),
        ("log.flush.interval.ms", None, DEFAULT, []),
        ("num.partitions", "1", DEFAULT, [("num.partitions", "1", DEFAULT)]),
        ("ssl.key.password", None, STATIC, [("ssl.key.password", None, STATIC)]),
    ],
)
def test_a_brokers_value_is_described_with_the_source_and_synonyms_that_kafka_gives(
    name: str, value: str | None, source: ConfigSource, synonyms: list[tuple[str, str | None, ConfigSource]]
) -> None:
    assert DESCRIBED_BROKER.value_text(name) == value
    assert DESCRIBED_BROKER.value_source(name) is source
    assert DESCRIBED_BROKER.value_synonyms(name) == [ConfigEntry(*synonym) for synonym in synonyms]


def test_entries_tell_every_key_once_and_hide_passwords() -> None:
    entries = {entry.name: entry for entry in DESCRIBED_BROKER.entries()}
    assert list(entries) == list(BROKER_KEYS)
    assert entries["compression.type"] == ConfigEntry("compression.type", "gzip", STATIC)
    assert entries["ssl.key.password"] == ConfigEntry("ssl.key.password", None, STATIC, is_sensitive=True)
    assert DESCRIBED_BROKER.text("ssl.key.password") == "secret"
    assert len(DESCRIBED_TOPIC.entries()) == len(TOPIC_KEYS)


def test_getters_return_values_of_their_type() -> None:
    assert DEFAULTS.integer("num.partitions") == 1
    assert DEFAULTS.boolean("auto.create.topics.enable") is True
    assert DEFAULTS.number("log.cleaner.min.cleanable.ratio") == 0.5
    assert DEFAULTS.text("compression.type") == "producer"
    assert DEFAULTS.items("log.cleanup.policy") == ["delete"]
    assert DEFAULTS.optional_integer("log.retention.ms") is None
    assert DEFAULTS.optional_integer("log.retention.hours") == 168
    assert DEFAULTS.optional_text("advertised.listeners") is None
    assert DEFAULTS.optional_text("listeners") == "PLAINTEXT://:9092"


def test_a_getter_of_another_type_is_the_callers_mistake() -> None:
    for getter, name in (
        (DEFAULTS.integer, "auto.create.topics.enable"),
        (DEFAULTS.integer, "log.retention.ms"),
        (DEFAULTS.optional_integer, "compression.type"),
        (DEFAULTS.boolean, "num.partitions"),
        (DEFAULTS.number, "num.partitions"),
        (DEFAULTS.text, "log.dirs"),
        (DEFAULTS.optional_text, "num.partitions"),
        (DEFAULTS.items, "listeners"),
    ):
        with pytest.raises(TypeError, match=name):
            getter(name)
    with pytest.raises(KeyError):
        DEFAULTS.integer("no.such.key")


# What Java 17 prints for these numbers.
@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.25, "1.2345678925E8"),
        (1e21, "1.0E21"),
        (0.001, "0.001"),
        (9.9e-4, "9.9E-4"),
        (-2.5e-7, "-2.5E-7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_a_number_is_written_as_java_writes_it(number: float, text: str) -> None:
    assert BROKER_KEYS["log.cleaner.io.max.bytes.per.second"].text(number) == text


@given(st.floats())
def test_every_number_is_read_back_from_its_java_form(number: float) -> None:
    key = BROKER_KEYS["log.cleaner.io.max.bytes.per.second"]
    text = key.text(number)
    assert text is not None
    read = key.parse(text)
    assert read == number or (read != read and number != number)  # noqa: PLR0124 - only a NaN differs from itself


@given(st.integers(-(2**70), 2**70))
def test_a_long_takes_64_bits_and_not_one_more(number: int) -> None:
    key = BROKER_KEYS["log.retention.bytes"]
    if -(2**63) <= number < 2**63:
        assert key.parse(str(number)) == number
    else:
        with pytest.raises(ConfigError, match="Not a number of type LONG"):
            key.parse(str(number))


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=b", {"a": "b"}),
        ("a = b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a \t\f=\t b  ", {"a": "b  "}),
        ("a==b", {"a": "=b"}),
        ("a:=b", {"a": "=b"}),
        ("a = = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("", {}),
        ("# a=b\n  ! c=d\n\n \t\ne=f", {"e": "f"}),
        ("a=b # no comment", {"a": "b # no comment"}),
        ("#a\\\nb=c", {"b": "c"}),
        ("a=b\r\nc=d\re=f\n", {"a": "b", "c": "d", "e": "f"}),
        ("a=b\u2028c\x0bd\x85e", {"a": "b\u2028c\x0bd\x85e"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\r\n\tc\\\nd", {"a": "bcd"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("a=b\\\n#c", {"a": "b#c"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("a\\ b\\=\\:c=d", {"a b=:c": "d"}),
        ("\\#a=b", {"#a": "b"}),
        ("a=\\t\\n\\r\\f\\q\\\\t", {"a": "\t\n\r\fq\\t"}),
        ("\\u0061=\\u00e9\\u00E9x", {"a": "ééx"}),
        ("a=\\uD83D\\uDE00", {"a": "😀"}),
        ("a=\\\\u0061", {"a": "\\u0061"}),
        ("a=1\na=2", {"a": "2"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b\n\n# c\nd=\\u12", r"line 4: \u12 is not \u with four hexadecimal digits"),
        ("\\u00zz=b", r"line 1: \u00zz is not \u with four hexadecimal digits"),
        ("a=b\nc=d\\\n  e\\\n  \\u+123", r"line 2: \u+123 is not \u with four hexadecimal digits"),
    ],
)
def test_a_bad_escape_is_refused_with_the_number_of_its_line(text: str, message: str) -> None:
    with pytest.raises(PropertiesError) as refusal:
        parse_properties(text)
    assert str(refusal.value) == message


def escaped(text: str, *, key: bool) -> str:
    """Write as `Properties.store` does: ASCII only, blanks escaped everywhere in a key and at the start of a value."""
    out = []
    for place, character in enumerate(text):
        if character == " " and not key and place:
            out.append(character)
        elif character in "\\=:#! ":
            out.append("\\" + character)
        elif character.isascii() and character.isprintable():
            out.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass").hex()
            out.extend(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    return "".join(out)


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"]))
    )
)
def test_what_java_would_store_is_read_back(properties: dict[str, str]) -> None:
    stored = "".join(f"{escaped(name, key=True)}={escaped(value, key=False)}\n" for name, value in properties.items())
    assert parse_properties(stored) == properties


@given(st.text())
def test_any_text_is_properties_or_refused_with_a_line(text: str) -> None:
    try:
        parse_properties(text)
    except PropertiesError as error:
        assert str(error).startswith("line ")  # noqa: PT017 - most texts are not refused


def test_configuration_read_from_a_file_of_kafkas_reaches_topic_and_broker() -> None:
    config = BrokerConfig.from_properties(
        parse_properties("# The Basics\nnode.id=7\nlog.dirs=/a,\\\n  /b\nnum.partitions = 3\nlog.retention.hours: 1\n")
    )
    assert (config.integer("node.id"), config.text("log.dirs"), config.integer("num.partitions")) == (7, "/a,/b", 3)
    assert TopicConfig(config, {}).integer("retention.ms") == 3_600_000


def words_in_the_code() -> set[str]:
    """Every string literal of the broker and its storage, the tables themselves left out."""
    files = [file for room in ("minibroker", "storage") for file in (ROOT / room).rglob("*.py")]
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files if file.parent.name != "config"]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_a_topic_key_is_marked_as_honoured_if_and_only_if_the_code_reads_it() -> None:
    assert {name for name, key in TOPIC_KEYS.items() if key.honoured} == words_in_the_code() & set(TOPIC_KEYS)


def test_a_broker_key_is_marked_as_honoured_if_and_only_if_the_code_reads_it_or_its_topic_key() -> None:
    honoured = {name for name, key in BROKER_KEYS.items() if key.honoured}
    through_topics = {name for key in TOPIC_KEYS.values() if key.honoured for name, _ in key.synonyms}
    through_node_id = {"broker.id"}
    assert honoured == (words_in_the_code() & set(BROKER_KEYS)) | through_topics | through_node_id


def test_the_page_of_the_docs_is_what_the_tables_say() -> None:
    assert (ROOT / "docs/configuration.md").read_text(encoding="utf-8") == render()


def test_the_page_of_the_docs_has_a_row_for_every_key() -> None:
    rows = [line for line in render().splitlines() if line.startswith(("| `", "| **`"))]
    assert len(rows) == len(BROKER_KEYS) + len(TOPIC_KEYS)
    assert (
        "| **`segment.ms`** | LONG | `604800000` | at least 1 | medium | After how long a new segment is begun. |"
        in (render())
    )


def test_importing_the_configuration_loads_nothing_but_itself() -> None:
    script = (
        "import enum, sys, typing; before = set(sys.modules); import minibroker.config; "
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    others = [name for name in loaded.stdout.split() if not name.startswith("minibroker.config")]
    assert others == ["minibroker", "minibroker.properties"]


def test_config_types_have_the_numbers_of_describe_configs() -> None:
    names = ["BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"]
    assert [ConfigType[name].value for name in names] == list(range(1, 10))
