"""Kafka Connect with its connectors for files. Arguments: java and its options, the bootstrap address and a prefix."""

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition

from tests.clients.matrix.drivers import harness
from tests.clients.matrix.drivers.java_service import JavaService, admin_of, ask, topic_config, written
from tests.kafka.real_kafka import free_ports

*JAVA, BOOTSTRAP, PREFIX = sys.argv[1:]
SECONDS = harness.LIMIT
"""For a check, most of which start a JVM or two."""

_FILES = "org.apache.kafka.connect.file.FileStream"
_STRINGS = "org.apache.kafka.connect.storage.StringConverter"
_CLI = "org.apache.kafka.connect.cli.Connect"
_WORKER: Mapping[str, object] = {
    "bootstrap.servers": BOOTSTRAP,
    "key.converter": _STRINGS,
    "value.converter": _STRINGS,
    "offset.flush.interval.ms": 300,
    "plugin.discovery": "service_load",
    "metadata.max.age.ms": 2_000,
}


class Files:
    """A file that a source connector reads into a topic, and one that a sink connector writes from it."""

    def __init__(self, directory: Path, name: str) -> None:
        self.topic = f"{PREFIX}-{name}"
        self.source = f"{self.topic}-source"
        self.sink = f"{self.topic}-sink"
        self.lines: list[str] = []
        self.written_before: list[str] = []
        self._read = directory / f"{name}-read.txt"
        self._written = directory / f"{name}-written.txt"

    def configurations(self, **of_source: object) -> dict[str, dict[str, object]]:
        """Of the two connectors, by their names."""
        source = {"file": self._read, "topic": self.topic, **of_source}
        sink = {"file": self._written, "topics": self.topic, "consumer.override.metadata.max.age.ms": 500}
        return {
            self.source: {"connector.class": f"{_FILES}SourceConnector", "tasks.max": 1, **source},
            self.sink: {"connector.class": f"{_FILES}SinkConnector", "tasks.max": 1, **sink},
        }

    def more(self, count: int = 50) -> None:
        """Write lines to be read."""
        new = [f"line {number}" for number in range(len(self.lines), len(self.lines) + count)]
        with self._read.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        self.lines += new

    def written(self) -> list[str]:
        """The whole lines that the sink has written so far."""
        return self._written.read_text().rpartition("\n")[0].splitlines() if self._written.exists() else []

    def arrive(self, service: JavaService) -> None:
        """AssertionError unless the lines that were read are written, after those of before, and in the topic once."""
        expected = self.written_before + self.lines
        try:
            harness.eventually(lambda: service.alive() and len(self.written()) >= len(expected), SECONDS / 2)
        except AssertionError as error:
            raise AssertionError(f"{len(self.written())} of {len(expected)}; {service.output()}") from error
        written = self.written()
        assert written == expected, f"{len(written)} lines instead of {len(expected)}, or others"
        assert [value for _, value in records(self.topic)] == self.lines


def records(topic: str) -> list[tuple[int, str]]:
    """All committed records of its only partition, with their offsets."""
    options = {"bootstrap.servers": BOOTSTRAP, "group.id": PREFIX, "enable.partition.eof": True, "log_level": 2}
    consumer = Consumer({**options, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, str]] = []
    deadline = time.monotonic() + SECONDS / 4
    try:
        while (message := consumer.poll(max(0.0, deadline - time.monotonic()))) is not None:
            if error := message.error():
                assert error.name() == "_PARTITION_EOF", error
                return found
            found.append((message.offset() or 0, (message.value() or b"").decode()))
    finally:
        consumer.close()
    raise AssertionError(f"no end of {topic} after {len(found)} records")


def committed(group: str) -> list[int]:
    """The offsets of a group."""
    admin = admin_of(BOOTSTRAP)
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    return [each.offset for each in asked[group].result(SECONDS / 4).topic_partitions]


class Workers:
    """A cluster of Connect, its workers and its two connectors."""

    def __init__(self, directory: Path) -> None:
        self.files = Files(directory, "distributed")
        self._directory = directory
        self._stack = contextlib.ExitStack()
        self._first: tuple[JavaService, str] | None = None

    def ready(self) -> tuple[JavaService, str]:
        """The first worker, which has the connectors, and where it listens."""
        if self._first is None:
            self._first = self.worker()
            self.configure(self._first[1])
        return self._first

    def worker(self, **more: object) -> tuple[JavaService, str]:
        """A new worker, and where it listens."""
        (port,) = free_ports(1)
        properties = {
            **_WORKER,
            "group.id": f"{PREFIX}-connect",
            "config.storage.topic": f"{PREFIX}-connect-configs",
            "offset.storage.topic": f"{PREFIX}-connect-offsets",
            "status.storage.topic": f"{PREFIX}-connect-status",
            "listeners": f"http://127.0.0.1:{port}",
            "scheduled.rebalance.max.delay.ms": 0,
            "offset.storage.partitions": 5,
            **{f"{each}.storage.replication.factor": 1 for each in ("config", "offset", "status")},
            **more,
        }
        file = written(self._directory / f"{port}.properties", properties)
        service = JavaService([*JAVA, f"{_CLI}Distributed", file], self._directory / f"{port}.log")
        url = f"http://127.0.0.1:{port}/connectors"
        self._stack.callback(service.end)
        harness.eventually(lambda: service.alive() and ask(url) is not None, SECONDS / 2)
        return service, url

    def configure(self, url: str, **of_source: object) -> None:
        """Make the connectors, or change them."""
        for name, configuration in self.files.configurations(**of_source).items():
            body = {key: str(value) for key, value in configuration.items()}
            harness.eventually(lambda name=name, body=body: ask(f"{url}/{name}/config", "PUT", body), SECONDS / 2)  # type: ignore[misc] # bound at once

    def workers(self, url: str) -> Sequence[str]:
        """Those that run a connector or a task; none while one of these does not run."""
        found: list[str] = []
        for name in (self.files.source, self.files.sink):
            status = ask(f"{url}/{name}/status")
            parts: list[Any] = [status["connector"], *status["tasks"]] if status else []
            if len(parts) != 2 or any(part["state"] != "RUNNING" for part in parts):
                return ()
            found += [part["worker_id"] for part in parts]
        return found

    def offsets(self, url: str, connector: str, name: str) -> list[int]:
        """A connector's offsets, by their name in its answer."""
        answer = ask(f"{url}/{connector}/offsets") or {"offsets": ()}
        return [each["offset"][name] for each in answer["offsets"]]

    def end(self) -> None:
        """End its workers."""
        self._stack.close()


def standalone(directory: Path) -> None:
    """The source's records come again in the sink's file, also those added later and in a second run."""
    files = Files(directory, "standalone")
    worker = {**_WORKER, "listeners": "http://127.0.0.1:0", "offset.storage.file.filename": directory / "offsets"}
    arguments = [written(directory / "worker.properties", worker)]
    for name, configuration in files.configurations().items():
        arguments.append(written(directory / f"{name}.properties", {"name": name, **configuration}))
    for _ in range(2):
        files.more()
        with JavaService([*JAVA, f"{_CLI}Standalone", *arguments], directory / "log") as service:
            files.arrive(service)
            files.more()
            files.arrive(service)
    assert committed(f"connect-{files.sink}") == [len(files.lines)]


def distributed(workers: Workers) -> None:
    """Two connectors of one worker, configured over HTTP."""
    first, _ = workers.ready()
    workers.files.more()
    workers.files.arrive(first)


def internal_topics(workers: Workers) -> None:
    """They are compacted, and have as many partitions as they are told."""
    workers.ready()
    admin = admin_of(BOOTSTRAP)
    topics = admin.list_topics(timeout=SECONDS / 4).topics
    for name, partitions in (("configs", 1), ("offsets", 5), ("status", 5)):
        topic = f"{PREFIX}-connect-{name}"
        assert len(topics[topic].partitions) == partitions, name
        assert topic_config(admin, topic, "cleanup.policy") == "compact", name


def offsets(workers: Workers) -> None:
    """The connectors' offsets are shown; without its own ones the sink starts again."""
    first, url = workers.ready()
    workers.files.more()
    workers.files.arrive(first)
    size = sum(len(line) + 1 for line in workers.files.lines)
    harness.eventually(lambda: workers.offsets(url, workers.files.source, "position") == [size])
    harness.eventually(lambda: workers.offsets(url, workers.files.sink, "kafka_offset") == [len(workers.files.lines)])
    sink = f"{url}/{workers.files.sink}"
    ask(f"{sink}/stop", "PUT")
    harness.eventually(lambda: (ask(f"{sink}/status") or {"tasks": "?"})["tasks"] == [], SECONDS / 2)
    harness.eventually(lambda: ask(f"{sink}/offsets", "DELETE"), SECONDS / 2)
    ask(f"{sink}/resume", "PUT")
    workers.files.written_before += workers.files.lines
    workers.files.arrive(first)


def rebalance(workers: Workers) -> None:
    """A second worker takes a part of the work, and all of it when the first one leaves."""
    first, _ = workers.ready()
    second, url = workers.worker()
    harness.eventually(lambda: len(set(workers.workers(url))) == 2, SECONDS / 2)
    first.end()
    harness.eventually(lambda: len(set(workers.workers(url))) == 1, SECONDS / 2)
    workers.files.more()
    workers.files.arrive(second)
    second.end()


def exactly_once(workers: Workers) -> None:
    """The same connectors, in a cluster that writes records and the source's offsets in transactions."""
    before = len(workers.files.lines)
    service, url = workers.worker(**{"exactly.once.source.support": "enabled"})
    workers.configure(url, **{"exactly.once.support": "required"})
    for _ in range(3):
        workers.files.more()
        workers.files.arrive(service)
    found = [offset for offset, _ in records(workers.files.topic)]
    assert found[:before] == list(range(before)), found
    # The end of each transaction takes an offset, too.
    assert found[-1] >= before + 3 * 50 + 1, found


def main() -> NoReturn:
    """Run the checks; each of those of the workers goes on where the one before it has ended."""
    scratch = tempfile.TemporaryDirectory()
    workers = Workers(Path(scratch.name))
    of_workers: dict[str, Callable[[Workers], None]] = {
        "connect-distributed": distributed,
        "connect-internal-topics": internal_topics,
        "connect-offsets": offsets,
        "connect-rebalance": rebalance,
        "connect-exactly-once": exactly_once,
    }

    def end() -> None:
        workers.end()
        scratch.cleanup()

    harness.run(
        {"connect-standalone": lambda: standalone(Path(scratch.name))}
        | {name: partial(check, workers) for name, check in of_workers.items()},
        SECONDS,
        end,
    )


if __name__ == "__main__":
    main()
