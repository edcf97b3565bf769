"""Verification: a batch opens only a transaction that the coordinator knows (Kafka's `AddPartitionsToTxnManager`).

Otherwise a late batch would open a transaction that never ends (KIP-890).
"""

from collections.abc import Callable
from typing import Final

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.header import BatchHeader
from minibroker_storage.data_directory.names import TopicPartition
from minibroker_storage.log import Log

_KEPT: Final = 10_000
"""Refused producers that are remembered; the oldest go first."""

Ask = Callable[[str, int, int, str, int], ErrorCode]


class WriteVerifier:
    """Asks the coordinator about batches that begin a transaction in a log.

    Of a batch that was refused, the sequence number is remembered (Kafka's `VerificationStateEntry`): the batches
    behind it may already be on their way, and must not be taken before it comes again.

    Args:
        verify: asks for (transactional id, producer id, epoch, topic, partition).
        add: has the partition added to the transaction.
    """

    def __init__(self, verify: Ask, add: Ask) -> None:
        self._verify = verify
        self._add = add
        self._refused: dict[tuple[TopicPartition, int], tuple[int, int]] = {}

    @property
    def refusals(self) -> int:
        """The number of refused producers that are remembered."""
        return len(self._refused)

    def error_of(
        self, transactional_id: str, log: Log, header: BatchHeader, key: TopicPartition, *, adds: bool = False
    ) -> ErrorCode:
        """The error for a transactional batch for the partition `key`, which it `adds` to the transaction, or NONE.

        The errors of `TransactionCoordinator.verify`, or `add_written`, and OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        if header.producer_id < 0:
            return ErrorCode.NONE
        known = log.producers.active.get(header.producer_id)
        # What is open in an earlier epoch still awaits its marker, which must not come behind the next transaction.
        if known is not None and known.current_txn_first_offset >= 0 and known.producer_epoch == header.producer_epoch:
            return ErrorCode.NONE
        ask = self._add if adds else self._verify
        error = ask(transactional_id, header.producer_id, header.producer_epoch, *key)
        epoch, sequence = self._refused.pop((key, header.producer_id), (header.producer_epoch, header.base_sequence))
        if epoch < header.producer_epoch:
            epoch, sequence = header.producer_epoch, header.base_sequence
        if not error and header.base_sequence <= sequence:
            # A producer that adds by writing begins each transaction again: what is not known here begins with 0.
            starts_late = adds and known is None and header.base_sequence > 0
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if starts_late else ErrorCode.NONE
        lowest = min(sequence, header.base_sequence) if epoch == header.producer_epoch else sequence
        self._refused[key, header.producer_id] = epoch, lowest
        if len(self._refused) > _KEPT:
            del self._refused[next(iter(self._refused))]
        return error or ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def forget(self, key: TopicPartition, producer_id: int) -> None:
        """A transaction has ended there."""
        self._refused.pop((key, producer_id), None)


def as_writers_know_it(error: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """The error that a producer gets for a failed verification (Kafka's `AddPartitionsToTxnManager`).

    `knows_abortable` says whether the version of its request has TRANSACTION_ABORTABLE.
    """
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error
