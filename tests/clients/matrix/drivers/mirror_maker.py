"""MirrorMaker 2, from the broker to a minibroker and to Kafka, and back from Kafka, in one process.

Arguments: java and its options, the bootstrap address and a prefix.
"""

import contextlib
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.cimpl import NewTopic

from tests.clients.matrix import servers
from tests.clients.matrix.drivers import harness
from tests.clients.matrix.drivers.java_service import JavaService, admin_of, topic_config, written

*JAVA, BOOTSTRAP, PREFIX = sys.argv[1:]
SECONDS = harness.LIMIT
"""For a check; the first one waits for Kafka and for MirrorMaker."""
PARTITIONS = 3
RECORDS = 60
"""That are there before MirrorMaker is."""
MORE = 30
RETENTION = "3000000000000"
TIMESTAMP = 1_700_000_000_000
"""In ms, of the first record; it is not yet time to delete it."""

GIVEN, OURS, KAFKA = "given", "ours", "kafka"
_ROWS = {(GIVEN, OURS): "mirror-to-minibroker", (GIVEN, KAFKA): "mirror-to-kafka", (KAFKA, GIVEN): "mirror-from-kafka"}


class Record(NamedTuple):
    """The details that have to be the same on both sides."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Clusters:
    """The clusters and the MirrorMaker between them, from the first use on."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = contextlib.ExitStack()
        self._bootstraps: dict[str, str] = {}
        self._admins: dict[str, Any] = {}

    def ready(self) -> JavaService:
        """Start what does not run yet: topics and records are there before MirrorMaker is."""
        if not self._bootstraps:
            (self._directory / "ours").mkdir()
            ours = self._stack.enter_context(servers.minibroker(self._directory / "ours"))
            kafka = self._stack.enter_context(servers.kafka("3.9.1", self._directory / "kafka"))
            self._bootstraps = {GIVEN: BOOTSTRAP, OURS: ours, KAFKA: kafka}
            for pair in _ROWS:
                self._fill(*pair)
            command = [*JAVA, "org.apache.kafka.connect.mirror.MirrorMaker"]
            file = written(self._directory / "mirror.properties", self._properties())
            self._service = JavaService([*command, file], self._directory / "log")
            self._stack.callback(self._service.end)
        return self._service

    def admin(self, cluster: str) -> Any:
        """One for each cluster."""
        if cluster not in self._admins:
            self._admins[cluster] = admin_of(self._bootstraps[cluster])
        return self._admins[cluster]

    def send(self, cluster: str, topic: str, start: int, end: int) -> None:
        """Numbers, in all partitions, with all that a record may have."""
        producer = Producer(
            {"bootstrap.servers": self._bootstraps[cluster], "compression.type": "zstd", "log_level": 2}
        )
        for number in range(start, end):
            text = str(number).encode()
            producer.produce(
                topic,
                text * 10 if number % 7 else None,
                text if number % 5 else None,
                number % PARTITIONS,
                timestamp=TIMESTAMP + number,
                headers=[("number", text), ("nothing", None)],
            )
        assert producer.flush(SECONDS / 4) == 0, "not all was delivered"

    def read(self, cluster: str, topic: str, count: int) -> list[Record]:
        """So many records of a topic. AssertionError if they do not come in time."""
        options = {"bootstrap.servers": self._bootstraps[cluster], "group.id": f"{PREFIX}-reader", "log_level": 2}
        consumer = Consumer({**options, "auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        found: list[Record] = []
        deadline = time.monotonic() + SECONDS / 3
        try:
            while len(found) < count:
                assert time.monotonic() < deadline, f"{len(found)} of {count} records came; {self._service.output()}"
                message: Any = consumer.poll(0.2)
                if message is not None and not message.error():
                    found.append(
                        Record(
                            message.partition(),
                            message.offset(),
                            message.timestamp()[1],
                            message.key(),
                            message.value(),
                            message.headers(),
                        )
                    )
        finally:
            consumer.close()
        return sorted(found)

    def commit(self, source: str, target: str) -> list[int]:
        """Commit the group at the ends of the topic's partitions; where they are."""
        topic = topic_of(source, target)
        consumer = Consumer(
            {"bootstrap.servers": self._bootstraps[source], "group.id": f"{topic}-group", "log_level": 2}
        )
        try:
            ends = [
                TopicPartition(topic, each, consumer.get_watermark_offsets(TopicPartition(topic, each), 15)[1])
                for each in range(PARTITIONS)
            ]
            consumer.commit(offsets=ends, asynchronous=False)
        finally:
            consumer.close()
        return [each.offset for each in ends]

    def offsets(self, cluster: str, group: str, topic: str) -> list[int]:
        """Where a group is, by partition; empty before it is anywhere."""
        asked = self.admin(cluster).list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        found = asked[group].result(SECONDS / 4).topic_partitions
        return [each.offset for each in sorted(found) if each.topic == topic and each.offset >= 0]

    def end(self) -> None:
        """End all of it."""
        self._stack.close()

    def _fill(self, source: str, target: str) -> None:
        topic = topic_of(source, target)
        new = NewTopic(topic, PARTITIONS, 1, config={"retention.ms": RETENTION})
        self.admin(source).create_topics([new])[topic].result(SECONDS / 4)
        self.send(source, topic, 0, RECORDS)

    def _properties(self) -> dict[str, object]:
        once_a_second = (
            "emit.checkpoints",
            "emit.heartbeats",
            "refresh.groups",
            "refresh.topics",
            "sync.group.offsets",
        )
        topics = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic")
        storage = ("config", "offset", "status")
        # A worker takes these from its cluster's properties. With a flush some mappings of offsets are written.
        of_workers = {
            "offset.flush.interval.ms": 500,
            "plugin.discovery": "service_load",
            "scheduled.rebalance.max.delay.ms": 0,
        }
        return {
            "clusters": ", ".join(self._bootstraps),
            **{f"{name}.bootstrap.servers": address for name, address in self._bootstraps.items()},
            **{f"{cluster}.{name}": value for cluster in self._bootstraps for name, value in of_workers.items()},
            "emit.heartbeats.enabled": "false",
            "sync.group.offsets.enabled": "true",
            "offset.lag.max": 0,
            "replication.factor": 1,
            **{f"{each}.replication.factor": 1 for each in (*topics, *(f"{name}.storage" for name in storage))},
            **{f"{each}.interval.seconds": 1 for each in once_a_second},
            **{
                f"{source}->{target}.{name}": value
                for source, target in _ROWS
                for name, value in (
                    ("enabled", "true"),
                    ("emit.heartbeats.enabled", "true"),
                    ("topics", topic_of(source, target)),
                    ("groups", f"{topic_of(source, target)}-group"),
                )
            },
        }


def topic_of(source: str, target: str) -> str:
    """The topic that goes from one to the other."""
    return f"{PREFIX}-{source}-{target}"


def records(clusters: Clusters, source: str, target: str) -> None:
    """The topic is there with its partitions and its configuration, the records as they were, and those that follow."""
    service = clusters.ready()
    topic = topic_of(source, target)
    mirrored = f"{source}.{topic}"

    def topics() -> Any:
        return clusters.admin(target).list_topics(timeout=SECONDS / 4).topics

    harness.eventually(lambda: service.alive() and mirrored in topics(), SECONDS * 2 / 3)
    assert clusters.read(target, mirrored, RECORDS) == clusters.read(source, topic, RECORDS)
    clusters.send(source, topic, RECORDS, RECORDS + MORE)
    assert clusters.read(target, mirrored, RECORDS + MORE) == clusters.read(source, topic, RECORDS + MORE)
    assert len(topics()[mirrored].partitions) == PARTITIONS
    harness.eventually(lambda: topic_config(clusters.admin(target), mirrored, "retention.ms") == RETENTION)


def offsets(clusters: Clusters, source: str, target: str) -> None:
    """The group is at the same place in the topic of the other cluster; both sides have the topics of MirrorMaker.

    That is so at the ends, since MirrorMaker need not keep where each record has gone to.
    """
    clusters.ready()
    topic = topic_of(source, target)
    expected = clusters.commit(source, target)
    found: list[int] = []

    def translated() -> bool:
        found[:] = clusters.offsets(target, f"{topic}-group", f"{source}.{topic}")
        return found == expected

    try:
        harness.eventually(translated, SECONDS / 3)
    except AssertionError as error:
        raise AssertionError(f"{found} instead of {expected}") from error
    of_target = clusters.admin(target).list_topics(timeout=SECONDS / 4).topics
    assert {"heartbeats", f"{source}.checkpoints.internal"} <= set(of_target), set(of_target)
    assert f"mm2-offset-syncs.{target}.internal" in clusters.admin(source).list_topics(timeout=SECONDS / 4).topics


def main() -> NoReturn:
    """Run the checks, on clusters that all of them share."""
    scratch = tempfile.TemporaryDirectory()
    clusters = Clusters(Path(scratch.name))

    def end() -> None:
        clusters.end()
        scratch.cleanup()

    checks: dict[str, harness.Check] = {}
    for pair, row in _ROWS.items():
        checks[row] = partial(records, clusters, *pair)
        checks[f"{row}-offsets"] = partial(offsets, clusters, *pair)
    harness.run(checks, SECONDS, end)


if __name__ == "__main__":
    main()
