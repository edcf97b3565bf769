"""The measured readers: queries with the connector and over the files, and jobs."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as f

from minibroker_pipeline.jobs.bench.own_broker import BrokerError, OwnBroker
from minibroker_pipeline.jobs.bench.report import AGGREGATE, CONNECTOR, NOOP, OTHER, SOURCE
from minibroker_pipeline.jobs.stats import stats
from minibroker_pipeline.jobs.verify import VerifySettings, verify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Reader(NamedTuple):
    """Its name in the report, its query, and how it is run over all records of a topic."""

    name: str
    query: str
    run: Callable[[str], None]
    #: The broker that it reads from, if that is on this machine.
    broker_pid: int | None


def readers(spark: "SparkSession", broker: OwnBroker, other: str | None, other_pid: int | None) -> list[Reader]:
    """Those of our broker and its files; the connector also on the `other` broker."""
    found: list[Reader] = []
    for name, query in _QUERIES.items():
        run = partial(_from_kafka, spark, broker.bootstrap, query)
        found.append(Reader(CONNECTOR, name, run, broker.pid))
        if other:
            found.append(Reader(OTHER, name, partial(_from_kafka, spark, other, query), other_pid))
        found.append(Reader(SOURCE, name, partial(_from_files, spark, broker.data_dir, query), broker.pid))
    for job, function in _JOBS.items():
        found.append(Reader(job, job, partial(function, broker.data_dir), broker.pid))
    return found


def _from_kafka(spark: "SparkSession", bootstrap: str, query: Callable[["DataFrame"], None], topic: str) -> None:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    query(spark.read.format("kafka").options(**options).load())


def _from_files(spark: "SparkSession", data_dir: str, query: Callable[["DataFrame"], None], topic: str) -> None:
    query(spark.read.format("minibroker").option("topics", topic).load(data_dir))


def _noop(frame: "DataFrame") -> None:
    frame.write.format("noop").mode("overwrite").save()


def _aggregate(frame: "DataFrame") -> None:
    """A figure from each column."""
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
        raise BrokerError(f"the broker's log has damage: {damage[0]}")


def _stats(data_dir: str, topic: str) -> None:
    stats([data_dir], topics=[topic])


_QUERIES: Final[dict[str, Callable[["DataFrame"], None]]] = {NOOP: _noop, AGGREGATE: _aggregate}
_JOBS: Final[dict[str, Callable[[str, str], None]]] = {"verify": _verify, "stats": _stats}
