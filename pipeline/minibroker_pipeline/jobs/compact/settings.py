"""Settings of a compaction."""

from dataclasses import dataclass
from typing import Final

from minibroker_storage.config import LogConfig

_DAY_MS: Final = 24 * 60 * 60 * 1000
MIN_MEMORY_BYTES: Final = 64 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactSettings:
    """The settings of a compaction. `ValueError` for what Kafka refuses.

    Attributes:
        topics: only these; without any, all but the internal ones.
        now_ms: the time by which delete horizons are set and judged; None for the clock's.
        from_start: whether the whole log counts as dirty. Otherwise what lies below the offset that
            cleaner-offset-checkpoint has for it was compacted before, as for a broker.
        roll: whether the active segment is closed before, so that it is compacted as well.
        delete_retention_ms: Kafka's `delete.retention.ms`: for how long tombstones and markers stay.
        min_compaction_lag_ms: Kafka's `min.compaction.lag.ms`: younger records are left alone.
        segment_bytes: Kafka's `segment.bytes`: neighbors that fit into one segment are joined.
        segment_index_bytes: Kafka's `segment.index.bytes`, likewise.
        index_interval_bytes: Kafka's `index.interval.bytes`.
        producer_id_expiration_ms: the broker's `producer.id.expiration.ms`: until then a producer's last batch stays.
        memory_bytes: what the keys that one task knows at once may take; the rest is in files beside the target.
    """

    topics: tuple[str, ...] = ()
    now_ms: int | None = None
    from_start: bool = False
    roll: bool = False
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    producer_id_expiration_ms: int = _DAY_MS
    memory_bytes: int = 256 * 1024 * 1024

    def __post_init__(self) -> None:
        LogConfig(
            segment_bytes=self.segment_bytes,
            segment_index_bytes=self.segment_index_bytes,
            index_interval_bytes=self.index_interval_bytes,
            delete_retention_ms=self.delete_retention_ms,
            min_compaction_lag_ms=self.min_compaction_lag_ms,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
        )
        if self.memory_bytes < MIN_MEMORY_BYTES:
            raise ValueError(f"memory: {self.memory_bytes} bytes are less than {MIN_MEMORY_BYTES}")
