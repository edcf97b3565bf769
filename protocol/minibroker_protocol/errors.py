"""Errors in bytes that a peer sent, or in a value to be written.

`DecodeError` and its children are the peer's fault; `EncodeError` is ours. None of them carries a wire code: the
broker maps them to Kafka's error codes in one place.
"""

from collections.abc import Iterable
from typing import NamedTuple


class ProtocolError(Exception):
    """Base of everything this package raises on purpose."""


class EncodeError(ProtocolError):
    """A value cannot be written: out of its field's range, or null in a version without it. The broker's mistake."""


class DecodeError(ProtocolError):
    """The bytes are not what the schema says: truncated, a negative length, a bad varint. The peer's fault."""


class TooManyElementsError(DecodeError):
    """The arrays of a message hold more elements than the reader takes."""


class CorruptRecordError(DecodeError):
    """A record batch whose size or checksum is wrong (Kafka's `CorruptRecordException`)."""


class RecordError(NamedTuple):
    """The error of one record: its place in its batch, from 0, and why it was refused (KIP-467)."""

    batch_index: int
    message: str


class RecordValidationError(DecodeError):
    """A batch with a right checksum whose contents break a rule (Kafka's `RecordValidationException`).

    `record_errors` names the records that were refused one by one; it is empty when the whole batch is at fault.
    """

    def __init__(self, message: str, record_errors: Iterable[RecordError] = ()) -> None:
        super().__init__(message)
        self.record_errors = list(record_errors)


class InvalidRecordError(RecordValidationError):
    """Such as a count that is not that of the records, or no key on a compacted topic (`InvalidRecordException`)."""


class DecompressedSizeError(InvalidRecordError):
    """Compressed records that would grow beyond the reader's limit. They may be sound."""


class DecompressionError(InvalidRecordError):
    """Compressed records that Kafka's decoder cannot read. To clients of Kafka that is an unknown error."""


class InvalidTimestampError(RecordValidationError):
    """Timestamps that the topic does not take (`InvalidTimestampException`)."""


class UnsupportedMagicError(DecodeError):
    """A message format that this reader does not take (`UnsupportedForMessageFormatException`)."""


class UnsupportedCodecError(DecodeError):
    """A compression codec that does not exist, or is not allowed here (`UnsupportedCompressionTypeException`)."""
