"""From a topic's configuration to the `LogConfig` of its logs (`minibroker_storage.config`)."""

from minibroker.config import TopicConfig
from minibroker_storage.config import LogConfig


def log_config(config: TopicConfig) -> LogConfig:
    """The topic's configuration in the terms of the storage."""
    segment_bytes = config.optional_integer("internal.segment.bytes")
    policy = config.items("cleanup.policy")
    return LogConfig(
        segment_bytes=config.integer("segment.bytes") if segment_bytes is None else segment_bytes,
        segment_ms=config.integer("segment.ms"),
        segment_jitter_ms=config.integer("segment.jitter.ms"),
        index_interval_bytes=config.integer("index.interval.bytes"),
        segment_index_bytes=config.integer("segment.index.bytes"),
        retention_ms=config.integer("retention.ms"),
        retention_bytes=config.integer("retention.bytes"),
        compact="compact" in policy,
        delete="delete" in policy,
        delete_retention_ms=config.integer("delete.retention.ms"),
        min_cleanable_dirty_ratio=config.number("min.cleanable.dirty.ratio"),
        min_compaction_lag_ms=config.integer("min.compaction.lag.ms"),
        max_compaction_lag_ms=config.integer("max.compaction.lag.ms"),
        flush_messages=config.integer("flush.messages"),
        flush_ms=config.integer("flush.ms"),
        max_message_bytes=config.integer("max.message.bytes"),
        producer_id_expiration_ms=config.broker.integer("producer.id.expiration.ms"),
    )
