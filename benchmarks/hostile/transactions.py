"""Requests of transactional producers, and of clients that describe transactions."""

import time
from collections.abc import Callable
from typing import Any

from benchmarks.hostile.case import Ask, Attack, Cases, Target, sent
from benchmarks.wire import WireError
from minibroker_protocol.messages.describe_transactions import DescribeTransactionsRequest, ListTransactionsRequest
from minibroker_protocol.messages.groups import FindCoordinatorRequest
from minibroker_protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

_CASES = Cases()
case = _CASES.case
_NOT_YET = (3, 14, 15, 16, 51)
"""The topic or the coordinator does not exist yet, is loading, or is busy with the previous request."""
_PATIENCE_S = 120
_EXPRESSION = "(?:.?){1000}" * 9


def _begin(name: str | None) -> Ask:
    return Ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4)


def _producer(target: Target, name: str) -> InitProducerIdResponse:
    """Return the response to InitProducerId for a transactional id.

    Kafka creates the topic of its transactions when a client looks for their coordinator. If that fails, only another
    lookup retries, so each attempt begins with one.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        target.ask(FindCoordinatorRequest(key=name, key_type=1), 3)
        ask = _begin(name)
        response: InitProducerIdResponse = target.ask(ask.request, ask.version)
        if response.error_code == 0:
            return response
        if response.error_code not in _NOT_YET or time.monotonic() > deadline:
            raise WireError(f"InitProducerId: {response.error_code}")
        time.sleep(0.1)


def _add(name: str, producer: InitProducerIdResponse, topic: str, count: int) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(range(count)))],
    )


@case("5,000 InitProducerId with new transactional ids, pipelined", 5_000)
def init_producer_ids(target: Target, size: int) -> Attack:
    _producer(target, target.tag)
    return Attack(asks=tuple(_begin(name) for name in target.names(size)))


@case("AddPartitionsToTxn of 10,000 unknown partitions", 10_000)
def add_unknown_partitions(target: Target, size: int) -> Attack:
    return sent((_add(target.tag, _producer(target, target.tag), target.tag, size), 3))


@case("AddPartitionsToTxn of 5,000 partitions", 5_000)
def add_partitions(target: Target, size: int) -> Attack:
    return sent((_add(target.tag, _producer(target, target.tag), target.topic(size), size), 3))


@case("EndTxn of 5,000 partitions", 5_000)
def end_transaction(target: Target, size: int) -> Attack:
    producer, topic = _producer(target, target.tag), target.topic(size)
    response = target.ask(_add(target.tag, producer, topic, size), 3)
    if code := response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code:
        raise WireError(f"AddPartitionsToTxn: {code}")
    request = EndTxnRequest(
        transactional_id=target.tag,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=True,
    )
    return sent((request, 3))


def _offsets(target: Target, topic: str, size: int) -> TxnOffsetCommitRequest:
    """Return the TxnOffsetCommit of a new transactional id for the group of the same name."""
    producer = _producer(target, target.tag)
    partitions = [
        TxnOffsetCommitRequestPartition(partition_index=number, committed_offset=1, committed_metadata="")
        for number in range(size)
    ]
    return TxnOffsetCommitRequest(
        transactional_id=target.tag,
        group_id=target.tag,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)],
    )


@case("TxnOffsetCommit of 100,000 unknown partitions", 100_000)
def commit_unknown_offsets(target: Target, size: int) -> Attack:
    return sent((_offsets(target, target.tag, size), 3))


def _commit_in_transaction(target: Target, size: int) -> TxnOffsetCommitRequest:
    """Add a group to a transaction, and return the TxnOffsetCommit for it."""
    request = _offsets(target, target.topic(size), size)
    add = AddOffsetsToTxnRequest(
        transactional_id=target.tag,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        group_id=target.tag,
    )
    _await(target, add, lambda response: response.error_code)
    return request


def _await(target: Target, request: object, code_of: Callable[[Any], int]) -> None:
    """Send a request until the group's coordinator exists. See `_producer`."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        target.ask(FindCoordinatorRequest(key=target.tag, key_type=0), 3)
        code = code_of(target.ask(request, 3))
        if code == 0:
            return
        if code not in _NOT_YET or time.monotonic() > deadline:
            raise WireError(f"{type(request).__name__}: {code}")
        time.sleep(0.1)


@case("TxnOffsetCommit of 9,000 partitions", 9_000)
def commit_offsets(target: Target, size: int) -> Attack:
    return sent((_commit_in_transaction(target, size), 3))


@case("EndTxn with 9,000 offsets", 9_000)
def end_commit(target: Target, size: int) -> Attack:
    request = _commit_in_transaction(target, size)
    _await(target, request, lambda response: response.topics[0].partitions[0].error_code)
    end = EndTxnRequest(
        transactional_id=target.tag,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        committed=True,
    )
    return sent((end, 3))


def _markers(topic: str, producers: int, partitions: int) -> WriteTxnMarkersRequest:
    markers = [
        WritableTxnMarker(
            producer_id=number,
            producer_epoch=0,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=list(range(partitions)))],
            coordinator_epoch=0,
        )
        for number in range(producers)
    ]
    return WriteTxnMarkersRequest(markers=markers)


@case("WriteTxnMarkers for 10,000 producers of one partition", 10_000)
def write_markers(target: Target, size: int) -> Attack:
    return sent((_markers(target.topic(), size, 1), 1))


@case("WriteTxnMarkers for 5,000 partitions", 5_000)
def write_wide_markers(target: Target, size: int) -> Attack:
    return sent((_markers(target.topic(size), 1, size), 1))


@case("ListTransactions v2, a hostile pattern, 20 ids of 200 characters", 20)
def list_by_pattern(target: Target, size: int) -> Attack:
    for name in target.names(size):
        _producer(target, name.ljust(200, "y"))
    request = ListTransactionsRequest(
        state_filters=[], producer_id_filters=[], duration_filter=-1, transactional_id_pattern=_EXPRESSION
    )
    return sent((request, 2))


@case("ListTransactions of 5,000 ids, 10,000 filters", 5_000)
def list_transactions(target: Target, size: int) -> Attack:
    _producer(target, target.tag)
    target.ask_many([_begin(name) for name in target.names(size)])
    filters = list(range(2 * size))
    return sent((ListTransactionsRequest(state_filters=[], producer_id_filters=filters, duration_filter=-1), 1))


@case("DescribeTransactions of 10,000 unknown ids", 10_000)
def describe_transactions(target: Target, size: int) -> Attack:
    _producer(target, target.tag)
    return sent((DescribeTransactionsRequest(transactional_ids=target.names(size)), 0))


CASES = tuple(_CASES.found)
