import pytest

from minibroker.config import (
    BROKER_KEYS,
    TOPIC_KEYS,
    BrokerConfig,
    ConfigEntry,
    ConfigError,
    ConfigSource,
    TopicConfig,
    parse_properties,
)

DEFAULTS = BrokerConfig.from_properties({})


def test_without_properties_a_topic_has_the_defaults_of_its_own_table() -> None:
    assert DEFAULTS.topic_defaults == {name: key.default for name, key in TOPIC_KEYS.items()}


def test_batches_of_up_to_a_hundred_records_are_opened_unless_told_otherwise() -> None:
    name = "minibroker.validate.records.max"
    assert DEFAULTS.integer(name) == 100
    assert BrokerConfig.from_properties({name: "-1"}).integer(name) == -1
    with pytest.raises(ConfigError, match="Value must be at least -1"):
        BrokerConfig.from_properties({name: "-2"})


CODECS = "uncompressed, zstd, lz4, snappy, gzip, producer"


SESSION = "group.consumer.session.timeout.ms"


def shown(*rows: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Replace KEY by the name, and add Kafka's text for the value. It is the given one unless the row differs."""
    return [(name, text, why.replace("KEY", name), *(more or [text])) for name, text, why, *more in rows]


# Error messages of Kafka 3.9.1. Where Kafka's message lacks the key or the value, or names its own check, they are
# added at the start.
@pytest.mark.parametrize(
    ("name", "text", "because", "shown"),
    shown(
        ("num.partitions", "abc", "Not a number of type INT"),
        ("num.partitions", "", "Not a number of type INT"),
        ("num.partitions", "1_000", "Not a number of type INT"),
        ("num.partitions", "1.0", "Not a number of type INT"),
        ("num.partitions", "7\u00a0", "Not a number of type INT"),
        ("num.partitions", "2147483648", "Not a number of type INT"),
        ("num.partitions", "0", "Value must be at least 1"),
        ("log.retention.ms", "9223372036854775808", "Not a number of type LONG"),
        ("offsets.commit.required.acks", "32768", "Not a number of type SHORT"),
        ("log.cleaner.min.cleanable.ratio", "abc", "Not a number of type DOUBLE"),
        ("log.cleaner.min.cleanable.ratio", "inf", "Not a number of type DOUBLE"),
        ("log.cleaner.min.cleanable.ratio", "1e", "Not a number of type DOUBLE"),
        ("log.cleaner.min.cleanable.ratio", "2", "Value must be no more than 1", "2.0"),
        ("log.cleaner.min.cleanable.ratio", "-0.1", "Value must be at least 0"),
        ("auto.create.topics.enable", "yes", "Expected value to be either true or false"),
        ("compression.type", "Zstd", f"String must be one of: {CODECS}"),
        ("log.cleanup.policy", "delete,bogus", "String must be one of: compact, delete", "bogus"),
        ("log.cleanup.policy", "compact,", "String must be one of: compact, delete", ""),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.gzip.level", "10", "Value must be between 1 and 9 or equal to -1"),
        ("compression.lz4.level", "18", "Value must be no more than 17"),
        ("compression.zstd.level", "-131073", "Value must be at least -131072"),
        (
            "group.consumer.migration.policy",
            "x",
            "String must be one of (case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL",
        ),
        ("log.message.format.version", "0.10", "Version 0.10 is not a valid version"),
        ("log.message.format.version", "4.0", "Version 4.0 is not a valid version"),
        ("log.message.format.version", "3.9.", "Version 3.9. is not a valid version"),
        ("log.message.format.version", "3.9-IV9", "Version 3.9-IV9 is not a valid version"),
        ("controller.quorum.voters", "1@a:1,b", "Each entry should be in the form `{id}@{host}:{port}`.", "b"),
        ("controller.quorum.voters", "x@a:1", "Each entry should be in the form `{id}@{host}:{port}`."),
        ("controller.quorum.voters", "1@a:99999", "Each entry should be in the form `{id}@{host}:{port}`."),
        ("log.dirs", " , ", "At least one log directory must be defined via log.dirs or log.dir.", ","),
        ("log.dir", "", "At least one log directory must be defined via log.dirs or log.dir."),
        ("log.roll.ms", "0", "KEY must be greater than or equal to 1"),
        ("log.roll.jitter.ms", "-1", "KEY must be greater than or equal to 0"),
        ("log.retention.minutes", "0", "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ("log.cleaner.dedupe.buffer.size", "1048576", "KEY must be at least 1MB per cleaner thread."),
        ("offsets.topic.compression.codec", "9", "Unknown compression type id"),
        (
            "offsets.commit.required.acks",
            "4",
            "KEY must be greater or equal to -1 and less or equal to offsets.topic.replication.factor",
        ),
        ("queued.max.request.bytes", "5", "KEY must be larger or equal to socket.request.max.bytes"),
        (
            "max.connections.per.ip",
            "0",
            "KEY can be set to zero only if max.connections.per.ip.overrides property is set.",
        ),
        (
            "group.coordinator.rebalance.protocols",
            "consumer",
            "Disabling the 'classic' protocol is not supported.",
            "[consumer]",
        ),
        (SESSION, "10", "KEY must be greater than or equals to group.consumer.min.session.timeout.ms"),
        (SESSION, "60001", "KEY must be less than or equals to group.consumer.max.session.timeout.ms"),
        (
            "group.consumer.max.heartbeat.interval.ms",
            "10",
            "KEY must be greater than or equals to group.consumer.min.heartbeat.interval.ms",
        ),
    ),
)
def test_a_value_that_will_not_do_is_refused_in_kafkas_words(name: str, text: str, because: str, shown: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        BrokerConfig.from_properties({name: text})
    assert str(refusal.value) == f"Invalid value {shown} for configuration {name}: {because}"


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


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("metadata.log.segment.bytes", "11", "Value must be at least 12"),
        ("zookeeper.max.in.flight.requests", "0", "Value must be at least 1"),
        ("zookeeper.set.acl", "yes", "Expected value to be either true or false"),
        ("broker.heartbeat.interval.ms", "often", "Not a number of type INT"),
        ("group.share.delivery.count.limit", "11", "Value must be no more than 10"),
        ("remote.log.manager.task.retry.jitter", "0.6", "Value must be no more than 0.5"),
        ("remote.log.manager.copier.thread.pool.size", "0", "Value can be -1 or greater than 0"),
        ("remote.log.storage.manager.impl.prefix", "", "String must be non-empty"),
        ("sasl.oauthbearer.assertion.algorithm", "x", "String must be one of (case insensitive): ES256, RS256"),
        (
            "controller.quorum.bootstrap.servers",
            "h:1,h",
            (
                "Failed to parse host name from h for the configuration controller.quorum.bootstrap.servers. "
                'Each entry should be in the form "{host}:{port}"'
            ),
        ),
        ("controller.quorum.bootstrap.servers", "h:65536", "port out of range:65536"),
        ("controller.quorum.bootstrap.servers", "h:" + "9" * 5000, "port out of range:9"),
        (
            "replica.fetch.wait.max.ms",
            "30001",
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms",
        ),
        (
            "replica.lag.time.max.ms",
            "10",
            "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms",
        ),
        (
            "group.share.heartbeat.interval.ms",
            "20000",
            "group.share.heartbeat.interval.ms must be less than or equals to group.share.max.heartbeat.interval.ms",
        ),
    ],
)
def test_a_value_that_nothing_here_acts_on_is_checked_all_the_same(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        BrokerConfig.from_properties({name: text})
    assert message in str(refusal.value)


def test_a_key_that_nothing_here_acts_on_has_kafkas_default_until_it_is_set() -> None:
    assert DEFAULTS.integer("num.replica.fetchers") == 1
    assert DEFAULTS.value_source("num.replica.fetchers") is ConfigSource.DEFAULT_CONFIG
    config = BrokerConfig.from_properties({"num.replica.fetchers": " 4 "})
    assert config.integer("num.replica.fetchers") == 4
    assert config.value_source("num.replica.fetchers") is ConfigSource.STATIC_BROKER_CONFIG
    assert config.remarks() == []


def test_an_internal_key_is_told_only_to_who_has_set_it() -> None:
    name = "unstable.api.versions.enable"
    assert name not in {entry.name for entry in DEFAULTS.entries()}
    config = BrokerConfig.from_properties({name: "true"})
    assert ConfigEntry(name, "true", ConfigSource.STATIC_BROKER_CONFIG) in config.entries()


def test_a_class_that_cannot_be_run_here_is_remarked_upon() -> None:
    texts = {"principal.builder.class": "com.example.Builder", "client.quota.callback.class": ""}
    assert BrokerConfig.from_properties(texts).remarks() == [
        "principal.builder.class: com.example.Builder is a Java class, which cannot be run here"
    ]
    default = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    assert BrokerConfig.from_properties({"principal.builder.class": default}).remarks() == []


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


@pytest.mark.parametrize("text", ["*", "1:2", "1:2,3:4", ""])
def test_throttled_replicas_are_pairs_of_numbers_or_a_star(text: str) -> None:
    name = "follower.replication.throttled.replicas"
    assert TopicConfig(DEFAULTS, {name: text}).value_text(name) == text


def test_a_lag_of_the_broker_and_one_of_the_topic_may_not_contradict_each_other() -> None:
    broker = BrokerConfig.from_properties({"log.cleaner.max.compaction.lag.ms": "10"})
    with pytest.raises(ConfigError, match="conflict topic config setting"):
        TopicConfig(broker, {"min.compaction.lag.ms": "11"})


# The result of `KafkaConfig.extractLogConfigMap` of Kafka 3.9.1 for the same properties.
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
    # DescribeConfigs still shows the value that is set.
    assert topic.value_text("message.timestamp.before.max.ms") == str(2**63 - 1)


def test_overrides_are_kept_as_given_and_read_once_trimmed() -> None:
    topic = TopicConfig(DEFAULTS, {"segment.ms": " 5000 "})
    assert topic.overrides == {"segment.ms": " 5000 "}
    assert topic.integer("segment.ms") == 5000
    assert topic.value_text("segment.ms") == "5000"


def test_topics_do_not_share_their_overrides() -> None:
    first = TopicConfig(DEFAULTS, {"cleanup.policy": "compact"})
    second = TopicConfig(DEFAULTS, {})
    assert (first.items("cleanup.policy"), second.items("cleanup.policy")) == (["compact"], ["delete"])


TOPIC, DYNAMIC, CLUSTER, STATIC, DEFAULT, *_ = ConfigSource


# Kafka 3.9.1's response to DescribeConfigs with synonyms, for the same configuration of broker and topic.
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


def test_entries_tell_every_key_once_and_hide_passwords() -> None:
    entries = {entry.name: entry for entry in DESCRIBED_BROKER.entries()}
    assert list(entries) == [name for name, key in BROKER_KEYS.items() if not key.is_internal]
    assert entries["compression.type"] == ConfigEntry("compression.type", "gzip", STATIC)
    assert entries["ssl.key.password"] == ConfigEntry("ssl.key.password", None, STATIC, is_sensitive=True)
    assert DESCRIBED_BROKER.text("ssl.key.password") == "secret"


def test_entries_of_topics_differ_where_they_have_overrides_and_only_there() -> None:
    broker = BrokerConfig.from_properties({"log.segment.bytes": "100"})
    plain, own = TopicConfig(broker, {}), TopicConfig(broker, {"segment.ms": "5", "retention.bytes": "6"})
    for topic in (own, plain, own):
        assert topic.entries() == [topic.entry(name) for name, key in TOPIC_KEYS.items() if not key.is_internal]
    changed = {entry for entry in own.entries() if entry not in plain.entries()}
    assert changed == {ConfigEntry("segment.ms", "5", TOPIC), ConfigEntry("retention.bytes", "6", TOPIC)}


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


def test_configuration_read_from_a_file_of_kafkas_reaches_topic_and_broker() -> None:
    config = BrokerConfig.from_properties(
        parse_properties("# The Basics\nnode.id=7\nlog.dirs=/a,\\\n  /b\nnum.partitions = 3\nlog.retention.hours: 1\n")
    )
    assert (config.integer("node.id"), config.text("log.dirs"), config.integer("num.partitions")) == (7, "/a,/b", 3)
    assert TopicConfig(config, {}).integer("retention.ms") == 3_600_000


@pytest.mark.parametrize("text", ["", "two words", "two\nlines", "back\\slash", "\u00fcber"])
def test_a_cluster_id_that_a_properties_file_would_change_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"minibroker\.cluster\.id"):
        BrokerConfig.from_properties({"minibroker.cluster.id": text})
