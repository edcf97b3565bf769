"""The mapping from exceptions of lower layers, which use no wire codes, to Kafka's error codes.

It also replaces a newer error code with the one that old producers understand.
"""

from typing import Final

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.errors import (
    CorruptRecordError,
    DecodeError,
    DecompressionError,
    InvalidRecordError,
    InvalidTimestampError,
    UnsupportedCodecError,
    UnsupportedMagicError,
)
from minibroker_storage.errors import (
    CorruptBatchError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    RecordBatchTooLargeError,
    StorageError,
    TransactionCoordinatorFencedError,
)

_CODES: Final[tuple[tuple[type[Exception], ErrorCode], ...]] = (
    # The first match counts, so subclasses precede their base classes.
    (CorruptRecordError, ErrorCode.CORRUPT_MESSAGE),
    (DecompressionError, ErrorCode.UNKNOWN_SERVER_ERROR),
    (InvalidRecordError, ErrorCode.INVALID_RECORD),
    (InvalidTimestampError, ErrorCode.INVALID_TIMESTAMP),
    (UnsupportedMagicError, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    (UnsupportedCodecError, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    (DecodeError, ErrorCode.CORRUPT_MESSAGE),
    (OutOfOrderSequenceError, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    (InvalidProducerEpochError, ErrorCode.INVALID_PRODUCER_EPOCH),
    (InvalidTxnStateError, ErrorCode.INVALID_TXN_STATE),
    (TransactionCoordinatorFencedError, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    (OffsetOutOfRangeError, ErrorCode.OFFSET_OUT_OF_RANGE),
    (RecordBatchTooLargeError, ErrorCode.RECORD_LIST_TOO_LARGE),
    (CorruptBatchError, ErrorCode.CORRUPT_MESSAGE),
    (StorageError, ErrorCode.KAFKA_STORAGE_ERROR),
    (OSError, ErrorCode.KAFKA_STORAGE_ERROR),
)

MAPPED: Final[tuple[type[Exception], ...]] = tuple(cls for cls, _ in _CODES)
"""The exceptions that a handler can turn into the error of one partition."""

_FENCED_SINCE: Final = 2
"""The first version with PRODUCER_FENCED, for all transaction requests except InitProducerId."""


def error_code_of(error: Exception) -> ErrorCode:
    """Return the code for an exception in `MAPPED`, or UNKNOWN_SERVER_ERROR for any other."""
    return next((code for cls, code in _CODES if isinstance(error, cls)), ErrorCode.UNKNOWN_SERVER_ERROR)


def downgrade_fenced_error(error: ErrorCode, api_version: int, *, fenced_since: int = _FENCED_SINCE) -> ErrorCode:
    """Return `error`, but replace PRODUCER_FENCED before request version `fenced_since` (KIP-588).

    Older producers get INVALID_PRODUCER_EPOCH instead.
    """
    if error is ErrorCode.PRODUCER_FENCED and api_version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
