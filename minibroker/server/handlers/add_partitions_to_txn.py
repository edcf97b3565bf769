"""AddPartitionsToTxn: partitions that a transaction is going to write to; the first of them opens it (KIP-98).

Versions 0-5. Up to version 3 a client names the partitions of one transaction; from version 4 on a broker names those
of several. With `verify_only` it asks whether they are in the transaction (KIP-890): TRANSACTION_ABORTABLE when they
are not. All partitions of a transaction have one outcome. The exception is an unknown one (UNKNOWN_TOPIC_OR_PARTITION):
then the others are OPERATION_NOT_ATTEMPTED. Clients may not name internal topics (TOPIC_AUTHORIZATION_FAILED, as in
Kafka without authorizer). PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 2.
"""

from collections.abc import Iterable
from typing import Final

from minibroker.cluster.logs.error_mapping import as_producers_know_it
from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.transactions.transaction import RAISES_EPOCHS
from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.declarations import topics_at
from minibroker.server.requests.requirements import asked_by_handler, checked, missing
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
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
    """Serve each transaction by itself: each appends a record."""
    if call.api_version >= _FIRST_OF_BROKERS:
        results: list[AddPartitionsToTxnResult] = []
        for transaction in request.transactions:
            outcomes = _outcomes(transaction, call)
            results.append(
                AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=outcomes)
            )
            yield
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_outcomes(transaction, call))


def _outcomes(transaction: AddPartitionsToTxnTransaction, call: Call) -> list[AddPartitionsToTxnTopicResult]:
    partitions: list[TopicPartition] = []
    refused: dict[TopicPartition, ErrorCode] = {}
    for topic in transaction.topics:
        named = [(topic.name, index) for index in topic.partitions]
        partitions += named
        refused |= _refused(topic.name, named, call)
    if refused:
        return _topics(
            (each, refused.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED)) for each in dict.fromkeys(partitions)
        )
    coordinator = call.services.transactions
    producer = transaction.transactional_id, transaction.producer_id, transaction.producer_epoch
    if transaction.verify_only:
        known = coordinator.find(*producer, call.node)
        return _topics(
            (each, known if isinstance(known, ErrorCode) else known.membership_error(each))
            for each in dict.fromkeys(partitions)
        )
    # Only brokers send these versions, for producers that know of epochs which are raised.
    version = RAISES_EPOCHS if call.api_version >= _FIRST_OF_BROKERS else 0
    added = coordinator.add_partitions(*producer, partitions, node=call.node, client_version=version)
    error = as_producers_know_it(added, call.api_version)
    return _topics((each, error) for each in partitions)  # A partition named twice has two results.


def _refused(name: str, partitions: list[TopicPartition], call: Call) -> dict[TopicPartition, ErrorCode]:
    """Return the partitions of a topic that do not exist or may not be written to."""
    topic = call.core.topics.get(name)
    if call.api_version < _FIRST_OF_BROKERS and (
        (topic is not None and topic.is_internal) or not call.allows(Operation.WRITE, ResourceType.TOPIC, name)
    ):
        return dict.fromkeys(partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    unknown = (each for each in partitions if topic is None or topic.partition(each[1]) is None)
    return dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _topics(outcomes: Iterable[tuple[TopicPartition, ErrorCode]]) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (name, index), error in outcomes:
        if name not in topics:
            topics[name] = AddPartitionsToTxnTopicResult(name=name, results_by_partition=[])
        topics[name].results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
        )
    return list(topics.values())
