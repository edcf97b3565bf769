"""Topics to Parquet, a folder for each topic and day, through the data source: with Spark, without a broker."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql import functions as f

from minibroker_pipeline.decode.request import Isolation, Mode
from minibroker_pipeline.payloads import Payload, parse
from minibroker_protocol.records.header import NO_TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FORMAT: Final = "minibroker"
_FOLDERS: Final = ("topic", "day")
SaveMode = Literal["error", "append", "overwrite", "ignore"]


@dataclass(frozen=True, kw_only=True)
class ExportSettings:
    """The settings of an export.

    Attributes:
        topics: only these; without any, all but the internal ones.
        payload: how values are parsed; raw leaves them as bytes.
        isolation: "read_committed" leaves out aborted records, and those of open transactions.
        mode: "failfast" ends with damage; "permissive" leaves out damaged batches.
        headers: whether there is a column `headers`.
        save: what is done when the target is there: Spark's save modes.
        options: of the data source. They win.
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

    Days are those of the timestamps in UTC; records of format v0, which have none, have the day null. ValueError for
    options that cannot be; what goes wrong in the query is Spark's.
    """
    settings = settings or ExportSettings()
    frame = with_day(parse(read(spark, paths, settings), settings.payload))
    frame.write.mode(settings.save).partitionBy(*_FOLDERS).parquet(target)


def read(spark: "SparkSession", paths: Sequence[str], settings: ExportSettings) -> "DataFrame":
    """The rows of the data source."""
    options = {"isolation": settings.isolation, "mode": settings.mode, "includeHeaders": str(settings.headers).lower()}
    if settings.topics:
        options["topics"] = ",".join(settings.topics)
    return spark.read.format(_FORMAT).options(**options, **settings.options).load(",".join(paths))


def with_day(frame: "DataFrame") -> "DataFrame":
    """The same with the column `day`, a date."""
    return frame.withColumn("day", f.when(f.col("timestampType") != NO_TIMESTAMP, f.to_date("timestamp")))
