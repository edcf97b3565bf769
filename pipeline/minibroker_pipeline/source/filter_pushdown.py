"""Filter pushdown: bounds on topic, partition, offset and timestamp from the filters of a Spark query."""

from datetime import datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from minibroker_pipeline.source.planning import OffsetInterval
from minibroker_storage.data_directory.names import TopicPartition

_MOST: Final = 2**63 - 1


class PushedFilters:
    """Conditions that all rows have to meet, as bounds.

    Args:
        gives_nulls: rows without an offset come besides, which conditions on it have to remove.
    """

    def __init__(self, *, gives_nulls: bool = False) -> None:
        self._gives_nulls = gives_nulls
        self._topics: set[Any] | None = None
        self._partitions: set[Any] | None = None
        self._partition_from, self._partition_until = -_MOST, _MOST
        self._first, self._end = 0, _MOST
        self._min_timestamp: int | None = None

    def take(self, condition: Filter) -> bool:
        """Narrow by a condition; whether only rows that meet it are left then."""
        return self._take(condition) and not self._gives_nulls

    def _take(self, condition: Filter) -> bool:
        is_met = False
        match condition:
            case EqualTo((column,), value):
                is_met = self._equal(column, {value})
            case In((column,), values):
                is_met = self._equal(column, set(values))
            case GreaterThan((column,), value):
                is_met = self._at_least(column, value, 1)
            case GreaterThanOrEqual((column,), value):
                is_met = self._at_least(column, value, 0)
            case LessThan((column,), value):
                is_met = self._below(column, value, 0)
            case LessThanOrEqual((column,), value):
                is_met = self._below(column, value, 1)
            case IsNotNull((column,)):
                is_met = column in {"topic", "partition", "offset"}
            case _:
                pass
        return is_met

    def _equal(self, column: str, values: set[Any]) -> bool:
        values.discard(None)
        match column:
            case "topic":
                self._topics = values if self._topics is None else self._topics & values
            case "partition":
                self._partitions = values if self._partitions is None else self._partitions & values
            case "offset" | "timestamp" if values:
                self._at_least(column, min(values), 0)
                self._below(column, max(values), 1)
                return column == "offset" and len(values) == 1
            case _:
                return False
        return True

    def _at_least(self, column: str, value: Any, more: int) -> bool:
        match column:
            case "offset":
                self._first = max(self._first, value + more)
            case "partition":
                self._partition_from = max(self._partition_from, value + more)
            case "timestamp" if isinstance(value, datetime) and value.tzinfo is not None:
                at = _milliseconds(value)
                self._min_timestamp = at if self._min_timestamp is None else max(self._min_timestamp, at)
                return False  # other records lie among those that the time index leaves
            case _:
                return False
        return True

    def _below(self, column: str, value: Any, more: int) -> bool:
        match column:
            case "offset":
                self._end = min(self._end, value + more)
            case "partition":
                self._partition_until = min(self._partition_until, value + more)
            case _:
                return False
        return True

    def admits(self, key: TopicPartition) -> bool:
        """Whether rows of this log can be left."""
        topic, partition = key
        return (
            (self._topics is None or topic in self._topics)
            and (self._partitions is None or partition in self._partitions)
            and self._partition_from <= partition < self._partition_until
        )

    def narrowed(self, first: int, end: int) -> OffsetInterval:
        """The rest of [first, end)."""
        return OffsetInterval(max(first, self._first), min(end, self._end), self._min_timestamp)


def _milliseconds(value: datetime) -> int:
    """Rounded down, with one to spare for the rounding of floats."""
    return int(value.timestamp() * 1000) - 1
