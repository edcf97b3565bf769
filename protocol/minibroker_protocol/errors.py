"""Errors in received bytes, or in values to write.

`DecodeError` and its subclasses are the peer's fault, `EncodeError` is ours. None of them has a wire code: the broker
maps them to Kafka's error codes in one place.
"""

from collections.abc import Iterable
from typing import NamedTuple


class ProtocolError(Exception):
    """The base of all errors that this package raises deliberately."""


class EncodeError(ProtocolError):
    """A value that cannot be written: out of range, or null in a version without null. A bug in the broker."""


class DecodeError(ProtocolError):
    """Bytes that violate the schema: truncated, a negative length, an invalid varint. The peer's fault."""


class TooManyElementsError(DecodeError):
    """A message whose arrays have more elements than the reader allows."""


class CorruptRecordError(DecodeError):
    """A record batch with a wrong size or checksum (Kafka's `CorruptRecordException`)."""


class RecordError(NamedTuple):
    """The error of one record: its index in its batch, from 0, and the reason why it was rejected (KIP-467)."""

    batch_index: int
    message: str


class RecordValidationError(DecodeError):
    """A batch with a correct checksum whose contents break a rule (Kafka's `RecordValidationException`).

    `record_errors` lists individually rejected records. It is empty if the whole batch is invalid.
    """

    def __init__(self, message: str, record_errors: Iterable[RecordError] = ()) -> None:
        super().__init__(message)
        self.record_errors = list(record_errors)


class InvalidRecordError(RecordValidationError):
    """An invalid batch, such as a wrong record count or no key on a compacted topic (`InvalidRecordException`)."""


class DecompressedSizeError(InvalidRecordError):
    """Compressed records that would exceed the reader's size limit. They can still be valid."""


class DecompressionError(InvalidRecordError):
    """Compressed records that Kafka's decoder cannot read. Kafka's clients get UNKNOWN_SERVER_ERROR for them."""


class InvalidTimestampError(RecordValidationError):
    """Timestamps that the topic does not accept (`InvalidTimestampException`)."""


class UnsupportedMagicError(DecodeError):
    """A message format that this reader does not accept (`UnsupportedForMessageFormatException`)."""


class UnsupportedCodecError(DecodeError):
    """A compression codec that does not exist or is not allowed here (`UnsupportedCompressionTypeException`)."""
