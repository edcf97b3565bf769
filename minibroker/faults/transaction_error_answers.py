"""Answers that say nothing but an error, for the APIs of transactions and their producers: see `error_answers`."""

from typing import Any, Final

from minibroker.faults.declarations import Answering, messages_of
from minibroker_protocol.error_codes import ErrorCode

_FIRST_ADD_PARTITIONS_WITH_TRANSACTIONS: Final = 4


def _init_producer_id(_request: Any, _version: int, code: ErrorCode) -> Any:
    return messages_of("init_producer_id").InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def _added(m: Any, topics: Any, code: ErrorCode) -> list[Any]:
    return [
        m.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                m.AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _add_partitions(request: Any, version: int, code: ErrorCode) -> Any:
    if version >= _FIRST_ADD_PARTITIONS_WITH_TRANSACTIONS:
        return messages_of("add_partitions_to_txn").AddPartitionsToTxnResponse(error_code=code)
    return _add_partitions_parts(request, version, code)


def _add_partitions_parts(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("add_partitions_to_txn")
    return m.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=_added(m, request.v3_and_below_topics, code),
        results_by_transaction=[
            m.AddPartitionsToTxnResult(
                transactional_id=each.transactional_id, topic_results=_added(m, each.topics, code)
            )
            for each in request.transactions
        ],
    )


def _write_markers(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("write_txn_markers")
    return m.WriteTxnMarkersResponse(
        markers=[
            m.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    m.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            m.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _describe_transactions(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("describe_transactions")
    return m.DescribeTransactionsResponse(
        transaction_states=[
            m.TransactionState(
                error_code=code,
                transactional_id=each,
                transaction_state="",
                transaction_timeout_ms=0,
                transaction_start_time_ms=0,
                producer_id=0,
                producer_epoch=0,
                topics=[],
            )
            for each in request.transactional_ids
        ]
    )


def _describe_producers(request: Any, _version: int, code: ErrorCode) -> Any:
    m = messages_of("describe_producers")
    return m.DescribeProducersResponse(
        topics=[
            m.TopicResponse(
                name=topic.name,
                partitions=[
                    m.PartitionResponse(partition_index=index, error_code=code, active_producers=[])
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


TRANSACTION_ANSWERS: Final[dict[str, Answering]] = {
    "InitProducerId": _init_producer_id,
    "AddPartitionsToTxn": _add_partitions,
    "WriteTxnMarkers": _write_markers,
    "DescribeProducers": _describe_producers,
    "DescribeTransactions": _describe_transactions,
}
TRANSACTION_PARTS: Final[dict[str, Answering]] = {"AddPartitionsToTxn": _add_partitions_parts}
