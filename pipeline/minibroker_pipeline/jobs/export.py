"""Exports topics to Parquet with Spark and the data source, without a broker. Each topic and day has a folder."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql import functions as f

from minibroker_pipeline.decode.request import Isolation, Mode
from minibroker_pipeline.payloads import Payload, parse
from minibroker_protocol.records.header import NO_TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMAT: Final = "minibroker"
_FOLDERS: Final = ("topic", "day")
SaveMode = Literal["error", "append", "overwrite", "ignore"]


@dataclass(frozen=True, kw_only=True)
class ExportSettings:
    """The settings of an export.

    Attributes:
        topics: the topics to export, or empty for all except internal topics.
        payload: the format of the values. Raw values stay bytes.
        isolation: "read_committed" omits the records of aborted and open transactions.
        mode: "failfast" stops at damage; "permissive" omits damaged batches.
        headers: whether to add a column `headers`.
        save: Spark's save mode, which applies if the target exists.
        options: options of the data source. They override the settings above.
    """

    topics: tuple[str, ...] = ()
    payload: Payload = field(default_factory=Payload)
    isolation: Isolation = "read_committed"
    mode: Mode = "failfast"
    headers: bool = True
    save: SaveMode = "error"
    options: dict[str, Any] = field(default_factory=dict[str, Any])


def export(spark: "SparkSession", paths: Sequence[str], target: str, settings: ExportSettings | None = None) -> None:
    """Write the records of data directories as Parquet, in folders `topic=NAME/day=YYYY-MM-DD` below `target`.

    The day is that of the timestamp in UTC. The day is null for records of format v0, which have no timestamp.
    Errors in the query are raised by Spark.

    Raises:
        ValueError: an option is invalid.
    """
    settings = settings or ExportSettings()
    options = {"isolation": settings.isolation, "mode": settings.mode, "includeHeaders": str(settings.headers).lower()}
    if settings.topics:
        options["topics"] = ",".join(settings.topics)
    rows = spark.read.format(_FORMAT).options(**options, **settings.options).load(",".join(paths))
    day = f.when(f.col("timestampType") != NO_TIMESTAMP, f.to_date("timestamp"))
    frame = parse(rows, settings.payload).withColumn("day", day)
    frame.write.mode(settings.save).partitionBy(*_FOLDERS).parquet(target)
