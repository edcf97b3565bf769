"""Send every line of Python's standard library through a broker, and read them again after a restart and a kill -9.

A `KafkaProducer` with default settings produces about 700,000 lines to a topic of four partitions. Each line is a
record, keyed by the name of its file. A `KafkaConsumer` reads them back and compares them with the source byte by byte
and, within each file, in order. Then the broker is restarted on the same data directory, and a new consumer reads
everything again. The broker is then killed with SIGKILL, restarted, and read once more.

    pip install . kafka-python                                         # in the checkout
    python examples/stdlib_roundtrip.py                                # about two minutes
    python examples/stdlib_roundtrip.py --limit 20000                  # a few seconds
    python examples/stdlib_roundtrip.py --bootstrap 127.0.0.1:9092     # a running broker: no restarts

The exit status is 1 if a line is missing, repeated, changed or out of order. Lines are compared as they arrive, so that
only a few files are in memory at a time.
"""

import argparse
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Self

from kafka import (  # type: ignore[import-untyped]  # kafka-python ships no types
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)
from kafka.errors import KafkaError  # type: ignore[import-untyped]  # kafka-python ships no types

PARTITIONS = 4
UPDATE_EVERY = 5_000
"""The number of lines between updates of the progress line."""
UNACKNOWLEDGED = 50_000
"""The number of unacknowledged lines that the producer can have, since its buffer is unbounded."""
PATIENCE_SECONDS = 30.0
"""The time to wait for the next record before the remaining records count as missing."""
SHOWN = 10
"""The number of differences that are printed. All of them are counted."""


class RoundTripError(Exception):
    """The round trip cannot continue: the broker did not start, or rejected a record."""


class Source:
    """The lines of the standard library's .py files, or the first `limit` of them.

    Attributes:
        counts: The number of lines yielded per file. `lines` fills it.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.root = sysconfig.get_path("stdlib")
        self.counts: dict[str, int] = {}
        self._limit = limit

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """Yield each file name with a line, including its line ending, one file after another."""
        remaining = sys.maxsize if self._limit is None else self._limit
        for name in self._names():
            lines = self._read(name)[:remaining]
            remaining -= len(lines)
            if lines:
                self.counts[name] = len(lines)
            for line in lines:
                yield name, line

    def lines_of(self, name: str) -> list[bytes]:
        """Return the lines of a file that `lines` has yielded."""
        return self._read(name)[: self.counts[name]]

    @property
    def total(self) -> int:
        """The number of lines that `lines` has yielded."""
        return sum(self.counts.values())

    def _names(self) -> Iterator[str]:
        for directory, subdirectories, files in os.walk(self.root):
            subdirectories[:] = sorted(set(subdirectories) - {"site-packages", "dist-packages", "__pycache__"})
            for file in sorted(files):
                if file.endswith(".py"):
                    yield os.path.relpath(os.path.join(directory, file), self.root)

    def _read(self, name: str) -> list[bytes]:
        with open(os.path.join(self.root, name), "rb") as file:
            return file.readlines()


class FileCheck:
    """Compares the records of one file with its lines as they arrive."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines
        self._next = 0
        self._skipped: set[int] = set()

    def take(self, value: bytes | None) -> str | None:
        """Compare the next record. Return None if it is the next line, otherwise the kind of difference."""
        if self._next < len(self._lines) and value == self._lines[self._next]:
            self._next += 1
            return None
        for index in range(self._next + 1, len(self._lines)):
            if value == self._lines[index]:  # Skipped lines are missing unless they arrive later.
                self._skipped.update(range(self._next, index))
                self._next = index + 1
                return None
        for index in sorted(self._skipped):
            if value == self._lines[index]:
                self._skipped.remove(index)
                return "out of order"
        if value in self._lines[: self._next]:
            return "repeated"
        self._next = min(self._next + 1, len(self._lines))
        return "changed"

    @property
    def missing(self) -> int:
        """The number of lines that have not arrived."""
        return len(self._lines) - self._next + len(self._skipped)


@dataclass
class Verdict:
    """The records that a consumer has read, and their differences from the source."""

    records: int = 0
    differences: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def add(self, kind: str, where: str, count: int = 1) -> None:
        """Count differences of one kind, and keep the first few for the report."""
        self.differences[kind] += count
        if len(self.examples) < SHOWN:
            self.examples.append(f"{kind}: {where}")


class Verifier:
    """Compares records of any number of partitions with the source. Only incomplete files are in memory."""

    def __init__(self, source: Source) -> None:
        self.verdict = Verdict()
        self._source = source
        self._open: dict[str, FileCheck] = {}
        self._complete: set[str] = set()
        self._partitions: dict[str, int] = {}

    def take(self, key: bytes | None, value: bytes | None, partition: int, offset: int) -> None:
        """Check one record. A partition's records must be passed in offset order."""
        self.verdict.records += 1
        name = os.fsdecode(key or b"")
        where = f"{name or 'a record without a key'} at partition {partition}, offset {offset}: {value!r:.100}"
        if self._partitions.setdefault(name, partition) != partition:
            self.verdict.add("in a second partition", where)
        if name in self._complete:
            self.verdict.add("repeated", where)
            return
        check = self._open.get(name)
        if check is None:
            if name not in self._source.counts:
                self.verdict.add("of no file", where)
                return
            check = self._open[name] = FileCheck(self._source.lines_of(name))
        if difference := check.take(value):
            self.verdict.add(difference, where)
        if not check.missing:
            del self._open[name]
            self._complete.add(name)

    def finish(self) -> Verdict:
        """Return the verdict after the last record."""
        for name, check in self._open.items():
            self.verdict.add("missing", f"{check.missing} lines of {name}", check.missing)
        for name in self._source.counts.keys() - self._complete - self._open.keys():
            self.verdict.add("missing", f"all of {name}", self._source.counts[name])
        return self.verdict


class Progress:
    """A line that is updated in place. Without a terminal, only its final state is printed."""

    def __init__(self, label: str, total: int | None) -> None:
        self._label = label
        self._total = total
        self._start = time.monotonic()
        self._next = UPDATE_EVERY
        self._terminal = sys.stdout.isatty()

    @property
    def seconds(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self._start

    def show(self, lines: int) -> None:
        """Show the progress, at most once per `UPDATE_EVERY` lines."""
        if not self._terminal or lines < self._next:
            return
        self._next = lines + UPDATE_EVERY
        share = f" ({lines / self._total:.0%})" if self._total else ""
        print(f"\r\x1b[2K{self._label}: {lines:,} lines{share}, {lines / self.seconds:,.0f}/s", end="", flush=True)

    def finish(self, lines: int, outcome: str) -> None:
        """Replace the line with its final state."""
        rate = lines / max(self.seconds, 1e-9)
        start = "\r\x1b[2K" if self._terminal else ""
        print(f"{start}{self._label}: {lines:,} lines in {self.seconds:.1f} s, {rate:,.0f} lines/s, {outcome}")


class BrokerProcess:
    """A `minibroker serve` child process with a fixed port and data directory, which can be restarted."""

    def __init__(self, data_dir: str) -> None:
        self.bootstrap = "127.0.0.1:0"  # The first start picks a free port, and later starts reuse it.
        self._data_dir = data_dir
        self._child: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process, and wait for the line that it prints when clients can connect.

        Raises:
            RoundTripError: The process ended without that line.
        """
        options = ["--listen", self.bootstrap, "--data-dir", self._data_dir]
        command = [sys.executable, "-m", "minibroker", "serve", *options]
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._child.stdout is not None
        ready = self._child.stdout.readline()
        words = dict(word.split("=", 1) for word in ready.split() if "=" in word)
        if "bootstrap" not in words:
            self.stop(signal.SIGKILL)
            raise RoundTripError(f"the broker did not start: {ready or 'it ended without a word'}")
        self.bootstrap = words["bootstrap"]

    def stop(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end.

        Return the exit status, which is negative if a signal ended the process.
        """
        assert self._child is not None
        self._child.send_signal(number)
        status = self._child.wait(timeout=60)
        assert self._child.stdout is not None
        self._child.stdout.close()
        self._child = None
        return status

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self.stop(signal.SIGKILL)


def produce(bootstrap: str, topic: str, source: Source) -> None:
    """Produce all lines, and wait until the broker has acknowledged them.

    Raises:
        RoundTripError: The broker rejected a line.
    """
    progress = Progress("produced", None)
    refused: list[BaseException] = []
    size = 0
    lines = 0
    # All settings except the address have the client's defaults: an idempotent producer with acks=all.
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for lines, (name, line) in enumerate(source.lines(), start=1):
            producer.send(topic, key=os.fsencode(name), value=line).add_errback(refused.append)
            size += len(line)
            progress.show(lines)
            if lines % UNACKNOWLEDGED == 0:
                producer.flush()
        producer.flush()
    if refused:
        raise RoundTripError(f"{len(refused)} lines were refused, the first with {refused[0]!r}")
    progress.finish(lines, f"{size / 1e6:.1f} MB from {len(source.counts):,} files, all acknowledged")


def verify(bootstrap: str, topic: str, source: Source, when: str) -> Verdict:
    """Read everything with a new consumer, and compare it with the source."""
    progress = Progress(f"read {when}", source.total)
    verifier = Verifier(source)
    with closing(KafkaConsumer(bootstrap_servers=bootstrap)) as consumer:
        partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        left = sum(consumer.end_offsets(partitions).values())
        last_record = time.monotonic()
        while left > 0 and time.monotonic() - last_record < PATIENCE_SECONDS:
            for batch in consumer.poll(timeout_ms=1_000, max_records=UPDATE_EVERY).values():
                last_record = time.monotonic()
                for record in batch:
                    verifier.take(record.key, record.value, record.partition, record.offset)
                left -= len(batch)
            progress.show(verifier.verdict.records)
    verdict = verifier.finish()
    differences = ", ".join(f"{count:,} {kind}" for kind, count in verdict.differences.items())
    progress.finish(verdict.records, differences or "all identical and in order")
    for example in verdict.examples:
        print(f"  {example}")
    return verdict


def create_topic(bootstrap: str, topic: str) -> None:
    """Create the topic with four partitions, and wait until clients can see it."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.create_topics({topic: {"num_partitions": PARTITIONS, "replication_factor": 1}}, wait_for_metadata=True)


def with_own_broker(source: Source, topic: str) -> list[Verdict]:
    """Run the round trip on a broker started here, with a restart and a kill."""
    with tempfile.TemporaryDirectory(prefix="stdlib-roundtrip-") as data_dir, BrokerProcess(data_dir) as broker:
        create_topic(broker.bootstrap, topic)
        produce(broker.bootstrap, topic, source)
        verdicts = [verify(broker.bootstrap, topic, source, "back")]
        if status := broker.stop(signal.SIGTERM):
            raise RoundTripError(f"the broker ended with status {status} on SIGTERM")
        broker.start()
        verdicts.append(verify(broker.bootstrap, topic, source, "after a restart"))
        broker.stop(signal.SIGKILL)
        broker.start()
        verdicts.append(verify(broker.bootstrap, topic, source, "after kill -9"))
        broker.stop(signal.SIGTERM)
    return verdicts


def with_running_broker(bootstrap: str, source: Source, topic: str) -> list[Verdict]:
    """Run the round trip without restarts on a broker that somebody else runs."""
    create_topic(bootstrap, topic)
    try:
        produce(bootstrap, topic, source)
        return [verify(bootstrap, topic, source, "back")]
    finally:
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
            admin.delete_topics([topic])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example. Return 0 if every line came back each time."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="use the broker that runs there; no restarts then")
    parser.add_argument("--limit", metavar="N", type=int, help="only the first N lines")
    options = parser.parse_args(arguments)
    source = Source(options.limit)
    topic = f"stdlib-{uuid.uuid4().hex[:8]}"
    print(f"{source.root}: every line to {topic}, {PARTITIONS} partitions")
    try:
        if options.bootstrap:
            verdicts = with_running_broker(options.bootstrap, source, topic)
        else:
            verdicts = with_own_broker(source, topic)
    except (RoundTripError, KafkaError) as error:
        print(f"FAILED: {error!r}")
        return 1
    failed = sum(bool(verdict.differences) for verdict in verdicts)
    if failed or not source.total:
        print(f"FAILED: {failed} of {len(verdicts)} times the lines that came back were not those of the source")
        return 1
    print(f"OK: {source.total:,} lines of {len(source.counts):,} files came back identical, {len(verdicts)} times")
    return 0


if __name__ == "__main__":
    sys.exit(main())
