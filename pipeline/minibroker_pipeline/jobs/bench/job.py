"""The job: fill topics, then read them in turn, with the connector and from the files."""

import os
import tempfile
import time
import uuid
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from minibroker_pipeline.jobs.bench.elsewhere import topics_on
from minibroker_pipeline.jobs.bench.filling import Filling, fill
from minibroker_pipeline.jobs.bench.meter import cpu_seconds
from minibroker_pipeline.jobs.bench.own_broker import OwnBroker
from minibroker_pipeline.jobs.bench.readers import Reader, readers
from minibroker_pipeline.jobs.bench.report import BenchReport, Case, Sample
from minibroker_pipeline.jobs.task_runner import Progress
from minibroker_pipeline.session import spark_session
from minibroker_storage.layout import LOG_SUFFIX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_USUAL: Final = 100
"""Bytes of the values of which there are `records`."""
# At the end producers that the connector keeps complain that the broker has gone.
_SETTINGS: Final[dict[str, Any]] = {"spark.ui.enabled": False, "spark.log.level": "ERROR"}


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """The settings of a measurement.

    Attributes:
        records: of a topic with values of 100 bytes; of larger ones fewer, as if each cost 100 bytes more.
        sizes: bytes of the values, a topic for each with each of the codecs.
        codecs: names of Kafka's.
        rounds: how often everything is measured, after a round that does not count.
        partitions: of each topic.
        batch_bytes: `batch.size` of the producer that fills them.
        master: where Spark runs.
        bootstrap: another broker, whose topics are filled, too, and read with the connector. Its CPU time counts if it
            is that of `bootstrap_pid`.
        bootstrap_pid: the other broker's process, if it is on this machine.
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
        """The number of records of a topic with values of this size."""
        return max(1, self.records * 2 * _USUAL // (max(size, _USUAL) + _USUAL))


def bench(settings: BenchSettings | None = None, *, spark: "SparkSession | None" = None) -> BenchReport:
    """Start a broker on temporary files, fill topics, measure, and clean up.

    The readers take turns within each round. `ValueError`, `jars.NoJarsError`, `own_broker.BrokerError`, `OSError`;
    what goes wrong in a query is Spark's.
    """
    settings = settings or BenchSettings()
    if spark is None:
        spark = spark_session("minibroker-pipeline bench", master=settings.master, **_SETTINGS)
    prefix = f"bench-{uuid.uuid4().hex[:8]}"
    plan = {f"{prefix}-{size}-{codec}": (size, codec) for size in settings.sizes for codec in settings.codecs}
    other = settings.bootstrap
    elsewhere = topics_on(spark, other, list(plan), settings.partitions) if other else nullcontext()
    report = BenchReport(asdict(settings))
    with (
        tempfile.TemporaryDirectory(prefix="minibroker-bench-") as scratch,
        elsewhere,
        OwnBroker(scratch, [f"{name}:{settings.partitions}" for name in plan]) as broker,
    ):
        measured = readers(spark, broker, other, settings.bootstrap_pid)
        progress = Progress("bench", len(plan) * (1 + len(measured) * (settings.rounds + 1)), "steps")
        for name, (size, codec) in plan.items():
            records = settings.records_of(size)
            for bootstrap in (broker.bootstrap, *([other] if other else [])):
                fill(spark, bootstrap, name, Filling(records, size, codec, settings.batch_bytes))
            progress.add(1)
            case = Case(size, codec, records, _log_bytes(broker.data_dir, name))
            for number in range(settings.rounds + 1):
                for reader in measured[number % len(measured) :] + measured[: number % len(measured)]:
                    sample = _measure(reader, case, name, number)
                    report.samples += [sample] if number else []
                    progress.add(1)
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
    # Under spark-submit the JVM has started this process, else this one the JVM. The broker is a child of this one.
    root = os.getppid() if "PYSPARK_GATEWAY_PORT" in os.environ else os.getpid()
    pids = {root, *([reader.broker_pid] if reader.broker_pid else [])}
    broker_pids = [reader.broker_pid] if reader.broker_pid else []
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


def _since(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
