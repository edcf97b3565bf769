"""Handlers that describe transactions and producers to administrators (KIP-664)."""

from typing import Any

from minibroker.cluster.logs.error_mapping import MAPPED, error_code_of
from minibroker.cluster.routing.routes import RefusedRequestError
from minibroker.cluster.routing.slices import ForEach, Steps, catch_errors, then
from minibroker.cluster.topics import topic_name_error
from minibroker.config.names.regular_expressions import RegularExpression, RegularExpressionError
from minibroker.coordinators.transactions.transaction import STATES_BY_NAME, group_by_topic
from minibroker.security.authorization.acls import Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import handles, topics_at, transactional_ids_at
from minibroker.server.requests.elements import for_each_partition
from minibroker.server.requests.requirements import asked_by_handler, on_each
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.describe_transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
    PartitionResponse,
    ProducerState,
    TopicData,
    TopicResponse,
    TransactionState,
)
from minibroker_storage.log import Log


@handles(
    ApiKey.DESCRIBE_TRANSACTIONS,
    needs=on_each(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
    & asked_by_handler("DESCRIBE on each of its topics, or it is hidden"),
    names=transactional_ids_at("transactional_ids"),
)
def describe_transactions(request: DescribeTransactionsRequest, call: Call) -> ForEach[DescribeTransactionsResponse]:
    """DescribeTransactions: describe the current transaction of each transactional id (KIP-664).

    Version 0 is served. An empty id gets INVALID_REQUEST, and an unknown one gets TRANSACTIONAL_ID_NOT_FOUND.
    """
    return ForEach(
        request.transactional_ids,
        lambda transactional_id: _describe_transaction(transactional_id, call),
        lambda states: DescribeTransactionsResponse(transaction_states=states),
    )


def _describe_transaction(transactional_id: str, call: Call) -> TransactionState:
    store = call.services.transactions.store
    error = store.check_readiness(transactional_id, call.node) if transactional_id else ErrorCode.INVALID_REQUEST
    transaction = None if error else store.get(transactional_id)
    if transaction is None:
        return TransactionState(
            error_code=error or ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
            topics=[],
        )
    return TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=transaction.state.wire_name,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=partitions)
            for topic, partitions in group_by_topic(transaction.partitions).items()
            if call.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic)
        ],
    )


@handles(ApiKey.LIST_TRANSACTIONS, needs=asked_by_handler("DESCRIBE on each transactional id, or it is hidden"))
def list_transactions(request: ListTransactionsRequest, call: Call) -> Steps[ListTransactionsResponse]:
    """ListTransactions: list the transactional ids that the broker coordinates (KIP-664).

    Versions 0-2 are served. Version 1 adds a filter by the duration of transactions (KIP-994). Version 2 adds a
    filter by a regular expression, which must match the whole transactional id (KIP-1152); see
    `minibroker.config.names.regular_expressions`.

    Error codes:

    - INVALID_REGULAR_EXPRESSION: the regular expression is invalid.
    - COORDINATOR_LOAD_IN_PROGRESS: the coordinator has not loaded all transactional ids yet.
    """
    store = call.services.transactions.store
    if store.is_loading:
        raise RefusedRequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    now_ms = call.core.clock.now_ms()
    producer_ids, states = set(request.producer_id_filters), set(request.state_filters)
    transactions = {
        transaction.transactional_id: transaction
        for transaction in store.all()
        if (not producer_ids or transaction.producer_id in producer_ids)
        and (not states or transaction.state.wire_name in states)
        and (request.duration_filter < 0 or now_ms - transaction.start_ms > request.duration_filter)
        and not store.log.coordinator_error(transaction.transactional_id, call.node)
    }

    def match() -> Any:
        pattern = request.transactional_id_pattern
        return RegularExpression(pattern).matching(transactions) if pattern else list(transactions)

    def row(name: str) -> ListedTransaction | None:
        transaction = transactions[name]
        if not call.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name):
            return None
        return ListedTransaction(
            transactional_id=name, producer_id=transaction.producer_id, transaction_state=transaction.state.wire_name
        )

    def conclude(rows: list[ListedTransaction | None]) -> ListTransactionsResponse:
        return ListTransactionsResponse(
            error_code=ErrorCode.NONE,
            unknown_state_filters=[name for name in request.state_filters if name not in STATES_BY_NAME],
            transaction_states=list(filter(None, rows)),
        )

    def rows_of(names: list[str]) -> ForEach[ListTransactionsResponse]:
        return ForEach(names, row, conclude)

    return catch_errors(
        lambda: then(match(), rows_of),
        RegularExpressionError,
        lambda _: ListTransactionsResponse(
            error_code=ErrorCode.INVALID_REGULAR_EXPRESSION, unknown_state_filters=[], transaction_states=[]
        ),
    )


@handles(
    ApiKey.DESCRIBE_PRODUCERS,
    needs=on_each(Operation.READ, ResourceType.TOPIC),
    names=topics_at("topics.name", "partition_indexes"),
)
def describe_producers(request: DescribeProducersRequest, call: Call) -> ForEach[DescribeProducersResponse]:
    """DescribeProducers: describe the active producers of partitions (KIP-664).

    Version 0 is served.

    Error codes:

    - INVALID_TOPIC_EXCEPTION: no topic can have that name.
    - UNKNOWN_TOPIC_OR_PARTITION: the partition does not exist.
    - NOT_LEADER_OR_FOLLOWER: the broker has no replica of the partition.
    """
    return for_each_partition(
        request.topics,
        "partition_indexes",
        lambda topic, index: _describe_partition(topic.name, index, call),
        lambda topic, partitions: TopicResponse(name=topic.name, partitions=partitions),
        lambda topics: DescribeProducersResponse(topics=topics),
    )


def _describe_partition(name: str, index: int, call: Call) -> PartitionResponse:
    reason = topic_name_error(name)
    if reason is not None:
        return _build_error(index, ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    topic = call.core.topics.get(name)
    if topic is None:
        return _build_error(
            index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    partition = topic.partition(index)
    if partition is None:
        return _build_error(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    code = partition.access_error(call.node, leader_only=False)
    if code:
        return _build_error(index, code, None)
    try:
        return PartitionResponse(
            partition_index=index, error_code=ErrorCode.NONE, active_producers=_producer_states(partition.log)
        )
    except MAPPED as error:
        return _build_error(index, error_code_of(error), str(error))


def _producer_states(log: Log) -> list[ProducerState]:
    return [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=entry.producer_epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.current_txn_first_offset,
        )
        for producer_id, entry in log.producers.active.items()
    ]


def _build_error(index: int, code: ErrorCode, message: str | None) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code, error_message=message, active_producers=[])
