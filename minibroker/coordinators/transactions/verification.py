"""Verification that a batch belongs to the producer's open transaction (Kafka's `AddPartitionsToTxnManager`).

Without this check, a late batch would open a transaction that never ends (KIP-890).
"""

from collections.abc import Callable
from typing import Final

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.header import BatchHeader
from minibroker_storage.data_directory.names import TopicPartition
from minibroker_storage.log import Log

_MAX_REMEMBERED: Final = 10_000
"""The maximum number of remembered producers with refused batches. The oldest are dropped first."""

Ask = Callable[[str, int, int, str, int], ErrorCode]


class WriteVerifier:
    """Asks the coordinator about batches that begin a transaction in a log.

    The sequence number of a refused batch is remembered (Kafka's `VerificationStateEntry`). Later batches may
    already be on their way, and must not be accepted before the refused batch is sent again.

    Args:
        verify: Returns the coordinator's error for (transactional id, producer id, epoch, topic, partition).
        add: Adds the partition to the transaction. It takes the same arguments as `verify`.
    """

    def __init__(self, verify: Ask, add: Ask) -> None:
        self._verify = verify
        self._add = add
        self._refused: dict[tuple[TopicPartition, int], tuple[int, int]] = {}

    @property
    def refusals(self) -> int:
        """The number of producers with a refused batch that is remembered."""
        return len(self._refused)

    def find_error(
        self, transactional_id: str, log: Log, header: BatchHeader, key: TopicPartition, *, adds: bool = False
    ) -> ErrorCode:
        """Return the error for a transactional batch for the partition `key`, or NONE.

        If `adds` is true, the batch adds its partition to the transaction.

        Returns:
            NONE, an error of `TransactionCoordinator.verify` or `add_written`, or OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        if header.producer_id < 0:
            return ErrorCode.NONE
        state = log.producers.active.get(header.producer_id)
        # The epoch must match: an open transaction of an earlier epoch still lacks its marker, and the marker must come
        # before the next transaction.
        if state is not None and state.current_txn_first_offset >= 0 and state.producer_epoch == header.producer_epoch:
            return ErrorCode.NONE
        check = self._add if adds else self._verify
        error = check(transactional_id, header.producer_id, header.producer_epoch, *key)
        epoch, sequence = self._refused.pop((key, header.producer_id), (header.producer_epoch, header.base_sequence))
        if epoch < header.producer_epoch:
            epoch, sequence = header.producer_epoch, header.base_sequence
        if not error and header.base_sequence <= sequence:
            # A producer that adds partitions by writing begins with sequence number 0 in a log without state for that
            # producer.
            starts_late = adds and state is None and header.base_sequence > 0
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if starts_late else ErrorCode.NONE
        lowest = min(sequence, header.base_sequence) if epoch == header.producer_epoch else sequence
        self._refused[key, header.producer_id] = epoch, lowest
        if len(self._refused) > _MAX_REMEMBERED:
            del self._refused[next(iter(self._refused))]
        return error or ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def forget(self, key: TopicPartition, producer_id: int) -> None:
        """Forget a refused batch, because the producer's transaction has ended in the partition."""
        self._refused.pop((key, producer_id), None)


def writer_error(error: ErrorCode, *, supports_abortable: bool) -> ErrorCode:
    """Return the error that a producer gets for a failed verification (Kafka's `AddPartitionsToTxnManager`).

    `supports_abortable` is true if the version of the producer's request has TRANSACTION_ABORTABLE.
    """
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not supports_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error
