"""`LogConfig`, the configuration of one log. `minibroker.cluster.log_settings` creates it for a topic."""

from dataclasses import dataclass
from typing import Final

MIN_SEGMENT_BYTES: Final = 14
MIN_SEGMENT_INDEX_BYTES: Final = 4
UNLIMITED: Final = -1
"""The value of `retention_ms` or `retention_bytes` that means no limit."""
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_DAY_MS: Final = 24 * 60 * 60 * 1000
_POSITIVE: Final = ("segment_ms", "max_compaction_lag_ms", "flush_messages", "producer_id_expiration_ms")
_NON_NEGATIVE: Final = (
    "index_interval_bytes",
    "segment_jitter_ms",
    "delete_retention_ms",
    "min_compaction_lag_ms",
    "flush_ms",
)


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic configuration, with underscores instead of dots in the names, and with the defaults of Kafka 3.9.

    `compact` and `delete` are the values of `cleanup.policy`. `producer_id_expiration_ms` is the broker's
    `producer.id.expiration.ms`.

    Raises:
        ValueError: Kafka would reject one of the values.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 * 1024 * 1024
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = UNLIMITED
    compact: bool = False
    delete: bool = True
    delete_retention_ms: int = _DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _INT64_MAX
    flush_messages: int = _INT64_MAX
    flush_ms: int = _INT64_MAX
    max_message_bytes: int = 1_048_588
    producer_id_expiration_ms: int = _DAY_MS

    def __post_init__(self) -> None:
        for name, least in (("segment_bytes", MIN_SEGMENT_BYTES), ("segment_index_bytes", MIN_SEGMENT_INDEX_BYTES)):
            if not least <= getattr(self, name) <= _INT32_MAX:
                raise ValueError(f"{_format_key(name)}: {getattr(self, name)} is outside {least}..{_INT32_MAX}")
        if not 0 <= self.min_cleanable_dirty_ratio <= 1:
            raise ValueError(f"min.cleanable.dirty.ratio: {self.min_cleanable_dirty_ratio} is outside 0..1")
        for name in _NON_NEGATIVE:
            if getattr(self, name) < 0:
                raise ValueError(f"{_format_key(name)}: {getattr(self, name)} is negative")
        for name in _POSITIVE:
            if getattr(self, name) < 1:
                raise ValueError(f"{_format_key(name)}: {getattr(self, name)} is less than 1")

    @property
    def max_segment_ms(self) -> int:
        """The time after which a segment is rolled, in milliseconds (Kafka's `LogConfig.maxSegmentMs`).

        With compaction, this is at most `max.compaction.lag.ms`, because only closed segments are cleaned.
        """
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms


def _format_key(name: str) -> str:
    return name.replace("_", ".")
