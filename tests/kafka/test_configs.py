"""Configurations are described and altered as by a running Kafka."""

import re
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

import pytest

from minibroker import Broker
from minibroker.config.values import ConfigSource
from minibroker_protocol.messages.configs import DescribeConfigsResourceResult
from minibroker_protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.broker.config.configs import (
    APPEND,
    BROKER,
    DELETE,
    LOGGER,
    METRICS,
    SET,
    SUBTRACT,
    TOPIC,
    change_request,
    describe_request,
)
from tests.broker.socket_client import SocketClient, address_of
from tests.kafka.newer_keys import NEWER_OF_TOPICS
from tests.kafka.real_kafka import RealKafka
from tests.patience import eventually
from tests.sweeps import one_in

NODE: Final = "1"
DEFAULT_SOURCE: Final = 5
CONFIG: Final = {"node.id": NODE, "log.retention.ms": "-1", "log.segment.delete.delay.ms": "1000"}
"""As the Kafka of the tests is configured, where topics see it."""
OTHERWISE_HERE: Final = {
    "group.initial.rebalance.delay.ms": "the first member of a group waits for nobody",
    "group.coordinator.rebalance.protocols": "groups of the consumer protocol are served, as in Kafka 4",
    "group.share.partition.max.record.locks": "share groups are served by the rules of Kafka 4",
}
"""Keys whose default is another one on purpose, and why; docs/configuration.md names them at its head."""
ONLY_HERE: Final = {
    "allow.everyone.if.no.acl.found": "is the authorizer's, which is a part of this broker",
    "super.users": "is the authorizer's, which is a part of this broker",
    "group.consumer.migration.policy": "is internal in 3.9, and counts here as in Kafka 4",
    "log.initial.task.delay.ms": "is internal, and counts here",
    "producer.id.expiration.check.interval.ms": "is internal, and counts here",
}
"""Keys that Kafka 3.9 does not tell of while they are not set, and why we do.

Beside those that begin with `minibroker.` and those that are new in Kafka 4.
"""

Change = tuple[int, str, str | None]


class Side(NamedTuple):
    """A broker and a connection to it."""

    client: SocketClient

    def describe(self, kind: int, name: str, *keys: str, version: int = 4) -> dict[str, DescribeConfigsResourceResult]:
        """The keys of a resource, by name, with everything that can be asked for."""
        fields = {"include_synonyms": version > 0, "include_documentation": version > 2}
        (result,) = self.client.ask(describe_request(kind, name, *keys, **fields), version).results
        assert result.error_code == 0, result.error_message
        return {row.name: row for row in result.configs}

    def refusal(self, kind: int, name: str) -> tuple[int, str | None]:
        """The error for a description of a resource."""
        (result,) = self.client.ask(describe_request(kind, name), 4).results
        return result.error_code, result.error_message

    def change(self, kind: int, name: str, *changes: Change, validate_only: bool = False) -> tuple[int, str | None]:
        """The outcome of changes."""
        request = change_request(kind, name, *changes, validate_only=validate_only)
        (result,) = self.client.ask(request, 1).responses
        return result.error_code, result.error_message


@pytest.fixture(scope="module")
def sides(real_kafka: RealKafka) -> Iterator[tuple[Side, Side]]:
    """Ours and Kafka."""
    with (
        Broker(config=CONFIG) as ours,
        SocketClient(address_of(ours.bootstrap_servers)) as here,
        SocketClient(address_of(real_kafka.bootstrap)) as there,
    ):
        yield Side(here), Side(there)


class Both(Protocol):
    """Does the same on both sides, and returns what came of it. AssertionError if that is not the same.

    Kafka's brokers hear of a change some time after it was answered, so what only looks is repeated there.
    """

    def __call__(self, action: Callable[..., Any], *arguments: Any, **fields: Any) -> Any:
        """Do it."""
        ...


@pytest.fixture
def both(sides: tuple[Side, Side]) -> Both:
    """Do the same on both sides."""

    def run(action: Callable[..., Any], *arguments: Any, **fields: Any) -> Any:
        ours, theirs = (action(side, *arguments, **fields) for side in sides)

        def is_same() -> bool:
            nonlocal theirs
            theirs = action(sides[1], *arguments, **fields)
            return bool(theirs == ours)

        if theirs != ours and action is not Side.change:
            with suppress(AssertionError):  # The comparison below shows the difference.
                eventually(is_same)
        assert ours == theirs
        return ours

    return run


@pytest.fixture
def topic(sides: tuple[Side, Side]) -> str:
    """A topic of both, which describe it."""
    name = f"configs-{uuid.uuid4().hex[:8]}"
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    for side in sides:
        (result,) = side.client.ask(CreateTopicsRequest(topics=[topic]), 7).topics
        assert result.error_code == 0
        eventually(lambda side=side: side.refusal(TOPIC, name)[0] == 0)  # type: ignore[misc] # mypy cannot infer a lambda's default
    return name


def without_words(row: DescribeConfigsResourceResult) -> dict[str, Any]:
    """All that is said of a key, and in the place of the documentation whether there is any."""
    fields = {field: getattr(row, field) for field in ("value", "read_only", "config_source", "is_sensitive")}
    synonyms = [(each.name, each.value, each.source) for each in row.synonyms]
    return {**fields, "type": row.config_type, "synonyms": synonyms, "words": bool(row.documentation)}


def described(side: Side, kind: int, name: str, *keys: str, version: int = 4) -> dict[str, dict[str, Any]]:
    """All that is said of a resource."""
    rows = side.describe(kind, name, *keys, version=version)
    return {key: without_words(row) for key, row in rows.items() if key not in NEWER_OF_TOPICS}


def test_a_topic_is_described_as_by_kafka(both: Both, sides: tuple[Side, Side], topic: str) -> None:
    both(described, TOPIC, topic)
    ours, theirs = (side.describe(TOPIC, topic) for side in sides)
    assert not [name for name in theirs if ours[name].documentation == theirs[name].documentation]


def test_every_key_of_a_broker_is_described_as_by_kafka(sides: tuple[Side, Side]) -> None:
    def described(row: DescribeConfigsResourceResult) -> tuple[Any, ...]:
        defaults = [(each.name, each.value) for each in row.synonyms if each.source == DEFAULT_SOURCE]
        return row.read_only, row.is_sensitive, row.config_type, defaults, bool(row.documentation)

    ours, theirs = (side.describe(BROKER, NODE) for side in sides)
    assert theirs.keys() <= ours.keys()
    names = theirs.keys() - OTHERWISE_HERE
    assert {name: described(ours[name]) for name in names} == {name: described(theirs[name]) for name in names}
    alike = [name for name in theirs if ours[name].documentation == theirs[name].documentation]
    assert not alike, "these are Kafka's own words"
    for name in OTHERWISE_HERE:
        here, there = described(ours[name]), described(theirs[name])
        assert here != there
        assert here[:3] == there[:3]


def test_a_key_of_a_broker_that_neither_has_set_is_told_as_by_kafka(sides: tuple[Side, Side]) -> None:
    ours, theirs = (described(side, BROKER, NODE) for side in sides)
    unset = [
        name
        for name, row in theirs.items()
        if row["config_source"] == ours[name]["config_source"] == DEFAULT_SOURCE and name not in OTHERWISE_HERE
    ]
    assert len(unset) > 280
    assert {name: ours[name] for name in unset} == {name: theirs[name] for name in unset}


def test_a_broker_tells_of_no_other_keys_but_its_own_and_those_that_are_new_in_kafka_4(
    sides: tuple[Side, Side],
) -> None:
    ours, theirs = (side.describe(BROKER, NODE) for side in sides)
    words = {name: row.documentation or "" for name, row in ours.items() if name not in theirs}
    newer = {name for name in words if re.search(r"; new in Kafka 4(\.\d+)?\.$", words[name])}
    others = {name for name in words.keys() - newer if not name.startswith("minibroker.")}
    assert others == ONLY_HERE.keys() - theirs.keys()


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_says_the_same(both: Both, topic: str, version: int) -> None:
    assert both(described, TOPIC, topic, "max.message.bytes", "no.such.key", version=version)


OF_TOPICS: Final[list[list[Change]]] = [
    [(SET, "retention.ms", "5000")],
    [(SET, "retention.ms", "x")],
    [(SET, "retention.ms", " 7 ")],
    [(SET, "nonsense", "x")],
    [(DELETE, "nonsense", None)],
    [(APPEND, "retention.ms", "1")],
    [(SUBTRACT, "nonsense", "1")],
    [(APPEND, "cleanup.policy", "compact")],
    [(APPEND, "cleanup.policy", "compact"), (SUBTRACT, "leader.replication.throttled.replicas", "0:1")],
    [(SUBTRACT, "cleanup.policy", "delete")],
    [(SUBTRACT, "cleanup.policy", "compact")],
    [(APPEND, "cleanup.policy", "bogus")],
    [(APPEND, "leader.replication.throttled.replicas", "0:1,1:1")],
    [(SET, "follower.replication.throttled.replicas", "junk")],
    [(SET, "cleanup.policy", None)],
    [(SET, "segment.ms", "1"), (SET, "segment.ms", "2")],
    [(SET, "min.compaction.lag.ms", "10"), (SET, "max.compaction.lag.ms", "5")],
    [(SET, "remote.storage.enable", "true")],
    [(SET, "compression.type", "zip")],
    [(SET, "max.message.bytes", "-1")],
    [(SET, "min.insync.replicas", "0")],
    [],
]


def test_topics_are_altered_as_by_kafka(both: Both, topic: str) -> None:
    for changes in OF_TOPICS:
        both(Side.change, TOPIC, topic, *changes, validate_only=True)
        both(Side.change, TOPIC, topic, *changes)
        both(described, TOPIC, topic)


@pytest.mark.parametrize("name", ["", ".", "not a name", "nowhere"])
@pytest.mark.parametrize("changes", [[], [(SET, "retention.ms", "5")], [(SET, "nonsense", "x")]])
def test_topics_that_there_are_not_are_refused_as_by_kafka(both: Both, name: str, changes: list[Change]) -> None:
    both(Side.change, TOPIC, name, *changes)
    both(Side.refusal, TOPIC, name)


OF_BROKERS: Final[list[Change]] = [
    (SET, "log.retention.ms", "5000"),
    (SET, "log.retention.ms", "x"),
    (SET, "log.retention.hours", "7"),
    (SET, "node.id", "5"),
    (DELETE, "node.id", None),
    (SET, "unheard.of", "5"),
    (APPEND, "log.retention.ms", "5"),
    (APPEND, "log.cleanup.policy", "compact"),
    (SET, "ssl.keystore.location", "/x"),
    (SET, "listener.name.other.ssl.keystore.location", "/x"),
    (SET, "max.connections", "500"),
    (SET, "max.connections.per.ip", "500"),
    (SET, "sasl.enabled.mechanisms", "PLAIN"),
    (SET, "message.max.bytes", "-1"),
    (SET, "message.max.bytes", "2000000"),
    (SET, "min.insync.replicas", "0"),
    (SET, "unclean.leader.election.enable", "true"),
    (SET, "background.threads", "0"),
    (SET, "background.threads", "4"),
    (SET, "background.threads", "100"),
    (SET, "leader.replication.throttled.rate", "1000"),
    (SET, "leader.replication.throttled.rate", "x"),
    (SET, "producer.id.expiration.ms", "100000"),
    (SET, "num.replica.fetchers", "9"),
    (SET, "num.replica.fetchers", "0"),
    (SET, "num.replica.fetchers", "2"),
    (SET, "metric.reporters", ""),
    (SET, "remote.fetch.max.wait.ms", "600"),
    (SET, "remote.fetch.max.wait.ms", "0"),
    (SET, "zookeeper.connect", "localhost"),
    (SET, "metadata.log.dir", "/x"),
    (SET, "broker.heartbeat.interval.ms", "1"),
    (SET, "unstable.api.versions.enable", "true"),
    (SET, "ssl.endpoint.identification.algorithm", ""),
    (APPEND, "sasl.kerberos.principal.to.local.rules", "RULE"),
    (SET, "log.segment.bytes", "1"),
    (SET, "log.retention.ms", None),
    (7, "log.retention.ms", "1"),
]


@pytest.mark.parametrize("name", one_in(3, [NODE, "", "2", "x", "-1", "01"]))
def test_brokers_are_altered_as_by_kafka(both: Both, sides: tuple[Side, Side], name: str) -> None:
    set_keys: set[str] = set()
    try:
        for change in OF_BROKERS:
            code, _ = both(Side.change, BROKER, name, change, validate_only=True)
            both(Side.change, BROKER, name, change)
            set_keys |= {change[1]} if code == 0 else set()
    finally:
        for side in sides:
            _reset_broker(side, (name,), set_keys)


def _reset_broker(side: Side, names: Iterable[str], keys: Collection[str]) -> None:
    """Delete settings of brokers and wait until the broker uses none of them: other modules share the Kafka."""
    for name in names:
        side.change(BROKER, name, *((DELETE, key, None) for key in keys))
    sources = {ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG}
    eventually(lambda: not any(row.config_source in sources for row in side.describe(BROKER, NODE, *keys).values()))


def test_what_was_altered_for_brokers_is_told_as_by_kafka(both: Both, sides: tuple[Side, Side], topic: str) -> None:
    texts = {"log.roll.ms": "7", "message.max.bytes": "2000000", "unheard.of": "x", "log.cleanup.policy": "compact"}
    changes: list[Change] = [(SET, key, text) for key, text in texts.items()]
    names = ("", NODE)
    try:
        for name in names:
            assert both(Side.change, BROKER, name, *changes) == (0, None)
        for name in names:
            both(described, BROKER, name, *texts)
        both(described, TOPIC, topic)
    finally:
        for side in sides:
            _reset_broker(side, names, texts)


NOT_DESCRIBED: Final = [
    (kind, name)
    for kind in (BROKER, LOGGER, METRICS, 0, 1, 64)
    for name in ("", "2", "x", "-1")
    if (kind, bool(name)) not in {(BROKER, False), (METRICS, True)}
]


@pytest.mark.parametrize(("kind", "name"), NOT_DESCRIBED)
def test_what_cannot_be_described_is_refused_as_by_kafka(sides: tuple[Side, Side], kind: int, name: str) -> None:
    (our_code, our_words), (code, words) = (side.refusal(kind, name) for side in sides)
    assert our_code == code
    assert kind not in {BROKER, LOGGER, METRICS} or our_words == words


def source_of_root(side: Side) -> int:
    """Where the level of the root logger comes from."""
    return side.describe(LOGGER, NODE, "root")["root"].config_source


@pytest.mark.parametrize(
    "change",
    [
        (SET, "root", "debug"),
        (SET, "no.such.logger", "INFO"),
        (DELETE, "no.such.logger", None),
        (DELETE, "root", None),
        (APPEND, "root", "INFO"),
        (SET, "root", "WARN"),
    ],
)
def test_loggers_are_altered_as_by_kafka(both: Both, change: Change) -> None:
    both(Side.change, LOGGER, NODE, change)
    both(source_of_root)


@pytest.mark.parametrize(
    "change",
    [
        (SET, "metrics", "a.,b."),
        (SET, "interval.ms", "10"),
        (SET, "interval.ms", "1000"),
        (SET, "match", "client_id"),
        (SET, "match", "client=x"),
        (SET, "match", "client_id=[a"),
        (SET, "match", "client_id=a.*,client_software_name=b"),
        (SET, "match", "client_id=a=b"),
        (SET, "nonsense", "x"),
        (DELETE, "nonsense", None),
    ],
)
@pytest.mark.parametrize("name", ["", "subscription"])
def test_subscriptions_are_altered_as_by_kafka(both: Both, name: str, change: Change) -> None:
    both(Side.change, METRICS, name, change)
    if name:
        both(what_was_set)


def what_was_set(side: Side) -> dict[str, tuple[str | None, int]]:
    """Of the subscription; Kafka 3.9 tells nothing else of one, later ones tell defaults, too."""
    rows = side.describe(METRICS, "subscription").values()
    return {row.name: (row.value, row.config_source) for row in rows if row.config_source != DEFAULT_SOURCE}
