"""A topic's rules for appended records: the part of Kafka's `LogConfig` that Kafka's `LogValidator` reads."""

from typing import Final, NamedTuple

from minibroker_protocol.records.header import MAGIC_V2, CompressionCodec, TimestampType
from minibroker_protocol.records.varint import INT64_MAX

NO_LIMIT_MS: Final = INT64_MAX
"""The default of both timestamp limits: any timestamp is allowed."""
NO_LIMIT_BYTES: Final = 2**31 - 9
"""The default of `max_record_bytes`: the size of the largest array in a JVM."""
ALL_RECORDS: Final = -1


class AppendPolicy(NamedTuple):
    """A topic's rules for appended records. The defaults are Kafka's."""

    magic: int = MAGIC_V2
    """`message.format.version`: the message format of the log."""
    codec: CompressionCodec | None = None
    """`compression.type`: None keeps the producer's codec."""
    level: int | None = None
    """The compression level of the codec (KIP-390), or None for its default."""
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    """`message.timestamp.type`."""
    before_max_ms: int = NO_LIMIT_MS
    """`message.timestamp.before.max.ms` (KIP-937): the maximum age of a CREATE_TIME timestamp."""
    after_max_ms: int = NO_LIMIT_MS
    """`message.timestamp.after.max.ms`: the maximum lead of a CREATE_TIME timestamp over the broker's time."""
    require_keys: bool = False
    """Whether the topic is compacted, and therefore requires a key in every record."""
    max_record_bytes: int = NO_LIMIT_BYTES
    """`max.decompressed.message.bytes` (Kafka 4.4): the maximum body size of a record in a compressed v2 batch."""
    validated_records: int = ALL_RECORDS
    """v2 batches with at most this many records are opened and checked; see `check_produced_batch`."""
