"""The transaction coordinator: requests of transactional producers (Kafka's `TransactionCoordinator`).

Every step is written to `__transaction_state` before it counts. Everything is written when a call returns; so are the
markers of a transaction that ends, unless there are many. A producer meets CONCURRENT_TRANSACTIONS in three cases only:
Kafka asks for a second try on purpose (InitProducerId over an open transaction), many markers are being written, or the
disk has refused a marker.
"""

import logging
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from minibroker.clock import Timer
from minibroker.cluster.core import Core
from minibroker.cluster.features import TRANSACTION_VERSION
from minibroker.cluster.node import Node
from minibroker.cluster.routing.slices import ForEach, steps_of
from minibroker.coordinators.transactions.markers import Marker, write_marker
from minibroker.coordinators.transactions.store import TransactionStore
from minibroker.coordinators.transactions.transaction import (
    NO_TIMEOUT_MS,
    RAISES_EPOCHS,
    Transaction,
    TransactionState,
    end_error,
    is_exhausted,
)
from minibroker.coordinators.transactions.verification import WriteVerifier
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from minibroker_storage.data_directory.names import TopicPartition

_RETRY_MS: Final = 500
"""The pause before a marker is written again after the disk failed or its partition had no leader."""
_MARKERS_PER_STEP: Final = 50
"""A transaction with no more partitions is complete when EndTxn is answered."""
_GONE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    }
)
"""Nothing is open there that a marker could end."""
_logger = logging.getLogger(__name__)


class ProducerIdAndEpoch(NamedTuple):
    """The producer id and epoch that a producer writes under."""

    producer_id: int
    producer_epoch: int


class ProducerResult(NamedTuple):
    """The producer id and epoch that a producer writes under from now on, or the error."""

    error_code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class TransactionCoordinator:
    """All transactions of one broker.

    Attributes:
        store: the transactional ids.
        verifier: looks at what producers write.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.store = TransactionStore(core, self._on_loaded)
        self._timer: Timer | None = None
        self._delayed: set[str] = set()
        self._completing: dict[str, Transaction] = {}  # prepared ones whose markers are being written
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

    def load_all(self) -> None:
        """Read what earlier runs have left, and end what they had decided."""
        self.store.load_all()

    def close(self) -> None:
        """Let nothing happen any more."""
        self._closed = True
        self.store.close()
        if self._timer is not None:
            self._timer.cancel()

    # What producers ask for, of `node` if that is given: NOT_COORDINATOR from any but the right one

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None = None,
        *,
        never_ends: bool = False,
        node: Node | None = None,
    ) -> ProducerResult:
        """Make a producer the only one of its transactional id (KIP-98, KIP-360).

        `expected` is what it has written under so far; `never_ends` takes the place of the timeout. INVALID_REQUEST,
        INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED; CONCURRENT_TRANSACTIONS after an open transaction was aborted,
        or while one is being ended.
        """
        if not transactional_id:
            return ProducerResult(ErrorCode.INVALID_REQUEST)
        if never_ends:
            timeout_ms = NO_TIMEOUT_MS
        elif not 0 < timeout_ms <= self._max_timeout_ms:
            return ProducerResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        # The id may be another node's, or its partition may still be loading: decide nothing on half of the log.
        error = self.store.readiness(transactional_id, node)
        if error:
            return ProducerResult(error)
        try:
            begun = self._begun(transactional_id, timeout_ms, expected)
        except OSError:
            begun = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if isinstance(begun, ErrorCode):
            return ProducerResult(begun)
        return ProducerResult(ErrorCode.NONE, begun.producer_id, begun.producer_epoch)

    def _begun(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> Transaction | ErrorCode:
        """The step that makes the producer the only one, once it is in the log. OSError when there is no new id."""
        now_ms = self._core.clock.now_ms()
        known = self.store.get(transactional_id)
        if known is None:
            known = Transaction(transactional_id, self._core.producer_ids.next(), timeout_ms, now_ms)
        if not _may_go_on(known, expected):
            return ErrorCode.PRODUCER_FENCED
        # The end is decided, and its markers carry the present epoch: a new epoch has to wait for them.
        if known.state.is_prepared:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if known.state is TransactionState.ONGOING:
            # The abort is done when this returns. Kafka's producer expects the error all the same, and asks again.
            return self._fence(known) or ErrorCode.CONCURRENT_TRANSACTIONS
        epoch = None if expected is None else expected.producer_epoch
        begun: Transaction | None
        if (known.has_no_epoch_left or self._is_restored(known)) and epoch in {None, known.producer_epoch}:
            new_id = self._core.producer_ids.next()
            # The 16 bits of the epoch are used up, or its next values may have been given out before a restore: a new
            # id begins at epoch 0 (KIP-360).
            begun = known.with_producer_id(new_id, timeout_ms, now_ms, keeps_epoch=expected is not None)
        else:
            begun = known.with_next_epoch(timeout_ms, epoch, now_ms)
        if begun is None:
            return ErrorCode.PRODUCER_FENCED
        if self._raises_epochs:
            begun = begun.forgetting_its_start()
        return self.store.save(begun) or begun

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
        """Have partitions in the transaction, which begins with the first of them.

        `client_version` is `RAISES_EPOCHS` when the producer knows that the end will raise its epoch.
        INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
        """
        transaction = self.find(transactional_id, producer_id, producer_epoch, node)
        if isinstance(transaction, ErrorCode):
            return transaction
        # A repeated request, or a client that adds a partition with each batch: no record for it, as in Kafka.
        if transaction.state is TransactionState.ONGOING and transaction.partitions.issuperset(partitions):
            return ErrorCode.NONE
        now_ms = self._core.clock.now_ms()
        return self.store.save(transaction.with_partitions(partitions, now_ms, client_version=client_version))

    def add_written(
        self, transactional_id: str, producer_id: int, producer_epoch: int, topic: str, partition: int
    ) -> ErrorCode:
        """Have a partition in the transaction because something is written there (KIP-890); errors as above."""
        place = [(topic, partition)]
        return self.add_partitions(transactional_id, producer_id, producer_epoch, place, client_version=RAISES_EPOCHS)

    @property
    def _raises_epochs(self) -> bool:
        """Does the coordinator itself end transactions in their next epochs?

        The level decides how it fences and what its records look like. For a producer's own requests their versions
        decide (KIP-890): the level only says which versions clients should use.
        """
        return self._core.features.level(TRANSACTION_VERSION) >= RAISES_EPOCHS

    @property
    def verifies(self) -> bool:
        """Is the verifier to ask about batches that do not add their partitions themselves?"""
        return self._core.config.boolean("transaction.partition.verification.enable")

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, topic: str, partition: int
    ) -> ErrorCode:
        """Return NONE if a partition is in the producer's transaction (KIP-890), or else TRANSACTION_ABORTABLE.

        Else the errors of `add_partitions`.
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
        """Commit or abort a transaction. Its markers are written on return unless there are many.

        Args:
            transactional_id: Names the transaction.
            producer_id: The producer id in the request.
            producer_epoch: The epoch in the request.
            commit: Whether to commit.
            raises_epoch: Whether the producer continues in the next epoch (KIP-890), with another id if none is left.
                Such a producer may also abort a transaction to which nothing was written.
            node: The node that was asked.

        Returns:
            The id and epoch of the producer's next transaction, or the error.
        """
        transaction = self._transaction(transactional_id, node)
        if isinstance(transaction, ErrorCode):
            return ProducerResult(transaction)
        error = end_error(transaction, producer_id, producer_epoch, commit=commit, raises_epoch=raises_epoch)
        if error:
            return ProducerResult(error)
        if not transaction.is_end_retry(producer_id, producer_epoch, raises_epoch=raises_epoch):
            ended = self._end(transaction, commit=commit, raises_epoch=raises_epoch)
            if isinstance(ended, ErrorCode):
                return ProducerResult(ended)
            transaction = ended
        return ProducerResult(ErrorCode.NONE, transaction.producer_id, transaction.producer_epoch)

    def _transaction(self, transactional_id: str, node: Node | None) -> Transaction | ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        error = self.store.readiness(transactional_id, node)
        transaction = None if error else self.store.get(transactional_id)
        if transaction is None or self._was_lost(transaction):
            return error or ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return transaction

    def find(
        self, transactional_id: str, producer_id: int, producer_epoch: int, node: Node | None = None
    ) -> Transaction | ErrorCode:
        """Return a producer's transaction to which partitions may be added, or the error of `add_partitions`."""
        transaction = self._transaction(transactional_id, node)
        if isinstance(transaction, ErrorCode):
            return transaction
        if transaction.next_producer_id == producer_id >= 0:
            return ErrorCode.CONCURRENT_TRANSACTIONS  # the id counts once the markers are written
        if transaction.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        # A newer producer of the same id has come: this one is a zombie (KIP-98).
        if transaction.producer_epoch != producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.state.is_prepared else transaction

    def _is_restored(self, transaction: Transaction) -> bool:
        """Return whether a restore brought this state back, and no producer has asked for its id since."""
        return transaction.producer_id < self._core.topics.first_valid_producer_id

    def _was_lost(self, transaction: Transaction) -> bool:
        """Return whether the producer may have a transaction that a restore has removed, with all its records.

        A transaction that was open in the snapshot is still there, and can be ended.
        """
        return self._is_restored(transaction) and transaction.state is not TransactionState.ONGOING

    # How transactions end

    def _end(self, transaction: Transaction, *, commit: bool, raises_epoch: bool) -> Transaction | ErrorCode:
        """Decide an end and write its markers. Return the completed transaction, or the error that keeps it open."""
        now_ms = self._core.clock.now_ms()
        if raises_epoch:
            next_id = NO_PRODUCER_ID
            if transaction.has_no_epoch_left:
                try:
                    # Reserved before the decision is written, so that a failure leaves the transaction open.
                    next_id = self._core.producer_ids.next()
                except OSError:
                    return ErrorCode.COORDINATOR_NOT_AVAILABLE
            prepared = transaction.prepared_with_next_epoch(now_ms, commit=commit, next_producer_id=next_id)
        else:
            prepared = transaction.prepared(now_ms, commit=commit)
        # From this record on the transaction ends this way, also after a crash.
        error = self.store.save(prepared)
        if error:
            return error
        self._complete(prepared)
        return prepared.completed(now_ms)

    def _fence(self, transaction: Transaction) -> ErrorCode:
        """Abort an open transaction in an epoch of the coordinator's own: its producer cannot go on."""
        raises_epoch = self._raises_epochs
        # With the raised epoch in its marker, the log itself refuses what the fenced producer still sends.
        fenced = transaction if raises_epoch else transaction.fenced()
        ended = self._end(fenced, commit=False, raises_epoch=raises_epoch)
        return ended if isinstance(ended, ErrorCode) else ErrorCode.NONE

    def _complete(self, transaction: Transaction) -> None:
        """Write the markers of a transaction whose end is decided. The disk's refusals are tried again later.

        Many markers are written in steps. Until then the transaction is prepared, as in Kafka, whose coordinator sends
        markers after its answer.
        """
        transactional_id = transaction.transactional_id
        if self._completing.get(transactional_id) is transaction:
            return
        # A coordinator that has lost the transaction, and loads it again, begins again with another object.
        self._completing[transactional_id] = transaction
        partitions, left = list(transaction.partitions), list[TopicPartition]()

        def is_current() -> bool:
            return not self._closed and self.store.get(transactional_id) is transaction

        def write(begin: int) -> None:
            if is_current():
                markers = partitions[begin : begin + _MARKERS_PER_STEP]
                left.extend(each for each in markers if not self._write_marker(transaction, each))

        def end() -> bool:
            was_completing = self._completing.get(transactional_id) is transaction
            if was_completing:
                del self._completing[transactional_id]
            return was_completing and is_current()

        def done(_: object) -> None:
            if end():
                self._end_completing(transaction, frozenset(left))

        def failed(error: Exception) -> None:
            end()
            _logger.error("The markers of %s could not be written", transactional_id, exc_info=error)

        self._core.slices.run(ForEach(range(0, len(partitions), _MARKERS_PER_STEP), write), done, failed)

    def _end_completing(self, transaction: Transaction, left: frozenset[TopicPartition]) -> None:
        """Note that a transaction is complete, or what is left of it."""
        if left or self.store.save(transaction.completed(self._core.clock.now_ms())):
            # Only in memory: a restart writes all markers again, and a marker that ends nothing does no harm.
            self.store.keep(transaction._replace(partitions=left))
            self._delayed.add(transaction.transactional_id)
            if self._timer is None and not self._closed:
                self._timer = self._core.clock.call_later(_RETRY_MS, self._retry)
        else:
            self._delayed.discard(transaction.transactional_id)

    def _write_marker(self, transaction: Transaction, partition: TopicPartition) -> bool:
        """Write one; false when it has to be tried again."""
        marker = Marker(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            commit=transaction.state is TransactionState.PREPARE_COMMIT,
            transaction_version=transaction.client_version,
            coordinator_epoch=self.store.log.epoch_of(transaction.transactional_id),
        )
        error = write_marker(self._core, *partition, marker)
        # A deleted topic or a fenced epoch must not keep the transaction, and its producer, waiting for ever.
        if not error or error in _GONE:
            return True
        if transaction.transactional_id not in self._delayed:  # said once, not at every try
            _logger.error("%s-%d: no marker for %s yet: %s", *partition, transaction.transactional_id, error.meaning)
        return False

    def _retry(self) -> None:
        self._timer = None
        self._complete_prepared(self.store.all())

    def _on_loaded(self, index: int) -> None:
        self._complete_prepared(self.store.in_partition(index))

    def _complete_prepared(self, transactions: Collection[Transaction]) -> None:
        # A kill between the decision and the completion leaves a prepared transaction. All its markers are written
        # again, as by Kafka: the log does not say which of them were written.
        for transaction in transactions:
            if transaction.state.is_prepared:
                self._complete(transaction)

    # What time does

    def _abort_timed_out(self) -> Iterator[None]:
        self.store.load_failed()  # no other request loads what a producer that never comes back has left there
        now_ms = self._core.clock.now_ms()
        return steps_of(ForEach([each for each in self.store.all() if each.is_timed_out(now_ms)], self._time_out))

    def _time_out(self, transaction: Transaction) -> None:
        if self.store.get(transaction.transactional_id) is transaction:  # else the producer has ended it meanwhile
            _logger.info("transactional id %s: its transaction has timed out", transaction.transactional_id)
            self._fence(transaction)

    def _remove_expired(self) -> Iterator[None]:
        latest_ms = self._core.clock.now_ms() - self._expiration_ms
        expired = [each for each in self.store.all() if each.state.may_expire and each.updated_ms <= latest_ms]
        return steps_of(self.store.remove(expired))


def _may_go_on(transaction: Transaction, expected: ProducerIdAndEpoch | None) -> bool:
    """Whether a producer may continue with the id that it names; its epoch is checked later.

    A new transactional id takes whatever is named. The id before the current one may be named by a producer that has
    used up its epochs, and has not seen the answer with the new id.
    """
    return (
        expected is None
        or transaction.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == transaction.producer_id
        or (expected.producer_id == transaction.last_producer_id and is_exhausted(expected.producer_epoch))
    )
