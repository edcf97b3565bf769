"""A Spark session that can read and write topics, on this machine or under a cluster's master.

Does what one forgets: the connector that fits the installed PySpark, its own Python for workers, loopback addresses.
"""

import os
import sys
from collections.abc import Sequence
from typing import Final

from pyspark.sql import SparkSession

from minibroker_pipeline import jars
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker_pipeline.source import data_source

_ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",  # else days and printed timestamps depend on the machine
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",  # filters reach the data source for log directories
    "spark.ui.showConsoleProgress": "false",  # its bar and our progress lines write over each other
}
_LOOPBACK: Final = "127.0.0.1"
_LOCAL: Final = {
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.python.unix.domain.socket.enabled": "true",  # between JVM and Python: a third of the CPU time of TCP
}


def spark_session(
    app: str = "minibroker",
    *,
    master: str | None = None,
    jars_dir: str | None = None,
    packages: Sequence[str] = ("kafka",),
    **conf: object,
) -> SparkSession:
    """The session that there is, or else a new one.

    A session that exists keeps its master and its jars; only `conf` is set, as far as Spark lets it be changed. Under
    `spark-submit` the jars are those of its `--jars` and `--packages`.

    Args:
        app: its name in Spark's pages and logs.
        master: such as "local[4]" or "spark://host:7077". None: what spark-submit was given, else "local[*]".
        jars_dir: a folder with the connector's jars; without it they are looked for as `jars.find` says.
        packages: "kafka" and "avro", or none of them.
        conf: Spark's settings, which win over ours: `**{"spark.driver.memory": "4g"}`.

    Raises:
        ValueError: an unknown package.
        jars.NoJarsError: no Java, or the jars are not there and cannot be brought.
    """
    settings = {name: _text(value) for name, value in conf.items()}
    existing = SparkSession.getActiveSession()
    if existing is not None:
        return _configured(existing.builder, settings)
    builder = SparkSession.builder.appName(app)
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # then the JVM is there, and so are its jars and its master
    if not is_submitted:
        master = master or settings.get("spark.master") or "local[*]"
        jars.java()
        found = jars.find(packages, jars_dir, settings.get("spark.jars.ivySettings")) if packages else []
        given = [jar for jar in settings.pop("spark.jars", "").split(",") if jar]
        if found or given:
            builder = builder.config("spark.jars", ",".join([*given, *found]))
    if master:
        builder = builder.master(master)
        if master.startswith("local"):
            # The name of the machine need not resolve, and need not lead here.
            os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
            settings = _LOCAL | settings
            # Else workers are whatever `python3` is on the PATH. On a cluster its machines decide.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = _configured(builder, _ALWAYS | settings)
    if not (session.sparkContext.master or "").startswith("local"):
        _register_source(session)
    return session


def test_settings() -> dict[str, str]:
    """The settings that keep Spark small and quick to start, for `spark_session(**test_settings())` in tests."""
    return {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        # Tests end before an optimising compiler has paid for itself.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }


def _register_source(session: SparkSession) -> None:
    """Make `format("minibroker")` known under the Python of the workers.

    What Spark finds by itself it runs under the driver's Python on all machines, and without what `--py-files` brought.
    """
    session.dataSource.register(data_source.MinibrokerDataSource)


def _configured(builder: SparkSession.Builder, settings: dict[str, str]) -> SparkSession:
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _text(value: object) -> str:
    """As Spark writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
