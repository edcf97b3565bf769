"""Translation of a topic's configuration to log settings: `LogConfig` for the storage, `AppendPolicy` for appends.

Most topics have no special requirements, and their batches are appended unchanged. For the others the policy sets the
message format, codec and timestamps that the log validator must produce.
"""

from typing import Final

from minibroker.config import TopicConfig
from minibroker_protocol.records.append_policy import AppendPolicy
from minibroker_protocol.records.header import MAGIC_V0, MAGIC_V1, MAGIC_V2, CompressionCodec, TimestampType
from minibroker_storage.config import LogConfig


def log_config(config: TopicConfig) -> LogConfig:
    """Return the storage settings of a topic with this configuration."""
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


_CODECS: Final = {codec.name.lower() if codec else "uncompressed": codec for codec in CompressionCodec}
_LEVELS: Final = {
    CompressionCodec.GZIP: "compression.gzip.level",
    CompressionCodec.LZ4: "compression.lz4.level",
    CompressionCodec.ZSTD: "compression.zstd.level",
}
_FIRST_WITH_V1: Final = (0, 10)
_FIRST_WITH_V2: Final = (0, 11)


def magic_of(version: str) -> int:
    """Return the message format of a Kafka version, such as 0.10.2 or 3.0-IV1 (Kafka 3's `RecordVersion`)."""
    release = tuple(int(part) for part in version.partition("-")[0].split(".")[:2])
    return MAGIC_V0 if release < _FIRST_WITH_V1 else MAGIC_V1 if release < _FIRST_WITH_V2 else MAGIC_V2


def checks_schemas(config: TopicConfig) -> bool:
    """Return whether keys or values of records need a registered schema."""
    return config.boolean("confluent.key.schema.validation") or config.boolean("confluent.value.schema.validation")


def append_policy(config: TopicConfig) -> AppendPolicy:
    """Return the append policy of a topic with this configuration."""
    codec = _CODECS.get(config.text("compression.type"))
    level = _LEVELS.get(codec) if codec is not None else None
    is_append_time = config.text("message.timestamp.type") == "LogAppendTime"
    return AppendPolicy(
        magic=magic_of(config.text("message.format.version")),
        codec=codec,
        level=config.integer(level) if level is not None else None,
        timestamp_type=TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME,
        before_max_ms=config.integer("message.timestamp.before.max.ms"),
        after_max_ms=config.integer("message.timestamp.after.max.ms"),
        require_keys="compact" in config.items("cleanup.policy"),
        max_record_bytes=config.integer("max.decompressed.message.bytes"),
        validated_records=config.broker.integer("minibroker.validate.records.max"),
    )


def keeps_batches(policy: AppendPolicy) -> bool:
    """Return whether a valid v2 batch is appended unchanged because nothing in the policy requires further checks."""
    return policy == AppendPolicy(validated_records=policy.validated_records)
