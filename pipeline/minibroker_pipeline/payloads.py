"""Converts record values (bytes, JSON or Avro) to columns and back."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro, to_avro

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DATA: Final = "data"
"""The column for the parsed value."""
CORRUPT: Final = "corrupt"
"""The column for the bytes of a value that could not be parsed."""
_OWN_COLUMNS: Final = ("key", "value", "headers", "topic", "partition", "offset", "timestamp", "timestampType", CORRUPT)
_BROKEN_JSON: Final = "_corrupt_record"


@dataclass(frozen=True)
class Payload:
    """The format of record values.

    Attributes:
        form: "raw", "json" or "avro". An Avro value is a single datum without a header, and needs the package
            "avro" in the session.
        schema: columns in Spark's DDL ("id BIGINT, name STRING") for JSON, or an Avro schema in JSON. Empty for
            raw.
        mode: "failfast" fails the query if a value cannot be parsed; "permissive" keeps such a value in the column
            `corrupt`.
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
    """Replace the column `value` with the struct `data`, which is null for a tombstone. Raw values are unchanged.

    With "permissive", the column `corrupt` is added too.
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
    """Build the column `value` from other columns. This is the reverse of `parse`. Raw values are unchanged.

    The value is `data` if that column exists, or else all columns except those of a record. A null `data`
    becomes a tombstone. `key` is an expression for the records' keys; by default the column `key` is used.
    """
    if key is not None:
        frame = frame.withColumn("key", key)
    if payload.form == "raw":
        return frame
    columns = [name for name in frame.columns if name not in _OWN_COLUMNS]
    data = f.col(DATA) if DATA in columns else f.struct(*columns)
    value = f.to_json(data, {"ignoreNullFields": "false"}) if payload.form == "json" else to_avro(data, payload.schema)
    return frame.withColumn("value", value).drop(*columns)


def _read_json(schema: str, *, is_permissive: bool) -> "Column":
    text = f.col("value").cast("string")
    if not is_permissive:
        return f.from_json(text, schema, {"mode": "FAILFAST"})
    parsed = f.from_json(text, f"{schema}, {_BROKEN_JSON} STRING", {"columnNameOfCorruptRecord": _BROKEN_JSON})
    return f.when(parsed[_BROKEN_JSON].isNull(), parsed.dropFields(_BROKEN_JSON))


def _read_avro(schema: str, *, is_permissive: bool) -> "Column":
    # For unparsable bytes, Spark returns a record of nulls, which could also be a real datum. If the datum is wrapped
    # in a record, only unparsable bytes yield null. The wrapper adds no bytes, since an Avro record is just its fields.
    record = {"type": "record", "name": "minibroker_datum", "fields": [{"name": DATA, "type": json.loads(schema)}]}
    return from_avro(f.col("value"), json.dumps(record), {"mode": "PERMISSIVE" if is_permissive else "FAILFAST"})[DATA]
