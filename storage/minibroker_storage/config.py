"""The topic configuration that a log acts on."""

from dataclasses import dataclass
from typing import Final

MIN_SEGMENT_BYTES: Final = 14
MIN_SEGMENT_INDEX_BYTES: Final = 4
_INT32_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic configuration of the same names (dots for underscores), with Kafka 3.9's defaults.

    `producer_id_expiration_ms` is the broker's `producer.id.expiration.ms`. `ValueError` for values that Kafka refuses.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 * 1024 * 1024
    producer_id_expiration_ms: int = 24 * 60 * 60 * 1000

    def __post_init__(self) -> None:
        if not MIN_SEGMENT_BYTES <= self.segment_bytes <= _INT32_MAX:
            raise ValueError(f"segment.bytes: {self.segment_bytes} is outside {MIN_SEGMENT_BYTES}..{_INT32_MAX}")
        if self.segment_ms < 1:
            raise ValueError(f"segment.ms: {self.segment_ms} is less than 1")
        if self.index_interval_bytes < 0:
            raise ValueError(f"index.interval.bytes: {self.index_interval_bytes} is negative")
        if not MIN_SEGMENT_INDEX_BYTES <= self.segment_index_bytes <= _INT32_MAX:
            raise ValueError(
                f"segment.index.bytes: {self.segment_index_bytes} is outside {MIN_SEGMENT_INDEX_BYTES}..{_INT32_MAX}"
            )
        if self.producer_id_expiration_ms < 1:
            raise ValueError(f"producer.id.expiration.ms: {self.producer_id_expiration_ms} is less than 1")
