"""One transactional id: its states, and the steps from one to the next (Kafka's `TransactionMetadata`).

The rules are those of Kafka's `TransactionMetadata`. A transaction is a value: a step returns another one, which
counts once it is in the log. With the second version of transactions (KIP-890) its end raises the producer's epoch,
so that nothing that comes late can be taken for a part of the next one.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from minibroker_protocol.coordinator_records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from minibroker_protocol.coordinator_records.versioned import encode_versioned
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from minibroker_storage.data_directory.names import TopicPartition

_LAST_EPOCH: Final = 32_766
"""The last epoch that a producer gets; the one above it is left for fencing."""
_EPOCH_OF_FENCING: Final = _LAST_EPOCH + 1
"""The largest number that an epoch may be. Who writes in it was never given it, and is fenced in it, too."""
_KEY_VERSION: Final = 0
_LAST_VALUE_VERSION: Final = 1
NO_TIMEOUT_MS: Final = (1 << 31) - 1
"""The timeout of a transaction that never ends by itself."""
RAISES_EPOCHS: Final = 2
"""The level of `transaction.version` whose transactions raise the epoch when they end."""


class TransactionState(IntEnum):
    """Kafka's `TransactionState`; the numbers are those of the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def wire_name(self) -> str:
        """The name in ListTransactions and DescribeTransactions."""
        return _WIRE_NAMES[self]

    @property
    def is_prepared(self) -> bool:
        """Is the end decided, and are there markers still to be written?"""
        return self in {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}

    @property
    def may_expire(self) -> bool:
        """Is nothing going on that would be lost with the transactional id?"""
        return self in {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}


_WIRE_NAMES: Final = {state: state.name.title().replace("_", "") for state in TransactionState}
STATES_BY_NAME: Final = {name: state for state, name in _WIRE_NAMES.items()}


_COMMITS: Final = {
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.COMPLETE_ABORT: False,
}
"""Whether a state ends in a commit."""


class Transaction(NamedTuple):
    """One transactional id with its latest transaction.

    Attributes:
        last_producer_id: the producer id before the last step; a new id may have come since.
        last_producer_epoch: the epoch before the last InitProducerId of the same producer, -1 when another one asked.
        partitions: what still awaits a marker.
        start_ms: when the latest transaction began, -1 when that is not known. The log has no such time
            for the state EMPTY.
        updated_ms: when the last step was taken.
        next_producer_id: takes the place of the id once the end is complete, if the id has no epoch left.
        client_version: `RAISES_EPOCHS` if the producer knows of that; Kafka's `clientTransactionVersion`.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    updated_ms: int
    last_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0

    @property
    def has_no_epoch_left(self) -> bool:
        """Does the producer need another id before its epoch can grow?"""
        return is_exhausted(self.producer_epoch)

    def is_timed_out(self, now_ms: int) -> bool:
        """Return whether an open transaction has lasted longer than its producer allowed."""
        has_timeout = self.timeout_ms != NO_TIMEOUT_MS
        return has_timeout and self.state is TransactionState.ONGOING and self.start_ms + self.timeout_ms < now_ms

    def membership_error(self, partition: TopicPartition) -> ErrorCode:
        """Return NONE for a partition of the transaction, or TRANSACTION_ABORTABLE."""
        return ErrorCode.NONE if partition in self.partitions else ErrorCode.TRANSACTION_ABORTABLE

    def is_end_retry(self, producer_id: int, epoch: int, *, raises_epoch: bool) -> bool:
        """Return whether a producer repeats the request that has ended the transaction: it may have lost the response.

        If that request has raised the epoch (KIP-890), the producer still names the last one, perhaps of another id.
        """
        if not raises_epoch:
            return self.state in _COMMITS and (producer_id, epoch) == (self.producer_id, self.producer_epoch)
        had_no_epoch_left = (producer_id, epoch, self.producer_epoch) == (self.last_producer_id, _LAST_EPOCH, 0)
        return had_no_epoch_left or (producer_id, epoch + 1) == (self.producer_id, self.producer_epoch)

    def forgetting_its_start(self) -> "Transaction":
        """A producer that begins again, as Kafka 4 knows it. Before, only the next start forgets it; no record does."""
        return self._replace(start_ms=NO_TIMESTAMP)

    def with_next_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> "Transaction | None":
        """The producer begins again, one epoch later; None when it is fenced (KIP-360).

        A producer that names its epoch has to name the current one, or the one before: then it repeats a request
        whose answer it has not seen.
        """
        current = self.producer_epoch
        if expected_epoch is None:
            epoch, last_epoch = current + 1, NO_PRODUCER_EPOCH
        # -1: the coordinator has forgotten the id since (`transactional.id.expiration.ms`), so any epoch may go on.
        elif current in {NO_PRODUCER_EPOCH, expected_epoch}:
            epoch, last_epoch = current + 1, current
        # The answer was lost. The epoch is not raised again, or a retry would fence itself.
        elif expected_epoch == self.last_producer_epoch:
            epoch, last_epoch = current, self.last_producer_epoch
        else:
            return None
        return self._emptied(self.producer_id, epoch, last_epoch, timeout_ms, now_ms)

    def with_producer_id(self, producer_id: int, timeout_ms: int, now_ms: int, *, keeps_epoch: bool) -> "Transaction":
        """The producer begins again with another id; `keeps_epoch` says whether it may repeat the request."""
        last_epoch = self.producer_epoch if keeps_epoch else NO_PRODUCER_EPOCH
        return self._emptied(producer_id, 0, last_epoch, timeout_ms, now_ms)

    def _emptied(self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> "Transaction":
        return Transaction(
            self.transactional_id,
            producer_id,
            timeout_ms,
            now_ms,
            last_producer_id=self.producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            start_ms=self.start_ms,
            client_version=self.client_version,
        )

    def with_partitions(
        self, added: Iterable[TopicPartition], now_ms: int, *, client_version: int = 0
    ) -> "Transaction":
        """The transaction is open and has these partitions, too."""
        return self._replace(
            last_producer_id=self.producer_id,
            state=TransactionState.ONGOING,
            partitions=self.partitions.union(added),
            # The timeout counts from the first partition, not from InitProducerId: an idle producer has none.
            start_ms=now_ms if self.state.may_expire else self.start_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def fenced(self) -> "Transaction":
        """No producer goes on with the open transaction: it is the coordinator's, in an epoch that no producer gets."""
        return self._replace(
            last_producer_id=self.producer_id,
            # The last number is kept for this: even a producer at its last epoch can be fenced.
            producer_epoch=min(self.producer_epoch + 1, _EPOCH_OF_FENCING),
            last_producer_epoch=NO_PRODUCER_EPOCH,
        )

    def prepared(self, now_ms: int, *, commit: bool) -> "Transaction":
        """The end is decided; what is left are the markers."""
        return self._replace(
            last_producer_id=self.producer_id,
            state=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            updated_ms=now_ms,
            client_version=0,
        )

    def prepared_with_next_epoch(
        self, now_ms: int, *, commit: bool, next_producer_id: int = NO_PRODUCER_ID
    ) -> "Transaction":
        """The end is decided, and the producer goes on in the next epoch; `next_producer_id` if there is none left.

        A transaction without partitions may be aborted, too; then it begins and ends now.
        """
        return self.prepared(now_ms, commit=commit)._replace(
            producer_epoch=min(self.producer_epoch + 1, _EPOCH_OF_FENCING),
            last_producer_epoch=self.producer_epoch,
            start_ms=now_ms if self.state.may_expire else self.start_ms,
            next_producer_id=next_producer_id,
            client_version=RAISES_EPOCHS,
        )

    def completed(self, now_ms: int) -> "Transaction":
        """All markers are written."""
        committed = self.state is TransactionState.PREPARE_COMMIT
        # Not before the markers are written: they end what was written under the old id.
        rotates = self.client_version >= RAISES_EPOCHS and self.next_producer_id != NO_PRODUCER_ID
        return self._replace(
            producer_id=self.next_producer_id if rotates else self.producer_id,
            producer_epoch=0 if rotates else self.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            last_producer_id=self.producer_id,
            state=TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            updated_ms=now_ms,
        )


def end_error(
    transaction: Transaction, producer_id: int, producer_epoch: int, *, commit: bool, raises_epoch: bool
) -> ErrorCode:
    """Return the error for a producer's request to end a transaction (Kafka's `endTransaction`).

    `raises_epoch` tells requests that raise the epoch (KIP-890) from older ones.
    """
    state = transaction.state
    is_retry = transaction.is_end_retry(producer_id, producer_epoch, raises_epoch=raises_epoch)
    if not is_retry and transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if is_retry and state in _COMMITS:
        if _COMMITS[state] is not commit:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.CONCURRENT_TRANSACTIONS if state.is_prepared else ErrorCode.NONE
    # A newer producer of the same id has come (KIP-98), or an end is decided that this producer did not ask for.
    if producer_epoch != transaction.producer_epoch or state.is_prepared:
        return ErrorCode.PRODUCER_FENCED
    # Without records there is nothing to commit, but an abort may raise the epoch.
    may_end = state is TransactionState.ONGOING or (raises_epoch and not commit)
    return ErrorCode.NONE if may_end else ErrorCode.INVALID_TXN_STATE


def is_exhausted(epoch: int) -> bool:
    """Is there no epoch behind this one that a producer could get?"""
    return epoch >= _LAST_EPOCH


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions in order, under their topics."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


def encode_key(transactional_id: str) -> bytes:
    """The key of a transactional id's records. EncodeError for one that is too long."""
    return encode_versioned(TransactionLogKey(transactional_id=transactional_id), _KEY_VERSION)


def encode_value(transaction: Transaction, *, level: int = 0) -> bytes:
    """The value of a transaction's record (Kafka's `TransactionLog.valueToBytes`).

    `level` is that of `transaction.version`: from 1 on the record has tagged fields. Kafka leaves both ids out, so that
    a kill between the end and its completion costs it the new id; here they are written where they say something.
    """
    value_version = min(level, _LAST_VALUE_VERSION)
    rotated = transaction.last_producer_id != transaction.producer_id
    is_empty = transaction.state is TransactionState.EMPTY
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None
        if is_empty
        else [
            PartitionsSchema(topic=topic, partition_ids=partitions)
            for topic, partitions in by_topic(transaction.partitions).items()
        ],
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=NO_TIMESTAMP if is_empty else transaction.start_ms,
        previous_producer_id=transaction.last_producer_id if rotated else NO_PRODUCER_ID,
        next_producer_id=transaction.next_producer_id,
        client_transaction_version=transaction.client_version,
    )
    return encode_versioned(value, value_version)


def transaction_of(transactional_id: str, value: TransactionLogValue) -> Transaction:
    """The transaction in a record. ValueError for a state that does not exist."""
    return Transaction(
        transactional_id,
        value.producer_id,
        value.transaction_timeout_ms,
        value.transaction_last_update_timestamp_ms,
        producer_epoch=value.producer_epoch,
        state=TransactionState(value.transaction_status),
        partitions=frozenset(
            (topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        last_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )
