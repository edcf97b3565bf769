"""Creates a Spark session that can read and write topics, on this machine or on a cluster.

The session gets settings that are easily forgotten: the connector for the installed PySpark, the current Python for
the workers, and loopback addresses.
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from minibroker_pipeline import jars
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker_pipeline.source import data_source

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",  # In local time, dates and printed timestamps would depend on the machine.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",  # Push filters down to the data source for log directories.
    "spark.ui.showConsoleProgress": "false",  # Spark's progress bar and our progress lines would overwrite each other.
}
_LOOPBACK: Final = "127.0.0.1"
_LOCAL_SETTINGS: Final = {
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    # Between the JVM and Python, Unix sockets take a third of the CPU time of TCP.
    "spark.python.unix.domain.socket.enabled": "true",
}


def spark_session(
    app: str = "minibroker",
    *,
    master: str | None = None,
    jars_dir: str | None = None,
    packages: Sequence[str] = ("kafka",),
    **conf: object,
) -> SparkSession:
    """Return the active session, or create one.

    An active session keeps its master and its jars. Only `conf` is applied to it, except settings that Spark cannot
    change at runtime.
    Under `spark-submit`, the jars are those of its `--jars` and `--packages`.

    Args:
        app: the name of the application in Spark's pages and logs.
        master: such as "local[4]" or "spark://host:7077". None means the master of spark-submit, or else
            "local[*]".
        jars_dir: a folder with the connector's jars. By default `jars.find` locates them.
        packages: any of "kafka" and "avro".
        conf: Spark settings that override those of this package: `**{"spark.driver.memory": "4g"}`.

    Raises:
        ValueError: a package is unknown.
        jars.NoJarsError: Java is missing, or the jars are missing and cannot be downloaded.
    """
    settings = {name: _format_setting(value) for name, value in conf.items()}
    existing = SparkSession.getActiveSession()
    if existing is not None:
        return existing.builder.config(map=dict(settings)).getOrCreate()
    builder = SparkSession.builder.appName(app)
    # spark-submit has already started the JVM with its jars and master.
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not is_submitted:
        master = master or settings.get("spark.master") or "local[*]"
        jars.java()
        connector_jars = jars.find(packages, jars_dir, settings.get("spark.jars.ivySettings")) if packages else []
        extra_jars = [jar for jar in settings.pop("spark.jars", "").split(",") if jar]
        if connector_jars or extra_jars:
            builder = builder.config("spark.jars", ",".join([*extra_jars, *connector_jars]))
    if master:
        builder = builder.master(master)
        if master.startswith("local"):
            # Use the loopback address, because the host name might not resolve, or might resolve to another machine.
            os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
            settings = _LOCAL_SETTINGS | settings
            # By default, workers run the `python3` on the PATH, but local workers need this interpreter's packages. On
            # a cluster, the configuration of its machines selects the interpreter.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = builder.config(map=dict(_SETTINGS | settings)).getOrCreate()
    if not (session.sparkContext.master or "").startswith("local"):
        # Register `format("minibroker")`, so that it runs under the workers' Python. A source that Spark discovers by
        # itself runs under the driver's Python on all machines, and without the files from `--py-files`.
        session.dataSource.register(data_source.MinibrokerDataSource)
    return session


def run_to_end(writer: "DataStreamWriter", *, timeout_s: int = 60) -> "StreamingQuery":
    """Run a stream until it has read what its sources have now, and return the query.

    Raises:
        StreamingQueryException: the query failed.
        TimeoutError: the query takes longer.
    """
    query = writer.trigger(availableNow=True).start()
    try:
        if not query.awaitTermination(timeout_s):
            raise TimeoutError(f"the stream has not ended within {timeout_s} s: {query.status['message']}")
    finally:
        query.stop()
    return query


def test_settings() -> dict[str, str]:
    """Return settings that keep Spark small and quick to start, for `spark_session(**test_settings())` in tests."""
    return {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        # Tests end before an optimizing compiler would pay off.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "2",
        # A query that does not stop in time is an error, which shows what its thread was doing. By default Spark waits
        # forever.
        "spark.sql.streaming.stopTimeout": "300s",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }


def _format_setting(value: object) -> str:
    """Format a value as Spark does."""
    return str(value).lower() if isinstance(value, bool) else str(value)
