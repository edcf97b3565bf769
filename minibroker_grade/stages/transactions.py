"""Stage 10: idempotent producers and transactions."""

from typing import Any, Final

from minibroker_grade.check import Stage
from minibroker_grade.groups import (
    STARTING_ERRORS,
    TRANSACTION,
    code_text,
    fetch_committed,
    new_group,
    wait_for_coordinator,
)
from minibroker_grade.records import (
    FETCHED,
    LATEST,
    PRODUCE_ERROR,
    RECORDS,
    batches_in,
    check_end,
    check_produced,
    check_values,
    fetch,
    list_offsets,
    new_records,
    produce,
    records_in,
    send,
    topic_with,
    values_of,
)
from minibroker_grade.subject import Subject, field_text
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from minibroker_protocol.records.builder import build_batch

STAGE: Final = Stage("transactions", "10 Transactions", "Retries create no duplicates, and transactions are atomic.")
_OFFSET: Final = 11
"""The offset that transactions commit for a group."""
_BUSY_ERRORS: Final = {*STARTING_ERRORS, ErrorCode.CONCURRENT_TRANSACTIONS}


def _init_producer_id(b: Subject, transactional_id: str | None = None, timeout: int = 60000) -> Any:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout)
    return b.until(
        lambda: b.ask(request), lambda answer: answer.error_code not in _BUSY_ERRORS, "a producer id", code_text
    )


def _produce_as(b: Subject, topic: str, sequence: int, *values: str, producer: int, epoch: int = 0) -> Any:
    return produce(b, topic, *values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


class _Transaction:
    """A transactional producer with one topic. If values are given, it starts a transaction and sends them."""

    def __init__(self, b: Subject, topic: str, *values: str) -> None:
        self.b = b
        self.topic = topic
        self.name = b.name("tx")
        wait_for_coordinator(b, self.name, TRANSACTION)
        answer = _init_producer_id(b, self.name)
        b.same(answer, "error_code", 0, "a producer to work with")
        self.producer: int = answer.producer_id
        self.epoch: int = answer.producer_epoch
        self._sequence = 0
        if values:
            b.equal(_read_added_error(self.add()), 0, "error of AddPartitionsToTxn", b.exchanges[-1].response)
            b.same(self.send(*values), PRODUCE_ERROR, 0, "records to work with")

    def add(self, partition: int = 0) -> Any:
        """Send AddPartitionsToTxn and return the response, retrying until the previous transaction has ended."""
        topics = [AddPartitionsToTxnTopic(name=self.topic, partitions=[partition])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        return self.b.until(
            lambda: self.b.ask(request),
            lambda answer: _read_added_error(answer) not in _BUSY_ERRORS,
            "a partition in the transaction",
            lambda answer: field_text("error_code", _read_added_error(answer)),
        )

    def send(self, *values: str) -> Any:
        """Produce a batch in the transaction and return the response."""
        batch = build_batch(
            new_records(*values),
            producer_id=self.producer,
            producer_epoch=self.epoch,
            base_sequence=self._sequence,
            is_transactional=True,
        )
        self._sequence += len(values)
        return send(self.b, self.topic, batch, transactional_id=self.name)

    def end(self, *, commit: bool) -> Any:
        """Send EndTxn and return the response."""
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer, producer_epoch=self.epoch, committed=commit
        )
        return self.b.ask(request)

    def end_and_wait(self, *, commit: bool) -> None:
        """End the transaction and wait for its marker."""
        self.b.same(self.end(commit=commit), "error_code", 0)
        self.b.until(
            lambda: fetch(self.b, self.topic),
            lambda answer: (
                answer.responses[0].partitions[0].last_stable_offset == answer.responses[0].partitions[0].high_watermark
            ),
            "a last stable offset at the end of the log",
            lambda answer: field_text("last_stable_offset", answer.responses[0].partitions[0].last_stable_offset),
        )


def _read_added_error(answer: Any) -> int:
    code: int = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    return code


@STAGE.check("KIP-98, ProducerIdManager.generateProducerId", look="Assign a unique id to each producer, with epoch 0.")
def producers_get_ids(b: Subject) -> None:
    """InitProducerId without a transactional id returns a new id each time."""
    first, second = _init_producer_id(b), _init_producer_id(b)
    b.same(first, "error_code", 0)
    b.same(first, "producer_epoch", 0)
    b.holds(first.producer_id >= 0, "0 or more", first, "producer_id")
    b.holds(second.producer_id != first.producer_id, f"another id than {first.producer_id}", second, "producer_id")


@STAGE.check(
    "KIP-98, ProducerStateEntry.findDuplicateBatch",
    look="Remember the last five batches of each producer, and return their offsets for a repeated batch.",
)
def a_repeated_batch_is_not_written_twice(b: Subject) -> None:
    """A producer whose response was lost resends the batch. It gets the same offset, and the log has only one copy."""
    topic, producer = b.topic(), _init_producer_id(b).producer_id
    check_produced(b, _produce_as(b, topic, 0, "a", "b", producer=producer), 0)
    check_produced(b, _produce_as(b, topic, 0, "a", "b", producer=producer), 0)
    check_end(b, topic, 2)


@STAGE.check(
    "KIP-98, ProducerStateEntry.findDuplicateBatch",
    look="Remember five batches, because a producer can have five requests in flight.",
)
def the_fifth_batch_before_is_remembered(b: Subject) -> None:
    """Five batches can be in flight, so the broker must still recognize the oldest of the last five."""
    topic, producer = b.topic(), _init_producer_id(b).producer_id
    for sequence in range(5):
        _produce_as(b, topic, sequence, "x", producer=producer)
    check_produced(b, _produce_as(b, topic, 0, "x", producer=producer), 0)
    check_end(b, topic, 5)


@STAGE.check("KIP-98, ProducerAppendInfo.checkSequence", look="Require the sequence to follow the last one.")
def a_gap_in_the_sequence_has_error_45(b: Subject) -> None:
    """A batch after a missing one is rejected with OUT_OF_ORDER_SEQUENCE_NUMBER."""
    topic, producer = b.topic(), _init_producer_id(b).producer_id
    _produce_as(b, topic, 0, "a", producer=producer)
    b.same(_produce_as(b, topic, 5, "b", producer=producer), PRODUCE_ERROR, 45)
    check_end(b, topic, 1)


@STAGE.check(
    "KIP-98, ProducerAppendInfo.checkProducerEpoch", look="Reject an epoch below that of the producer's last batch."
)
def an_old_epoch_has_error_47(b: Subject) -> None:
    """INVALID_PRODUCER_EPOCH fences a producer that has been replaced by another."""
    topic, producer = b.topic(), _init_producer_id(b).producer_id
    _produce_as(b, topic, 0, "a", producer=producer, epoch=1)
    b.same(_produce_as(b, topic, 1, "b", producer=producer, epoch=0), PRODUCE_ERROR, 47)


@STAGE.check("KIP-98, ProducerStateManager", look="Track sequence numbers for each partition.")
def sequences_count_for_each_partition(b: Subject) -> None:
    """A producer has separate sequence numbers for each partition, starting at 0."""
    topic, producer = b.topic(2), _init_producer_id(b).producer_id
    for partition in range(2):
        batch = build_batch(new_records("a"), producer_id=producer, producer_epoch=0, base_sequence=0)
        check_produced(b, send(b, topic, batch, partition=partition), 0)


@STAGE.check(
    "KIP-98, TransactionCoordinator.prepareInitProducerIdTransit",
    look="Increment the epoch with each InitProducerId of the same transactional id.",
)
def the_next_producer_of_an_id_has_a_higher_epoch(b: Subject) -> None:
    """The transactional id keeps its producer id and gets the next epoch, which fences the previous producer."""
    first = _Transaction(b, b.topic())
    answer = _init_producer_id(b, first.name)
    b.same(answer, "producer_id", first.producer)
    b.holds(answer.producer_epoch > first.epoch, f"more than {first.epoch}", answer, "producer_epoch")


@STAGE.check(
    "KIP-98, TransactionCoordinator.endTransaction", look="Reject requests with the previous producer's epoch."
)
def a_fenced_producer_cannot_end_its_transaction(b: Subject) -> None:
    """After another InitProducerId, the old producer gets INVALID_PRODUCER_EPOCH or PRODUCER_FENCED."""
    first = _Transaction(b, b.topic(), "a")
    _init_producer_id(b, first.name)
    answer = first.end(commit=True)
    b.holds(answer.error_code in {47, 90}, "47 INVALID_PRODUCER_EPOCH or 90 PRODUCER_FENCED", answer, "error_code")


@STAGE.check(
    "TransactionStateManager.validateTransactionTimeoutMs, transaction.max.timeout.ms",
    look="Reject a timeout above transaction.max.timeout.ms.",
)
def a_timeout_that_is_too_long_has_error_50(b: Subject) -> None:
    """A timeout of several weeks is rejected with INVALID_TRANSACTION_TIMEOUT."""
    name = b.name("tx")
    wait_for_coordinator(b, name, TRANSACTION)
    b.same(_init_producer_id(b, name, timeout=2_000_000_000), "error_code", 50)


@STAGE.check(
    "KIP-98, UnifiedLog.fetchLastStableOffsetMetadata", look="For read_committed, stop at the last stable offset."
)
def open_transactions_are_hidden(b: Subject) -> None:
    """A read_committed consumer gets no records at or after the first offset of an open transaction."""
    topic = topic_with(b, "before")
    _Transaction(b, topic, "open")
    answer = fetch(b, topic, committed=True)
    b.same(answer, f"{FETCHED}.last_stable_offset", 1)
    check_values(b, answer, ["before"])
    answer = fetch(b, topic)
    b.equal(values_of(records_in(answer)), ["before", "open"], "the values uncommitted", answer, RECORDS)


@STAGE.check(
    "KIP-98, TransactionMarkerChannelManager",
    look="Write a commit marker to each partition, and advance the last stable offset.",
)
def a_commit_shows_the_records(b: Subject) -> None:
    """After the commit the records are visible, and a marker takes the next offset."""
    topic = b.topic()
    transaction = _Transaction(b, topic, "a", "b")
    transaction.end_and_wait(commit=True)
    answer = fetch(b, topic, committed=True)
    check_values(b, answer, ["a", "b"])
    b.same(answer, f"{FETCHED}.high_watermark", 3, "two records and a marker")


@STAGE.check(
    "KIP-98, EndTransactionMarker, ControlRecordType", look="Write a control batch: key version 0, type 1 for commit."
)
def a_marker_is_a_control_batch(b: Subject) -> None:
    """The marker is a transactional control batch with one record, whose key has version 0 and type 1."""
    topic = b.topic()
    transaction = _Transaction(b, topic, "a")
    transaction.end_and_wait(commit=True)
    answer = fetch(b, topic)
    marker = batches_in(answer)[-1]
    b.holds(marker.header.is_control and marker.header.is_transactional, "a control batch", answer, RECORDS)
    b.equal([bytes(record.key or b"") for record in marker], [b"\0\0\0\1"], "the key", answer, RECORDS)
    b.equal(marker.header.producer_id, transaction.producer, "the producer's id", answer, RECORDS)


def _check_aborted(b: Subject, topic: str, transactions: list[tuple[int, int]]) -> None:
    """Check the producer ids and first offsets of the aborted transactions in a Fetch response."""
    answer = fetch(b, topic, committed=True)
    aborted: list[Any] = answer.responses[0].partitions[0].aborted_transactions or []
    actual = [(entry.producer_id, entry.first_offset) for entry in aborted]
    b.equal(actual, transactions, "the aborted transactions", answer, f"{FETCHED}.aborted_transactions")


@STAGE.check(
    "KIP-98, UnifiedLog.collectAbortedTransactions",
    look="Keep an index of aborted transactions, and return them for read_committed.",
)
def an_abort_is_told_to_consumers(b: Subject) -> None:
    """Aborted records stay in the log. Fetch returns the producer id and first offset, and consumers skip them."""
    topic = topic_with(b, "before")
    transaction = _Transaction(b, topic, "lost")
    transaction.end_and_wait(commit=False)
    _check_aborted(b, topic, [(transaction.producer, 1)])


@STAGE.check(
    "KIP-98, UnifiedLog.collectAbortedTransactions", look="Return only aborted transactions, not committed ones."
)
def a_commit_is_not_told_as_aborted(b: Subject) -> None:
    """Fetch does not list a committed transaction among the aborted ones."""
    topic = b.topic()
    transaction = _Transaction(b, topic, "a")
    transaction.end_and_wait(commit=True)
    _check_aborted(b, topic, [])


@STAGE.check(
    "KIP-98, Partition.fetchOffsetForTimestamp", look="Return the last stable offset in ListOffsets for read_committed."
)
def the_end_for_read_committed_is_the_last_stable_offset(b: Subject) -> None:
    """For read_committed, the end is the first offset of the earliest open transaction."""
    topic = topic_with(b, "before")
    _Transaction(b, topic, "open")
    b.same(list_offsets(b, topic, LATEST, committed=True), "topics[0].partitions[0].offset", 1)
    check_end(b, topic, 2)


@STAGE.check("TransactionCoordinator.endTransaction", look="Return INVALID_TXN_STATE if no transaction has begun.")
def a_repeated_end_has_the_same_outcome(b: Subject) -> None:
    """A repeated commit returns 0, and an abort after the commit returns INVALID_TXN_STATE."""
    transaction = _Transaction(b, b.topic(), "a")
    transaction.end_and_wait(commit=True)
    b.until(
        lambda: transaction.end(commit=True), lambda answer: answer.error_code == 0, "0 for the same end", code_text
    )
    b.same(transaction.end(commit=False), "error_code", 48)


@STAGE.check(
    "TransactionCoordinator.handleAddPartitionsToTransaction",
    look="Reject a producer id that does not belong to the transactional id.",
)
def a_foreign_producer_id_has_error_49(b: Subject) -> None:
    """A producer id that belongs to another transactional id is rejected with INVALID_PRODUCER_ID_MAPPING."""
    transaction = _Transaction(b, b.topic())
    transaction.producer += 100000
    answer = transaction.add()
    path = "results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code"
    b.same(answer, path, 49)


def _begin_with_offset(b: Subject, topic: str, group: str) -> _Transaction:
    """Start a transaction with a record and a committed offset of the group."""
    transaction = _Transaction(b, topic, "a")
    request = AddOffsetsToTxnRequest(
        transactional_id=transaction.name,
        producer_id=transaction.producer,
        producer_epoch=transaction.epoch,
        group_id=group,
    )
    b.same(b.ask(request), "error_code", 0)
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=_OFFSET, committed_metadata="")
    commit = TxnOffsetCommitRequest(
        transactional_id=transaction.name,
        group_id=group,
        producer_id=transaction.producer,
        producer_epoch=transaction.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    b.same(b.ask(commit), "topics[0].partitions[0].error_code", 0)
    return transaction


@STAGE.check("KIP-98, OffsetMetadataManager.replayEndTransactionMarker", look="Hold the offsets back until the marker.")
def offsets_of_a_transaction_count_with_its_commit(b: Subject) -> None:
    """Offsets sent in a transaction are invisible until the transaction is committed."""
    topic, group = b.topic(), new_group(b)
    transaction = _begin_with_offset(b, topic, group)
    b.same(fetch_committed(b, group, topic), "topics[0].partitions[0].committed_offset", -1)
    b.same(transaction.end(commit=True), "error_code", 0)
    b.until(
        lambda: fetch_committed(b, group, topic),
        lambda answer: answer.topics[0].partitions[0].committed_offset == _OFFSET,
        f"{_OFFSET} as the committed offset",
        lambda answer: f"{answer.topics[0].partitions[0].committed_offset} as the committed offset",
    )


@STAGE.check(
    "KIP-447, OffsetMetadataManager.hasPendingTransactionalOffsets",
    look="Return UNSTABLE_OFFSET_COMMIT for require_stable while offsets are pending.",
)
def pending_offsets_are_unstable(b: Subject) -> None:
    """A consumer that requires stable offsets waits until the transaction with the newer offsets has ended."""
    topic, group = b.topic(), new_group(b)
    _begin_with_offset(b, topic, group)
    b.same(fetch_committed(b, group, topic, stable=True), "topics[0].partitions[0].error_code", 88)


@STAGE.check(
    "KIP-98, OffsetMetadataManager.replayEndTransactionMarker",
    look="Discard the pending offsets of an aborted transaction.",
)
def offsets_of_an_aborted_transaction_are_dropped(b: Subject) -> None:
    """After an abort, the group has the same offsets as before the transaction."""
    topic, group = b.topic(), new_group(b)
    transaction = _begin_with_offset(b, topic, group)
    transaction.end_and_wait(commit=False)
    b.until(
        lambda: fetch_committed(b, group, topic, stable=True),
        lambda answer: answer.topics[0].partitions[0].error_code == 0,
        "0 NONE: no pending offsets",
        lambda answer: field_text("partitions[0].error_code", answer.topics[0].partitions[0].error_code),
    )
    b.same(fetch_committed(b, group, topic), "topics[0].partitions[0].committed_offset", -1)
