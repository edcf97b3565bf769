"""Errors in received bytes, or in values to write.

A `DecodeError` or a subclass of it is the peer's fault; an `EncodeError` is ours. These exceptions
have no protocol error codes: the broker maps them to Kafka's codes in one place.
"""

from collections.abc import Iterable
from typing import NamedTuple


class ProtocolError(Exception):
    """The base of all errors that this package raises deliberately."""


class EncodeError(ProtocolError):
    """A value that cannot be written, such as a number out of range, or null in a version without null.

    This error is a bug in the broker.
    """


class DecodeError(ProtocolError):
    """Bytes that violate the schema, such as a negative length or an invalid varint. The fault is the peer's."""


class TooManyElementsError(DecodeError):
    """A message whose arrays have more elements than the reader allows."""


class CorruptRecordError(DecodeError):
    """A record batch with a wrong size or checksum (Kafka's `CorruptRecordException`)."""


class RecordError(NamedTuple):
    """The error of one rejected record: the record's index in its batch, counted from 0, and the reason (KIP-467)."""

    batch_index: int
    message: str


class RecordValidationError(DecodeError):
    """A batch with a correct checksum and invalid contents (Kafka's `RecordValidationException`).

    `record_errors` has an entry for each record that was rejected individually. It is empty if the whole batch is
    invalid.
    """

    def __init__(self, message: str, record_errors: Iterable[RecordError] = ()) -> None:
        super().__init__(message)
        self.record_errors = list(record_errors)


class InvalidRecordError(RecordValidationError):
    """An invalid batch, such as one with a wrong record count, or without a key for a compacted topic.

    Kafka's name for this error is `InvalidRecordException`.
    """


class DecompressedSizeError(InvalidRecordError):
    """Compressed records whose plain size would exceed the reader's limit. The records can still be valid."""


class DecompressionError(InvalidRecordError):
    """Compressed records that Kafka's decoder cannot read. As in Kafka, clients receive UNKNOWN_SERVER_ERROR."""


class InvalidTimestampError(RecordValidationError):
    """Timestamps that the topic does not accept (`InvalidTimestampException`)."""


class UnsupportedMagicError(DecodeError):
    """A message format that this reader does not accept (`UnsupportedForMessageFormatException`)."""


class UnsupportedCodecError(DecodeError):
    """A compression codec that does not exist or is not allowed here (`UnsupportedCompressionTypeException`)."""
