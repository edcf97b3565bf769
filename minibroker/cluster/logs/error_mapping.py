"""The mapping from exceptions of lower layers, which use no wire codes, to Kafka's error codes.

It also replaces a newer error code with the one that old producers understand.
"""

from typing import Final

from minibroker_protocol import errors as protocol_errors
from minibroker_protocol.error_codes import ErrorCode
from minibroker_storage import errors as storage_errors

_CODES: Final[tuple[tuple[type[Exception], ErrorCode], ...]] = (
    # The first match counts, so subclasses precede their base classes.
    (protocol_errors.DecompressionError, ErrorCode.UNKNOWN_SERVER_ERROR),
    (protocol_errors.InvalidRecordError, ErrorCode.INVALID_RECORD),
    (protocol_errors.InvalidTimestampError, ErrorCode.INVALID_TIMESTAMP),
    (protocol_errors.UnsupportedMagicError, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    (protocol_errors.UnsupportedCodecError, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    (protocol_errors.DecodeError, ErrorCode.CORRUPT_MESSAGE),
    (storage_errors.OutOfOrderSequenceError, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    (storage_errors.InvalidProducerEpochError, ErrorCode.INVALID_PRODUCER_EPOCH),
    (storage_errors.InvalidTxnStateError, ErrorCode.INVALID_TXN_STATE),
    (storage_errors.TransactionCoordinatorFencedError, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    (storage_errors.OffsetOutOfRangeError, ErrorCode.OFFSET_OUT_OF_RANGE),
    (storage_errors.RecordBatchTooLargeError, ErrorCode.RECORD_LIST_TOO_LARGE),
    (storage_errors.CorruptBatchError, ErrorCode.CORRUPT_MESSAGE),
    (storage_errors.StorageError, ErrorCode.KAFKA_STORAGE_ERROR),
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
