"""AddPartitionsToTxn: partitions that a transaction is going to write to; the first of them opens it (KIP-98).

Versions 0-5. Up to version 3 a client names the partitions of one transaction; from version 4 on a broker names those
of several. With `verify_only` it asks whether they are in the transaction (KIP-890): TRANSACTION_ABORTABLE when they
are not. All partitions of a transaction have one outcome. The exception is an unknown one (UNKNOWN_TOPIC_OR_PARTITION):
then the others are OPERATION_NOT_ATTEMPTED. Clients may not name internal topics (TOPIC_AUTHORIZATION_FAILED, as in
Kafka without authorizer). PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 2.
"""

from collections.abc import Iterable
from typing import Final

from minibroker.coordinators.transactions.transaction import RAISES_EPOCHS
from minibroker.logs.error_mapping import as_producers_know_it
from minibroker.requests.call import Call
from minibroker.requests.declarations import topics_at
from minibroker.requests.requirements import asked_by_handler, checked, missing
from minibroker.routing.slices import Steps
from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from minibroker_protocol.schema import first_version
from minibroker_storage.data_directory.names import TopicPartition

_FIRST_OF_BROKERS: Final = first_version(AddPartitionsToTxnRequest, "transactions")


def _right_error(request: AddPartitionsToTxnRequest, call: Call) -> ErrorCode:
    """Clients send it up to version 3, brokers from version 4 on."""
    if call.api_version >= _FIRST_OF_BROKERS:
        return missing(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    transactional_id = request.v3_and_below_transactional_id
    return missing(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


NAMES: Final = topics_at("v3_and_below_topics.name", "partitions") | topics_at("transactions.topics.name", "partitions")
NEEDS: Final = checked(
    _right_error, "WRITE on the transactional id; CLUSTER_ACTION on the cluster from version 4 on"
) & asked_by_handler("WRITE on each topic up to version 3")


def handle(request: AddPartitionsToTxnRequest, call: Call) -> Steps[AddPartitionsToTxnResponse]:
    """Serve each transaction by itself."""
    if call.api_version >= _FIRST_OF_BROKERS:
        results: list[AddPartitionsToTxnResult] = []
        for each in request.transactions:
            topics = yield from _outcomes(each, call)
            results.append(AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=topics))
            yield
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    topics = yield from _outcomes(transaction, call)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def _outcomes(transaction: AddPartitionsToTxnTransaction, call: Call) -> Steps[list[AddPartitionsToTxnTopicResult]]:
    partitions = list(_partitions(transaction.topics))
    refused: dict[TopicPartition, ErrorCode] = {}
    for each in partitions:
        error = _existence_error(each, call)
        if error:
            refused[each] = error
        yield
    if refused:
        once = dict.fromkeys(partitions)
        return (yield from _topics((each, refused.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED)) for each in once))
    coordinator = call.services.transactions
    producer = transaction.transactional_id, transaction.producer_id, transaction.producer_epoch
    if transaction.verify_only:
        verified = ((each, coordinator.verify(*producer, *each, node=call.node)) for each in dict.fromkeys(partitions))
        return (yield from _topics(verified))
    # Only brokers send these versions, for producers that know of epochs which are raised.
    version = RAISES_EPOCHS if call.api_version >= _FIRST_OF_BROKERS else 0
    added = coordinator.add_partitions(*producer, partitions, node=call.node, client_version=version)
    error = as_producers_know_it(added, call.api_version)
    return (yield from _topics((each, error) for each in partitions))  # also of one that is named twice


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> Iterable[TopicPartition]:
    return ((topic.name, partition) for topic in topics for partition in topic.partitions)


def _existence_error(partition: TopicPartition, call: Call) -> ErrorCode:
    name, index = partition
    topic = call.core.topics.get(name)
    if call.api_version < _FIRST_OF_BROKERS and (
        (topic is not None and topic.is_internal) or not call.allows(Operation.WRITE, ResourceType.TOPIC, name)
    ):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic is None or topic.partition(index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _topics(outcomes: Iterable[tuple[TopicPartition, ErrorCode]]) -> Steps[list[AddPartitionsToTxnTopicResult]]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (name, index), error in outcomes:
        if name not in topics:
            topics[name] = AddPartitionsToTxnTopicResult(name=name, results_by_partition=[])
        topics[name].results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
        )
        yield
    return list(topics.values())
