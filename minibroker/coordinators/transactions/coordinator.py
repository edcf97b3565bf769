"""The transaction coordinator: requests of transactional producers (Kafka's `TransactionCoordinator`).

Every step is written to `__transaction_state` before it counts. Everything is written when a call returns; so are the
markers of a transaction that ends, unless there are many. A producer meets CONCURRENT_TRANSACTIONS in three cases only:
Kafka asks for a second try on purpose (InitProducerId over an open transaction), many markers are being written, or the
disk has refused a marker.
"""

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Final, NamedTuple

from minibroker.clock import Timer
from minibroker.cluster.features import TRANSACTION_VERSION
from minibroker.cluster.node import Node
from minibroker.coordinators.transactions.markers import Marker, write_marker
from minibroker.coordinators.transactions.store import TransactionStore
from minibroker.coordinators.transactions.transaction import (
    NO_TIMEOUT_MS,
    RAISES_EPOCHS,
    Transaction,
    TransactionState,
    is_exhausted,
    is_last_retry,
)
from minibroker.coordinators.transactions.verification import WriteVerifier
from minibroker.core import Core
from minibroker.support.slices import Steps, Work
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from minibroker_storage.data_directory.names import TopicPartition

_RETRY_MS: Final = 500
"""The pause before a marker is written again after the disk failed or its partition had no leader."""
_STEP: Final = 1000
_MARKERS_AT_ONCE: Final = 50
"""The markers that are written before EndTxn is answered."""
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


class InitProducerIdResult(NamedTuple):
    """The producer id and epoch that a producer writes under from now on, or the error."""

    error_code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class EndTxnResult(NamedTuple):
    """The producer id and epoch of the producer's next transaction, or the error that keeps this one from ending."""

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
        self._completing: set[str] = set()
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
    ) -> InitProducerIdResult:
        """Make a producer the only one of its transactional id (KIP-98, KIP-360).

        `expected` is what it has written under so far; `never_ends` takes the place of the timeout. INVALID_REQUEST,
        INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED; CONCURRENT_TRANSACTIONS after an open transaction was aborted,
        or while one is being ended.
        """
        if not transactional_id:
            return InitProducerIdResult(ErrorCode.INVALID_REQUEST)
        if never_ends:
            timeout_ms = NO_TIMEOUT_MS
        elif not 0 < timeout_ms <= self._max_timeout_ms:
            return InitProducerIdResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        # The id may be another node's, or its partition may still be loading: decide nothing on half of the log.
        error = self.store.readiness(transactional_id, node)
        if error:
            return InitProducerIdResult(error)
        try:
            begun = self._begun(transactional_id, timeout_ms, expected)
        except OSError:
            begun = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if isinstance(begun, ErrorCode):
            return InitProducerIdResult(begun)
        return InitProducerIdResult(ErrorCode.NONE, begun.producer_id, begun.producer_epoch)

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
        transaction = self._of_producer(transactional_id, producer_id, producer_epoch, node)
        if isinstance(transaction, ErrorCode):
            return transaction
        if transaction.state.is_prepared:
            return ErrorCode.CONCURRENT_TRANSACTIONS
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
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic: str,
        partition: int,
        *,
        node: Node | None = None,
    ) -> ErrorCode:
        """Whether a partition is in the producer's open transaction (KIP-890); TRANSACTION_ABORTABLE when it is not.

        Else the errors of `add_partitions`.
        """
        transaction = self._of_producer(transactional_id, producer_id, producer_epoch, node)
        if isinstance(transaction, ErrorCode):
            return transaction
        if transaction.state.is_prepared:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return ErrorCode.NONE if (topic, partition) in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        node: Node | None = None,
    ) -> ErrorCode:
        """Commit the transaction, or abort it; its markers are written when this returns NONE.

        INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE when none is open, or it has
        ended the other way; CONCURRENT_TRANSACTIONS while a marker could not be written.
        """
        transaction = self._of_producer(transactional_id, producer_id, producer_epoch, node)
        if isinstance(transaction, ErrorCode):
            return transaction
        if transaction.state is TransactionState.ONGOING:
            return self._end(transaction, commit=commit)
        prepared, completed = (
            (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
            if commit
            else (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
        )
        # The same request again, while its markers are being written: the client retries.
        if transaction.state is prepared:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return ErrorCode.NONE if transaction.state is completed else ErrorCode.INVALID_TXN_STATE

    def end_with_next_epoch(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool, node: Node | None = None
    ) -> EndTxnResult:
        """As `end`, and the producer goes on in the next epoch (KIP-890); repeated, it gets the same response.

        A transaction to which nothing was written may be aborted, too, which also raises the epoch.
        """
        if not transactional_id:
            return EndTxnResult(ErrorCode.INVALID_REQUEST)
        error = self.store.readiness(transactional_id, node)
        known = None if error else self.store.get(transactional_id)
        if known is None or self._was_lost(known):
            return EndTxnResult(error or ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        # The answer was lost: the end has raised the epoch already, and the producer does not know it.
        is_retry = known.producer_epoch == producer_epoch + 1
        if is_last_retry(known, producer_id, producer_epoch):
            is_retry = True
        elif known.producer_id != producer_id:
            return EndTxnResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        error = _what_is_against_end(
            known.state, commit=commit, is_retry=is_retry, is_current=known.producer_epoch == producer_epoch
        )
        if error:
            return EndTxnResult(error)
        if not is_retry:
            ended = self._end_with_next_epoch(known, commit=commit)
            if isinstance(ended, ErrorCode):
                return EndTxnResult(ended)
            known = ended
        return EndTxnResult(ErrorCode.NONE, known.producer_id, known.producer_epoch)

    def _of_producer(
        self, transactional_id: str, producer_id: int, producer_epoch: int, node: Node | None
    ) -> Transaction | ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        error = self.store.readiness(transactional_id, node)
        if error:
            return error
        transaction = self.store.get(transactional_id)
        if transaction is not None and transaction.next_producer_id == producer_id >= 0:
            return ErrorCode.CONCURRENT_TRANSACTIONS  # the id counts once the markers are written
        if transaction is None or transaction.producer_id != producer_id or self._was_lost(transaction):
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        # A newer producer of the same id has come: this one is a zombie (KIP-98).
        return transaction if transaction.producer_epoch == producer_epoch else ErrorCode.PRODUCER_FENCED

    def _is_restored(self, transaction: Transaction) -> bool:
        """Return whether a restore brought this state back, and no producer has asked for its id since."""
        return transaction.producer_id < self._core.topics.first_valid_producer_id

    def _was_lost(self, transaction: Transaction) -> bool:
        """Return whether the producer may have a transaction that a restore has removed, with all its records.

        A transaction that was open in the snapshot is still there, and can be ended.
        """
        return self._is_restored(transaction) and transaction.state is not TransactionState.ONGOING

    # How transactions end

    def _end(self, transaction: Transaction, *, commit: bool) -> ErrorCode:
        prepared = transaction.prepared(self._core.clock.now_ms(), commit=commit)
        # The point of no return: from this record on the transaction ends this way, whatever dies.
        error = self.store.save(prepared)
        if not error:
            self._complete(prepared)
        return error

    def _end_with_next_epoch(self, transaction: Transaction, *, commit: bool) -> Transaction | ErrorCode:
        """The transaction as it is when all markers are written, or why it does not end."""
        now_ms = self._core.clock.now_ms()
        next_id = NO_PRODUCER_ID
        if transaction.has_no_epoch_left:
            try:
                # Fetched before the decision is written: if there is none, the transaction stays open, and nothing is
                # half done.
                next_id = self._core.producer_ids.next()
            except OSError:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
        prepared = transaction.prepared_with_next_epoch(now_ms, commit=commit, next_producer_id=next_id)
        error = self.store.save(prepared)
        if error:
            return error
        self._complete(prepared)
        return prepared.completed(now_ms)

    def _fence(self, transaction: Transaction) -> ErrorCode:
        """Abort an open transaction in an epoch of the coordinator's own: its producer cannot go on."""
        if self._raises_epochs:
            ended = self._end_with_next_epoch(transaction, commit=False)
            return ended if isinstance(ended, ErrorCode) else ErrorCode.NONE
        # With the raised epoch in its marker, the log itself refuses what the fenced producer still sends.
        return self._end(transaction.fenced(), commit=False)

    def _complete(self, transaction: Transaction) -> None:
        """Write the markers of a transaction whose end is decided. What the disk refuses is tried again later.

        Where there are many the rest is written in slices. Until then the transaction is prepared, as in Kafka, whose
        coordinator sends markers when it has answered.
        """
        # A few markers take less time than another turn of the event loop, and the client need not ask twice.
        if len(transaction.partitions) <= _MARKERS_AT_ONCE:
            left = [each for each in transaction.partitions if not self._write_marker(transaction, each)]
            self._end_completing(transaction, frozenset(left))
        elif transaction.transactional_id not in self._completing:
            self._completing.add(transaction.transactional_id)
            completing = self._core.slices.begin(self._complete_in_slices(transaction))
            if isinstance(completing, Work):
                completing.then(lambda _: None, partial(self._completing_failed, transaction))

    def _complete_in_slices(self, transaction: Transaction) -> Steps[None]:
        known = self.store.get(transaction.transactional_id)
        left: list[TopicPartition] = []
        for each in transaction.partitions:
            # A transaction is a value: any step since has put another object in its place.
            if self._closed or self.store.get(transaction.transactional_id) is not known:
                self._completing.discard(transaction.transactional_id)
                return  # another node coordinates it, or everything is forgotten
            if not self._write_marker(transaction, each):
                left.append(each)
            yield
        self._completing.discard(transaction.transactional_id)
        if self.store.get(transaction.transactional_id) is known:
            self._end_completing(transaction, frozenset(left))

    def _completing_failed(self, transaction: Transaction, error: Exception) -> None:
        self._completing.discard(transaction.transactional_id)
        _logger.error("The markers of %s could not be written", transaction.transactional_id, exc_info=error)

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

    def _abort_timed_out(self) -> Steps[None]:
        self.store.load_failed()  # no other request loads what a producer that never comes back has left there
        yield from self._take(lambda known, now_ms: known.is_timed_out(now_ms), self._abort)

    def _abort(self, transaction: Transaction) -> None:
        _logger.info("transactional id %s: its transaction has timed out", transaction.transactional_id)
        self._fence(transaction)

    def _take(self, is_due: Callable[[Transaction, int], bool], act: Callable[[Transaction], None]) -> Steps[None]:
        now_ms = self._core.clock.now_ms()
        for number, transaction in enumerate(self.store.all(), 1):
            # `all` was taken some steps ago: the producer may have gone on since.
            if is_due(transaction, now_ms) and self.store.get(transaction.transactional_id) is transaction:
                act(transaction)
                yield
            elif not number % _STEP:
                yield

    def _remove_expired(self) -> Steps[None]:
        now_ms = self._core.clock.now_ms()
        yield from self.store.remove(
            [
                known
                for known in self.store.all()
                if known.state.may_expire and known.updated_ms <= now_ms - self._expiration_ms
            ]
        )


_ENDS: Final = {
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.COMPLETE_ABORT: False,
}
"""Which states commit."""


def _what_is_against_end(state: TransactionState, *, commit: bool, is_retry: bool, is_current: bool) -> ErrorCode:
    """Whether a transaction may end in the next epoch (the table in Kafka's `TransactionCoordinator.endTransaction`).

    `is_retry` says that the producer names the epoch before the current one, which the end has raised, and `is_current`
    that it names the current one.
    """
    same_end = _ENDS.get(state) is commit
    if state.is_prepared:
        if not is_retry:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.CONCURRENT_TRANSACTIONS if same_end else ErrorCode.INVALID_TXN_STATE
    if state in {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT} and is_retry:
        return ErrorCode.NONE if same_end else ErrorCode.INVALID_TXN_STATE
    if not is_current:
        return ErrorCode.PRODUCER_FENCED
    may_end = state is TransactionState.ONGOING or not commit  # without anything written there is nothing to commit
    return ErrorCode.NONE if may_end else ErrorCode.INVALID_TXN_STATE


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
