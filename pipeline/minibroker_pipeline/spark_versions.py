"""The differences between Spark 4.0, 4.1 and 4.2.

From Spark 4.1 on, a source can be given filters. From 4.2 on, a stream can have limits for its micro-batches, and
`latestOffset` has arguments.
"""

import inspect
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.pandas import types
from pyspark.sql.types import StructType

if TYPE_CHECKING or find_spec("pyspark.sql.streaming.datasource"):
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
else:

    class SupportsTriggerAvailableNow:
        """The base class for a Spark that does not ask for it."""

    ReadLimit = ReadAllAvailable = ReadMaxRows = SupportsTriggerAvailableNow

__all__ = [
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "from_arrow_schema",
    "to_arrow_schema",
]

# Before Spark 4.2, UTC is the default, and the argument has another name.
_UTC: Final[dict[str, Any]] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(types.to_arrow_schema).parameters else {}
)


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """Convert a schema to Arrow, with timestamps in UTC."""
    return types.to_arrow_schema(schema, **_UTC)


def from_arrow_schema(schema: pa.Schema) -> StructType:
    """Convert a schema from Arrow. Timestamps without a time zone do not get one."""
    return types.from_arrow_schema(schema, prefer_timestamp_ntz=True)
