"""Values of records: bytes, JSON or Avro, to columns and back."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro, to_avro

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DATA: Final = "data"
"""The column of a parsed value."""
CORRUPT: Final = "corrupt"
"""The column with the bytes of a value that could not be parsed."""
_OF_A_RECORD: Final = ("key", "value", "headers", "topic", "partition", "offset", "timestamp", "timestampType", CORRUPT)
_BROKEN_JSON: Final = "_corrupt_record"


@dataclass(frozen=True)
class Payload:
    """The way values are written.

    Attributes:
        form: "avro" is one datum without a header, and needs the package "avro" in the session.
        schema: columns as Spark's DDL for JSON ("id BIGINT, name STRING"), Avro's JSON for Avro; none for raw.
        mode: a value that does not parse fails the query ("failfast"), or is kept in the column `corrupt`.
    """

    form: Literal["raw", "json", "avro"] = "raw"
    schema: str = ""
    mode: Literal["failfast", "permissive"] = "failfast"

    def __post_init__(self) -> None:
        if self.form not in {"raw", "json", "avro"}:
            raise ValueError(f"form: {self.form!r} is not one of raw, json, avro")
        if self.mode not in {"failfast", "permissive"}:
            raise ValueError(f"mode: {self.mode!r} is neither failfast nor permissive")
        if (self.form == "raw") == bool(self.schema):
            raise ValueError(f"schema: {'raw values have none' if self.schema else f'{self.form} needs one'}")
        if self.form == "avro":
            try:
                json.loads(self.schema)
            except ValueError as error:
                raise ValueError(f"schema: not the JSON of an Avro schema: {error}") from None


def parse(frame: "DataFrame", payload: Payload) -> "DataFrame":
    """Put `data`, a struct, in the place of `value`; with "permissive" also `corrupt`. Raw values stay.

    `data` is null for a tombstone.
    """
    if payload.form == "raw":
        return frame
    is_permissive = payload.mode == "permissive"
    data = (_read_json if payload.form == "json" else _read_avro)(payload.schema, is_permissive=is_permissive)
    parsed = frame.withColumn(DATA, data)
    if is_permissive:
        parsed = parsed.withColumn(CORRUPT, f.when(f.col(DATA).isNull(), f.col("value")))
    return parsed.drop("value")


def compose(frame: "DataFrame", payload: Payload, key: "Column | None" = None) -> "DataFrame":
    """Make a column `value` of the other ones, the way back from `parse`.

    `data`, if there is one, else all columns that are not a record's own, becomes the value; a null `data` becomes a
    tombstone. Raw values stay. `key` is an expression for the records' keys; without it a column `key` is taken.
    """
    if key is not None:
        frame = frame.withColumn("key", key)
    if payload.form == "raw":
        return frame
    columns = [name for name in frame.columns if name not in _OF_A_RECORD]
    data = f.col(DATA) if DATA in columns else f.struct(*columns)
    value = f.to_json(data, {"ignoreNullFields": "false"}) if payload.form == "json" else to_avro(data, payload.schema)
    return frame.withColumn("value", value).drop(*columns)


def _read_json(schema: str, *, is_permissive: bool) -> "Column":
    text = f.col("value").cast("string")
    if not is_permissive:
        return f.from_json(text, schema, {"mode": "FAILFAST"})
    found = f.from_json(text, f"{schema}, {_BROKEN_JSON} STRING", {"columnNameOfCorruptRecord": _BROKEN_JSON})
    return f.when(found[_BROKEN_JSON].isNull(), found.dropFields(_BROKEN_JSON))


def _read_avro(schema: str, *, is_permissive: bool) -> "Column":
    # A record's bytes are those of its fields, so that around the datum there may be one more. What does not parse is
    # a record of nulls to Spark, which a datum could be, too; around it that is a null in the place of the datum.
    around = {"type": "record", "name": "minibroker_datum", "fields": [{"name": DATA, "type": json.loads(schema)}]}
    return from_avro(f.col("value"), json.dumps(around), {"mode": "PERMISSIVE" if is_permissive else "FAILFAST"})[DATA]
