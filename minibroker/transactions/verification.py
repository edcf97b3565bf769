"""Verification: a transaction writes only where its coordinator knows of it (KIP-890).

Otherwise a batch that comes late would open a transaction that nobody ends.
"""

from minibroker.state import BrokerState
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records import BatchHeader
from minibroker_storage.log import Log


def write_error(
    state: BrokerState, transactional_id: str, log: Log, header: BatchHeader, place: tuple[str, int]
) -> ErrorCode:
    """What the coordinator has against a transactional batch for (topic, partition) `place`.

    It is asked only about a batch that begins a transaction in the log, and not at all when
    `transaction.partition.verification.enable` says so.
    """
    coordinator = state.transactions
    if header.producer_id < 0 or not coordinator.verifies_partitions:
        return ErrorCode.NONE
    known = log.producers.active.get(header.producer_id)
    if known is not None and known.current_txn_first_offset >= 0:
        return ErrorCode.NONE
    return coordinator.verify(transactional_id, header.producer_id, header.producer_epoch, *place)


def as_writers_know_it(error: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """What a writer is told of a verification that failed (Kafka's `AddPartitionsToTxnManager`).

    `knows_abortable` says whether the version of its request has TRANSACTION_ABORTABLE.
    """
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error
