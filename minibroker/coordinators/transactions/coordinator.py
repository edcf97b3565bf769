"""The transaction coordinator: serves transactional producers (Kafka's `TransactionCoordinator`).

A state takes effect only after it is in `__transaction_state`. A call returns after everything is written, including
the markers of an ended transaction unless there are many of them. A producer gets CONCURRENT_TRANSACTIONS in only three
cases: Kafka deliberately requires a retry (InitProducerId during an open transaction), many markers are being written,
or the disk has refused a marker.
"""

import logging
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from minibroker.clock import Timer
from minibroker.cluster.core import Core
from minibroker.cluster.features import TRANSACTION_VERSION
from minibroker.cluster.node import Node
from minibroker.cluster.routing.slices import ForEach, steps_of
from minibroker.coordinators.transactions.store import TransactionStore
from minibroker.coordinators.transactions.transaction import (
    NO_TIMEOUT_MS,
    RAISES_EPOCHS,
    Marker,
    Transaction,
    TransactionState,
    end_error,
    is_exhausted,
    write_marker,
)
from minibroker.coordinators.transactions.verification import WriteVerifier
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from minibroker_storage.data_directory.names import TopicPartition

_RETRY_MS: Final = 500
"""The pause before a marker is retried after a disk failure, or while its partition has no leader."""
_MARKERS_PER_STEP: Final = 50
"""Markers written per step. A transaction with at most this many partitions is complete before EndTxn is answered."""
_FINISHED_ERRORS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    }
)
"""Errors of partitions in which no transaction is left to end."""
_logger = logging.getLogger(__name__)


class ProducerIdAndEpoch(NamedTuple):
    """The current id and epoch of a producer."""

    producer_id: int
    producer_epoch: int


class ProducerResult(NamedTuple):
    """The new id and epoch of a producer, or an error."""

    error_code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class TransactionCoordinator:
    """All transactions of one broker.

    Attributes:
        store: The store of transactional ids.
        verifier: Checks the batches that producers write.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.store = TransactionStore(core, self._on_loaded)
        self._timer: Timer | None = None
        self._delayed: set[str] = set()
        self._completing: dict[str, Transaction] = {}  # Transactions whose markers are being written.
        self._closed = False
        config, chores = core.config, core.chores
        self._max_timeout_ms = config.integer("transaction.max.timeout.ms")
        self._expiration_ms = config.integer("transactional.id.expiration.ms")
        self.verifier = WriteVerifier(self.verify, self.add_written)
        chores.every(
            "transaction timeouts",
            config.integer("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            self._abort_timed_out,
        )
        chores.every(
            "transactional id expiration",
            config.integer("transaction.remove.expired.transaction.cleanup.interval.ms"),
            self._remove_expired,
        )

    def close(self) -> None:
        """Stop loading, and cancel the timer."""
        self._closed = True
        self.store.close()
        if self._timer is not None:
            self._timer.cancel()

    # These methods handle requests from producers. They return NOT_COORDINATOR if `node` is not the coordinator.

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None = None,
        *,
        never_ends: bool = False,
        node: Node | None = None,
    ) -> ProducerResult:
        """Make a producer the only producer with its transactional id (KIP-98, KIP-360).

        Args:
            transactional_id: The producer's transactional id.
            timeout_ms: The timeout of its transactions.
            expected: The producer id and epoch that the producer has used so far.
            never_ends: Whether its transactions never time out. If true, `timeout_ms` is ignored.
            node: The node that got the request, or None for any coordinator.

        Returns:
            The producer's id and epoch, INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED, or
            CONCURRENT_TRANSACTIONS after an open transaction was aborted or while a transaction is being ended.
        """
        if not transactional_id:
            return ProducerResult(ErrorCode.INVALID_REQUEST)
        if never_ends:
            timeout_ms = NO_TIMEOUT_MS
        elif not 0 < timeout_ms <= self._max_timeout_ms:
            return ProducerResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        # Another node may coordinate the transactional id, or its partition may still be loading. In both cases the
        # state in memory is incomplete.
        if error := self.store.check_readiness(transactional_id, node):
            return ProducerResult(error)
        try:
            transaction = self._initialize(transactional_id, timeout_ms, expected)
        except OSError:
            transaction = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if isinstance(transaction, ErrorCode):
            return ProducerResult(transaction)
        return ProducerResult(ErrorCode.NONE, transaction.producer_id, transaction.producer_epoch)

    def _initialize(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> Transaction | ErrorCode:
        """Save and return the state that makes the producer the only one with its transactional id, or return an error.

        Raises:
            OSError: No producer id could be reserved.
        """
        now_ms = self._core.clock.now_ms()
        if (current := self.store.get(transactional_id)) is None:
            current = Transaction(transactional_id, self._core.producer_ids.next(), timeout_ms, now_ms)
        if not _may_continue(current, expected):
            return ErrorCode.PRODUCER_FENCED
        # The markers of a prepared transaction carry the current epoch, so a new epoch must wait for them.
        if current.state.is_prepared:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if current.state is TransactionState.ONGOING:
            # The abort is complete when `_fence` returns, but Kafka's producer expects CONCURRENT_TRANSACTIONS, and
            # retries.
            return self._fence(current) or ErrorCode.CONCURRENT_TRANSACTIONS
        epoch = None if expected is None else expected.producer_epoch
        transaction: Transaction | None
        if (is_exhausted(current.producer_epoch) or self._is_restored(current)) and epoch in {
            None,
            current.producer_epoch,
        }:
            new_id = self._core.producer_ids.next()
            # The epoch's 16 bits are exhausted, or its next values may have been used before a restore. A new
            # producer id begins at epoch 0 (KIP-360).
            transaction = current.with_producer_id(new_id, timeout_ms, now_ms, keeps_epoch=expected is not None)
        else:
            transaction = current.with_next_epoch(timeout_ms, epoch, now_ms)
        if transaction is None:
            return ErrorCode.PRODUCER_FENCED
        if self._raises_epochs:
            # The record of an empty transaction has no start time. Releases without raised epochs keep the old start
            # time in memory until a restart.
            transaction = transaction._replace(start_ms=NO_TIMESTAMP)
        return self.store.save(transaction) or transaction

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        node: Node | None = None,
        client_version: int = 0,
    ) -> ErrorCode:
        """Add partitions to the transaction. The first partition begins the transaction.

        `client_version` is `RAISES_EPOCHS` if the producer expects its epoch to be raised at the end.

        Returns:
            NONE, INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or CONCURRENT_TRANSACTIONS.
        """
        transaction = self.find(transactional_id, producer_id, producer_epoch, node)
        if isinstance(transaction, ErrorCode):
            return transaction
        # As in Kafka, repeated requests write no record. Some clients add a partition again with each batch.
        if transaction.state is TransactionState.ONGOING and transaction.partitions.issuperset(partitions):
            return ErrorCode.NONE
        now_ms = self._core.clock.now_ms()
        return self.store.save(transaction.with_partitions(partitions, now_ms, client_version=client_version))

    def add_written(
        self, transactional_id: str, producer_id: int, producer_epoch: int, topic: str, partition: int
    ) -> ErrorCode:
        """Add a partition because the producer writes to it (KIP-890).

        Returns:
            NONE, or an error of `add_partitions`.
        """
        added = [(topic, partition)]
        return self.add_partitions(transactional_id, producer_id, producer_epoch, added, client_version=RAISES_EPOCHS)

    @property
    def _raises_epochs(self) -> bool:
        """Whether the coordinator raises the epoch when it ends a transaction itself.

        The level of `transaction.version` decides how the coordinator fences, and the format of its records. When a
        producer ends the transaction, the version of its request decides (KIP-890). For producers, the level
        only recommends a version.
        """
        return self._core.features.level(TRANSACTION_VERSION) >= RAISES_EPOCHS

    @property
    def verifies(self) -> bool:
        """Whether to verify batches that do not add their partitions to the transaction themselves."""
        return self._core.config.boolean("transaction.partition.verification.enable")

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, topic: str, partition: int
    ) -> ErrorCode:
        """Check that a partition is in the producer's transaction (KIP-890).

        Returns:
            NONE, TRANSACTION_ABORTABLE if the partition is not in the transaction, or an error of `add_partitions`.
        """
        transaction = self.find(transactional_id, producer_id, producer_epoch)
        return transaction if isinstance(transaction, ErrorCode) else transaction.membership_error((topic, partition))

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        raises_epoch: bool = False,
        node: Node | None = None,
    ) -> ProducerResult:
        """Commit or abort a transaction. On return its markers are written, unless there are many.

        Args:
            transactional_id: The producer's transactional id.
            producer_id: The producer id in the request.
            producer_epoch: The epoch in the request.
            commit: Whether to commit.
            raises_epoch: Whether the producer continues in the next epoch (KIP-890), or with another producer id if
                no epoch is left. Such a producer may also abort a transaction without records.
            node: The node that got the request, or None for any coordinator.

        Returns:
            The id and epoch for the producer's next transaction, or an error.
        """
        transaction = self._find_transaction(transactional_id, node)
        if isinstance(transaction, ErrorCode):
            return ProducerResult(transaction)
        error = end_error(transaction, producer_id, producer_epoch, commit=commit, raises_epoch=raises_epoch)
        if error:
            return ProducerResult(error)
        if not transaction.is_end_retry(producer_id, producer_epoch, raises_epoch=raises_epoch):
            completed = self._end_transaction(transaction, commit=commit, raises_epoch=raises_epoch)
            if isinstance(completed, ErrorCode):
                return ProducerResult(completed)
            transaction = completed
        return ProducerResult(ErrorCode.NONE, transaction.producer_id, transaction.producer_epoch)

    def _find_transaction(self, transactional_id: str, node: Node | None) -> Transaction | ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        error = self.store.check_readiness(transactional_id, node)
        transaction = None if error else self.store.get(transactional_id)
        # A restore may have removed the producer's transaction with all its records. A transaction that was open in the
        # snapshot still exists, and can be ended.
        if transaction is None or (
            self._is_restored(transaction) and transaction.state is not TransactionState.ONGOING
        ):
            return error or ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return transaction

    def find(
        self, transactional_id: str, producer_id: int, producer_epoch: int, node: Node | None = None
    ) -> Transaction | ErrorCode:
        """Return a producer's transaction if partitions can be added to it, or else an error of `add_partitions`."""
        transaction = self._find_transaction(transactional_id, node)
        if isinstance(transaction, ErrorCode):
            return transaction
        if transaction.next_producer_id == producer_id >= 0:
            # The next producer id becomes valid after all markers are written.
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if transaction.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        # A newer producer with the same transactional id has fenced this zombie (KIP-98).
        if transaction.producer_epoch != producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.state.is_prepared else transaction

    def _is_restored(self, transaction: Transaction) -> bool:
        """Return whether this state comes from a restore that no InitProducerId has followed."""
        return transaction.producer_id < self._core.topics.first_valid_producer_id

    def _end_transaction(
        self, transaction: Transaction, *, commit: bool, raises_epoch: bool
    ) -> Transaction | ErrorCode:
        """Prepare a commit or an abort, and write the markers.

        Returns:
            The completed transaction, or an error that leaves it open.
        """
        now_ms = self._core.clock.now_ms()
        if raises_epoch:
            next_id = NO_PRODUCER_ID
            if is_exhausted(transaction.producer_epoch):
                try:
                    # Reserve the next producer id before the end is written, so that a failure leaves the transaction
                    # open.
                    next_id = self._core.producer_ids.next()
                except OSError:
                    return ErrorCode.COORDINATOR_NOT_AVAILABLE
            prepared = transaction.prepared_with_next_epoch(now_ms, commit=commit, next_producer_id=next_id)
        else:
            prepared = transaction.prepared(now_ms, commit=commit)
        # Once this record is written, the outcome is final, even after a crash.
        if error := self.store.save(prepared):
            return error
        self._complete(prepared)
        return prepared.completed(now_ms)

    def _fence(self, transaction: Transaction) -> ErrorCode:
        """Abort an open transaction in an epoch reserved for the coordinator. This fences the producer."""
        raises_epoch = self._raises_epochs
        # With the raised epoch in the marker, the log itself rejects late batches of the fenced producer.
        fenced = transaction if raises_epoch else transaction.fenced()
        completed = self._end_transaction(fenced, commit=False, raises_epoch=raises_epoch)
        return completed if isinstance(completed, ErrorCode) else ErrorCode.NONE

    def _complete(self, transaction: Transaction) -> None:
        """Write the markers of a transaction whose end is decided. Markers that the disk refuses are retried later.

        Many markers are written in steps. Until then the transaction stays prepared, as in Kafka, where the
        coordinator sends the markers after its response.
        """
        transactional_id = transaction.transactional_id
        if self._completing.get(transactional_id) is transaction:
            return
        # A transaction that was reloaded is a new object, so its markers are written again.
        self._completing[transactional_id] = transaction
        partitions, unwritten = list(transaction.partitions), list[TopicPartition]()

        def is_current() -> bool:
            return not self._closed and self.store.get(transactional_id) is transaction

        def write(begin: int) -> None:
            if is_current():
                markers = partitions[begin : begin + _MARKERS_PER_STEP]
                unwritten.extend(partition for partition in markers if not self._write_marker(transaction, partition))

        def end() -> bool:
            was_completing = self._completing.get(transactional_id) is transaction
            if was_completing:
                del self._completing[transactional_id]
            return was_completing and is_current()

        def on_done(_: object) -> None:
            if end():
                self._finish_completion(transaction, frozenset(unwritten))

        def on_error(error: Exception) -> None:
            end()
            _logger.error("The markers of %s could not be written", transactional_id, exc_info=error)

        self._core.slices.run(ForEach(range(0, len(partitions), _MARKERS_PER_STEP), write), on_done, on_error)

    def _finish_completion(self, transaction: Transaction, unwritten: frozenset[TopicPartition]) -> None:
        """Save a completed transaction, or keep its remaining partitions and retry later."""
        if unwritten or self.store.save(transaction.completed(self._core.clock.now_ms())):
            # The remaining partitions are kept only in memory. A restart writes all markers again, and a marker without
            # a transaction is harmless.
            self.store.keep(transaction._replace(partitions=unwritten))
            self._delayed.add(transaction.transactional_id)
            if self._timer is None and not self._closed:
                self._timer = self._core.clock.call_later(_RETRY_MS, self.retry_markers)
        else:
            self._delayed.discard(transaction.transactional_id)

    def _write_marker(self, transaction: Transaction, partition: TopicPartition) -> bool:
        """Write a marker. Return False if the write must be retried."""
        marker = Marker(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            commit=transaction.state is TransactionState.PREPARE_COMMIT,
            transaction_version=transaction.client_version,
            coordinator_epoch=self.store.log.epoch_of(transaction.transactional_id),
        )
        error = write_marker(self._core, *partition, marker)
        # A deleted topic or a fenced epoch must not delay the transaction and its producer forever.
        if not error or error in _FINISHED_ERRORS:
            return True
        if transaction.transactional_id not in self._delayed:  # The error is logged once, not at every retry.
            level = logging.INFO if error is ErrorCode.NOT_ENOUGH_REPLICAS else logging.ERROR
            _logger.log(
                level, "%s-%d: no marker for %s yet: %s", *partition, transaction.transactional_id, error.meaning
            )
        return False

    def retry_markers(self) -> None:
        """Write the markers that could not be written before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._complete_prepared(self.store.all())

    def _on_loaded(self, index: int) -> None:
        self._complete_prepared(self.store.in_partition(index))

    def _complete_prepared(self, transactions: Collection[Transaction]) -> None:
        # A crash between decision and completion leaves a prepared transaction. All its markers are written again, as
        # Kafka does, because the log does not say which ones were written.
        for transaction in transactions:
            if transaction.state.is_prepared:
                self._complete(transaction)

    def _abort_timed_out(self) -> Iterator[None]:
        # Retry failed partitions here. If a producer never returns, no request of it loads its transaction.
        self.store.retry_failed()
        now_ms = self._core.clock.now_ms()
        return steps_of(ForEach([item for item in self.store.all() if item.is_timed_out(now_ms)], self._time_out))

    def expire(self, transactional_id: str) -> bool:
        """Abort an open transaction as after its timeout, and return whether there was one."""
        transaction = self.store.get(transactional_id)
        if transaction is None or transaction.state is not TransactionState.ONGOING:
            return False
        self._time_out(transaction)
        return True

    def _time_out(self, transaction: Transaction) -> None:
        # The producer may have ended the transaction in the meantime.
        if self.store.get(transaction.transactional_id) is transaction:
            _logger.info("transactional id %s: its transaction has timed out", transaction.transactional_id)
            self._fence(transaction)

    def _remove_expired(self) -> Iterator[None]:
        cutoff_ms = self._core.clock.now_ms() - self._expiration_ms
        expired = [item for item in self.store.all() if item.state.may_expire and item.updated_ms <= cutoff_ms]
        return steps_of(self.store.remove(expired))


def _may_continue(transaction: Transaction, expected: ProducerIdAndEpoch | None) -> bool:
    """Return whether a producer may continue with the producer id in its request. Its epoch is checked later.

    A new transactional id accepts any producer id. A producer that has exhausted its epochs may name the previous id,
    because it may have missed the response with the new id.
    """
    return (
        expected is None
        or transaction.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == transaction.producer_id
        or (expected.producer_id == transaction.last_producer_id and is_exhausted(expected.producer_epoch))
    )
