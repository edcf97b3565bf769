"""A topic's rules for appended records (Kafka's `LogConfig`, as far as `LogValidator` reads it)."""

from typing import Final, NamedTuple

from minibroker_protocol.records.header import MAGIC_V2, CompressionCodec, TimestampType
from minibroker_protocol.records.varint import INT64_MAX

NO_LIMIT_MS: Final = INT64_MAX
"""The default of both timestamp limits: any timestamp will do."""
NO_LIMIT_BYTES: Final = 2**31 - 9
"""The default of `max_record_bytes`: the largest array that a JVM makes."""
ALL_RECORDS: Final = -1


class AppendPolicy(NamedTuple):
    """A topic's rules for appended records. The defaults are Kafka's."""

    magic: int = MAGIC_V2
    """`message.format.version`: the message format that the log holds."""
    codec: CompressionCodec | None = None
    """`compression.type`: None keeps what the producer chose."""
    level: int | None = None
    """The codec's level (KIP-390); None is its default."""
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    """`message.timestamp.type`."""
    before_max_ms: int = NO_LIMIT_MS
    """`message.timestamp.before.max.ms` (KIP-937): how far a CREATE_TIME timestamp may lie in the past."""
    after_max_ms: int = NO_LIMIT_MS
    """`message.timestamp.after.max.ms`: how far in the future."""
    require_keys: bool = False
    """Whether the topic is compacted, so that every record needs a key."""
    max_record_bytes: int = NO_LIMIT_BYTES
    """`max.decompressed.message.bytes` (Kafka 4.4): the largest body of a record in a compressed v2 batch."""
    validated_records: int = ALL_RECORDS
    """Up to which record count a v2 batch is opened when nothing else asks for it; see `check_produced_batch`."""
