"""`python -m benchmarks.spark`: the speed of reading and checking log files, beside Spark's Kafka connector.

All ways read the same records. They take turns within each round, in one session of Spark.
"""

import argparse
import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.peers import MinibrokerPeer
from minibroker_pipeline.connector import to_topic
from minibroker_pipeline.jobs.reports import text_table
from minibroker_pipeline.jobs.stats import stats
from minibroker_pipeline.jobs.task_runner import Progress
from minibroker_pipeline.jobs.verify import VerifySettings, verify
from minibroker_pipeline.session import spark_session
from minibroker_storage.layout import LOG_SUFFIX

CONNECTOR: Final = "kafka"
SOURCE: Final = "minibroker"
OTHER: Final = "kafka (other broker)"
NOOP: Final = "noop"
AGGREGATE: Final = "aggregate"
QUERIES: Final = (NOOP, AGGREGATE)
JOBS: Final = ("verify", "stats")
_READERS: Final = (CONNECTOR, OTHER, SOURCE, *JOBS)
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_USUAL: Final = 100
"""The value size, in bytes, of the topics with `records` records."""
# At the end, producers that the connector keeps open log that the broker is gone.
_SETTINGS: Final[dict[str, Any]] = {"spark.ui.enabled": False, "spark.log.level": "ERROR"}
_PIECE: Final = 32
_WORDS: Final = "The quick brown fox jumps over the lazy dog, and then it sleeps. "


class Case(NamedTuple):
    """A topic: the size of its values in bytes, its codec, its records, and the bytes of its log."""

    size: int
    codec: str
    records: int
    log_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One run of a query or job over all records of a topic."""

    case: Case
    round: int
    #: A Spark format, `OTHER`, or the name of a job.
    reader: str
    #: "noop", "aggregate", or the name of a job.
    query: str
    seconds: float
    #: The CPU seconds of driver, JVM, Python workers and broker together, or None if unknown.
    cpu_seconds: float | None
    #: The broker's share of the CPU seconds.
    broker_cpu_seconds: float | None

    @property
    def rows_per_second(self) -> float:
        """Rows per second of wall time."""
        return self.case.records / self.seconds


class Figures(NamedTuple):
    """Medians over the rounds. Ratios are computed within each round, against the connector on the same topic."""

    case: Case
    reader: str
    query: str
    rows_per_second: float
    #: CPU seconds per million rows.
    cpu_seconds: float | None
    speed_ratio: float | None
    cpu_ratio: float | None


@dataclass(slots=True)
class BenchReport:
    """The figures measured by `bench`."""

    settings: dict[str, Any]
    samples: list[Sample] = field(default_factory=list[Sample])

    def figures(self) -> list[Figures]:
        """A line for each topic, query and reader, in the order of measurement."""
        keys = {(sample.case, sample.query, sample.reader) for sample in self.samples}
        cases = list(dict.fromkeys(sample.case for sample in self.samples))
        order = (*QUERIES, *JOBS)
        return [
            self._figures(*key)
            for key in sorted(keys, key=lambda key: (cases.index(key[0]), order.index(key[1]), _READERS.index(key[2])))
        ]

    def _figures(self, case: Case, query: str, reader: str) -> Figures:
        own = self._rounds(case, query, reader)
        base = self._rounds(case, query if query in QUERIES else NOOP, CONNECTOR)
        pairs = [(own[number], base[number]) for number in own if number in base and reader != CONNECTOR]
        return Figures(
            case,
            reader,
            query,
            median(sample.rows_per_second for sample in own.values()),
            _median(_per_million(sample) for sample in own.values()),
            _median(mine.rows_per_second / theirs.rows_per_second for mine, theirs in pairs),
            _median(_ratio(mine.cpu_seconds, theirs.cpu_seconds) for mine, theirs in pairs),
        )

    def _rounds(self, case: Case, query: str, reader: str) -> dict[int, Sample]:
        return {
            sample.round: sample
            for sample in self.samples
            if (sample.case, sample.query, sample.reader) == (case, query, reader)
        }

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "settings": self.settings,
            "figures": [figures._asdict() | {"case": figures.case._asdict()} for figures in self.figures()],
            "samples": [asdict(sample) | {"case": sample.case._asdict()} for sample in self.samples],
        }

    def as_text(self) -> str:
        """Return the report as a table."""
        titles = ("bytes", "codec", "query", "reader", "rows/s", "MB/s", "CPU s/M rows", "speed", "CPU")
        rows: list[Sequence[str]] = []
        for figures in self.figures():
            case = figures.case
            megabytes = figures.rows_per_second * case.log_bytes / case.records / 1e6
            rows.append(
                (
                    f"{case.size:,}",
                    case.codec,
                    figures.query,
                    figures.reader,
                    f"{figures.rows_per_second:,.0f}",
                    f"{megabytes:,.0f}",
                    _text(figures.cpu_seconds, "{:.2f}".format),
                    _text(figures.speed_ratio, "{:.2f}x".format),
                    _text(figures.cpu_ratio, "{:.2f}x".format),
                )
            )
        return (
            text_table(titles, rows, left=(1, 2, 3))
            + f"\nMedians of {self.settings['rounds']} rounds on {self.settings['master']}. MB/s are bytes of the log."
            f" Speed and CPU are ratios to {CONNECTOR} in the same\nround, those of jobs to its query {NOOP}."
            " CPU is that of driver, JVM, Python workers and broker together.\n"
        )


def _per_million(sample: Sample) -> float | None:
    return None if sample.cpu_seconds is None else sample.cpu_seconds / sample.case.records * 1e6


def _ratio(mine: float | None, theirs: float | None) -> float | None:
    return mine / theirs if mine is not None and theirs else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _text(value: float | None, write: Callable[[float], str]) -> str:
    return "" if value is None else write(value)


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """The settings of a measurement.

    Attributes:
        records: The number of records of a topic with values of 100 bytes. Topics with larger values have fewer
            records, as if each record cost 100 bytes more.
        sizes: The value sizes in bytes. There is a topic for each size and codec.
        codecs: Kafka's names of the codecs.
        rounds: The number of repetitions, after one that does not count.
        partitions: The number of partitions of each topic.
        batch_bytes: `batch.size` of the producer that fills the topics.
        master: The Spark master.
        bootstrap: Another broker, whose topics are filled too and read with the connector, or None.
        bootstrap_pid: The process of the other broker if it is on this machine. Its CPU time is then counted.
    """

    records: int = 2_000_000
    sizes: tuple[int, ...] = (100, 1000)
    codecs: tuple[str, ...] = ("none", "lz4")
    rounds: int = 3
    partitions: int = 2
    batch_bytes: int = 16384
    master: str = "local[2]"
    bootstrap: str | None = None
    bootstrap_pid: int | None = None

    def __post_init__(self) -> None:
        unknown = [codec for codec in self.codecs if codec not in CODECS]
        if unknown:
            raise ValueError(f"codecs: {unknown[0]!r} is not one of {', '.join(CODECS)}")
        for name in ("records", "rounds", "partitions", "batch_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is less than 1")
        if min(self.sizes, default=0) < 1:
            raise ValueError("sizes: at least one is needed, and none below 1")

    def records_of(self, size: int) -> int:
        """Return the number of records of a topic with values of this size."""
        return max(1, self.records * 2 * _USUAL // (max(size, _USUAL) + _USUAL))


@contextmanager
def topics_on(spark: SparkSession, bootstrap: str, names: Sequence[str], partitions: int) -> Generator[None]:
    """Create the topics with one replica, and delete them when the `with` block ends.

    Errors are Kafka's, raised through Py4J.
    """
    java: Any = spark.sparkContext._jvm  # noqa: SLF001 - there is no other way to a class of Java
    properties = java.java.util.HashMap()
    properties.put("bootstrap.servers", bootstrap)
    admin = java.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        topics = [java.org.apache.kafka.clients.admin.NewTopic(name, partitions, 1) for name in names]
        admin.createTopics(java.java.util.ArrayList(topics)).all().get()
        try:
            yield
        finally:
            admin.deleteTopics(java.java.util.ArrayList(list(names))).all().get()
    finally:
        admin.close()


def fill(spark: SparkSession, bootstrap: str, topic: str, case: Case, batch_bytes: int) -> None:
    """Write records with keys of eight bytes. Half of each value is hexadecimal noise, and half is words.

    Errors are Spark's.
    """
    number = f.col("id")
    noise = [
        f.md5(f.concat(number.cast("string"), f.lit(f"-{piece}"))) for piece in range(-(-case.size // (2 * _PIECE)))
    ]
    words = [f.lit((_WORDS * 2)[piece % len(_WORDS) :][:_PIECE]) for piece in range(len(noise))]
    value = f.substring(f.concat(*(part for pair in zip(noise, words, strict=True) for part in pair)), 1, case.size)
    frame = spark.range(case.records).select(
        f.lpad((number % 100_000_000).cast("string"), 8, "0").alias("key"), value.alias("value")
    )
    options = {"kafka.compression.type": case.codec, "kafka.batch.size": str(batch_bytes), "kafka.linger.ms": "50"}
    to_topic(frame, bootstrap, topic, options)


class Reader(NamedTuple):
    """A reader's name in the report, its query, and the function that runs it over all records of a topic."""

    name: str
    query: str
    run: Callable[[str], None]
    #: The broker that it reads from, if that broker is on this machine.
    broker_pid: int | None


def readers(spark: SparkSession, broker: MinibrokerPeer, other: str | None, other_pid: int | None) -> list[Reader]:
    """Return the readers of our broker and its files, and a reader of the `other` broker with the connector."""
    found: list[Reader] = []
    for name, query in _QUERIES.items():
        run = partial(_from_kafka, spark, broker.bootstrap, query)
        found.append(Reader(CONNECTOR, name, run, broker.pid))
        if other:
            found.append(Reader(OTHER, name, partial(_from_kafka, spark, other, query), other_pid))
        found.append(Reader(SOURCE, name, partial(_from_files, spark, str(broker.data), query), broker.pid))
    for job, function in _JOBS.items():
        found.append(Reader(job, job, partial(function, str(broker.data)), broker.pid))
    return found


def _from_kafka(spark: SparkSession, bootstrap: str, query: Callable[[DataFrame], None], topic: str) -> None:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    query(spark.read.format("kafka").options(**options).load())


def _from_files(spark: SparkSession, data_dir: str, query: Callable[[DataFrame], None], topic: str) -> None:
    query(spark.read.format("minibroker").option("topics", topic).load(data_dir))


def _noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _aggregate(frame: DataFrame) -> None:
    """Aggregate each column."""
    frame.agg(
        f.sum(f.length("key")),
        f.sum(f.length("value")),
        f.max("topic"),
        f.max("partition"),
        f.max("offset"),
        f.max("timestamp"),
        f.max("timestampType"),
    ).collect()


def _verify(data_dir: str, topic: str) -> None:
    damage = verify([data_dir], VerifySettings(topics=(topic,))).damage
    if damage:
        raise RuntimeError(f"the broker's log has damage: {damage[0]}")


def _stats(data_dir: str, topic: str) -> None:
    stats([data_dir], topics=[topic])


_QUERIES: Final[dict[str, Callable[[DataFrame], None]]] = {NOOP: _noop, AGGREGATE: _aggregate}
_JOBS: Final[dict[str, Callable[[str, str], None]]] = {"verify": _verify, "stats": _stats}


def bench(settings: BenchSettings, spark: SparkSession | None = None) -> BenchReport:
    """Start a broker on temporary files, fill topics, measure, and clean up. Errors in a query are Spark's."""
    if spark is None:
        spark = spark_session("benchmarks.spark", master=settings.master, **_SETTINGS)
    prefix = f"bench-{uuid.uuid4().hex[:8]}"
    plan = {f"{prefix}-{size}-{codec}": (size, codec) for size in settings.sizes for codec in settings.codecs}
    other = settings.bootstrap
    report = BenchReport(asdict(settings))
    broker = MinibrokerPeer()
    broker.start()
    try:
        topics = partial(topics_on, spark, names=list(plan), partitions=settings.partitions)
        with topics(broker.bootstrap), topics(other) if other else nullcontext():
            measured = readers(spark, broker, other, settings.bootstrap_pid)
            progress = Progress("bench", len(plan) * (1 + len(measured) * (settings.rounds + 1)), "steps")
            for name, (size, codec) in plan.items():
                case = Case(size, codec, settings.records_of(size), 0)
                for bootstrap in (broker.bootstrap, *([other] if other else [])):
                    fill(spark, bootstrap, name, case, settings.batch_bytes)
                progress.add(1)
                case = case._replace(log_bytes=_log_bytes(str(broker.data), name))
                for number in range(settings.rounds + 1):
                    for reader in measured[number % len(measured) :] + measured[: number % len(measured)]:
                        sample = _measure(reader, case, name, number)
                        report.samples += [sample] if number else []
                        progress.add(1)
    finally:
        broker.stop()
    return report


def _log_bytes(data_dir: str, topic: str) -> int:
    return sum(
        entry.stat().st_size
        for partition in os.scandir(data_dir)
        if partition.name.rpartition("-")[0] == topic
        for entry in os.scandir(partition.path)
        if entry.name.endswith(LOG_SUFFIX)
    )


def _measure(reader: Reader, case: Case, topic: str, number: int) -> Sample:
    # Under spark-submit, the JVM started this process, otherwise this process the JVM. The broker is its child.
    root = os.getppid() if "PYSPARK_GATEWAY_PORT" in os.environ else os.getpid()
    broker_pids = [reader.broker_pid] if reader.broker_pid else []
    pids = [root, *broker_pids]
    before, broker_before, start = cpu_seconds(pids), cpu_seconds(broker_pids), time.perf_counter()
    reader.run(topic)
    seconds = time.perf_counter() - start
    cpu, broker_cpu = _since(before, cpu_seconds(pids)), _since(broker_before, cpu_seconds(broker_pids))
    return Sample(
        case=case,
        round=number,
        reader=reader.name,
        query=reader.query,
        seconds=seconds,
        cpu_seconds=cpu,
        broker_cpu_seconds=broker_cpu,
    )


def cpu_seconds(roots: Iterable[int]) -> float | None:
    """Return the user and system CPU seconds of these processes and all their descendants, or None without processes.

    On Linux, descendants that have ended are included.
    """
    processes: dict[int, psutil.Process] = {}
    for pid in roots:
        root = psutil.Process(pid)
        processes |= {process.pid: process for process in (root, *root.children(recursive=True))}
    total = 0.0
    for process in processes.values():
        with suppress(psutil.NoSuchProcess):  # ended meanwhile
            total += sum(process.cpu_times()[:4])
    return total if processes else None


def _since(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    summary = "Measure how fast log files are read, beside Spark's Kafka connector."
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=summary)
    option = parser.add_argument
    option(
        "--records",
        type=_positive,
        default=2_000_000,
        metavar="N",
        help="of topics with values of 100 bytes; fewer of larger ones (default: 2000000)",
    )
    option("--sizes", default="100,1000", metavar="N,N", help="bytes of the values (default: 100,1000)")
    option("--codecs", default="none,lz4", metavar="NAME,NAME", help="compression.type (default: none,lz4)")
    option("--rounds", type=_positive, default=3, metavar="N", help="after one that does not count (default: 3)")
    option("--master", default="local[2]", metavar="URL", help="where Spark runs (default: local[2])")
    option("--bootstrap", metavar="HOST:PORT", help="read with the connector from this broker, too")
    option(
        "--bootstrap-pid", type=_positive, metavar="PID", help="its process, if it is on this machine: for CPU times"
    )
    option("--json", metavar="FILE", help="write the report as JSON; - is standard output, instead of the table")
    options = parser.parse_args(arguments)
    settings = BenchSettings(
        records=options.records,
        sizes=tuple(_positive(size) for size in options.sizes.split(",")),
        codecs=tuple(options.codecs.split(",")),
        rounds=options.rounds,
        master=options.master,
        bootstrap=options.bootstrap,
        bootstrap_pid=options.bootstrap_pid,
    )
    report = bench(settings)
    text = json.dumps(report.as_json(), indent=2) + "\n"
    print(text if options.json == "-" else report.as_text(), end="")
    if options.json not in {None, "-"}:
        Path(options.json).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
