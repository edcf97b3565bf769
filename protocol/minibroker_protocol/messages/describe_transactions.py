"""APIs for administrators to inspect transactions and producers (KIP-664)."""

from typing import Annotated

from minibroker_protocol.schema import Array, Int16, Int32, Int64, NullableString, String, message, since, structure


@message(versions="0", flexible="0+")
class DescribeTransactionsRequest:
    """DescribeTransactions (key 65) describes the transactions of the given transactional ids (KIP-664)."""

    transactional_ids: Array[String]


@structure
class TopicData:
    """The partitions of one topic."""

    topic: String
    partitions: Array[Int32]


@structure
class TransactionState:
    """The current transaction of a transactional id.

    `transaction_start_time_ms` is -1 if no transaction is open. `topics` has the partitions that still need a marker.
    """

    error_code: Int16
    transactional_id: String
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: Array[TopicData]


@message(versions="0", flexible="0+")
class DescribeTransactionsResponse:
    """One result per transactional id."""

    throttle_time_ms: Int32 = 0
    transaction_states: Array[TransactionState]


@message(versions="0-2", flexible="0+")
class ListTransactionsRequest:
    """ListTransactions (key 66) lists the transactional ids of a broker (KIP-664).

    An empty filter matches everything.

    Attributes:
        duration_filter: selects transactions that have been open for longer than this time in milliseconds. A
            negative value selects all transactions (KIP-994).
        transactional_id_pattern: a Java regular expression that must match the whole transactional id (KIP-1152).
    """

    state_filters: Array[String]
    producer_id_filters: Array[Int64]
    duration_filter: Annotated[Int64, since(1)] = -1
    transactional_id_pattern: Annotated[NullableString, since(2)] = None


@structure
class ListedTransaction:
    """A transactional id with its producer and the name of its state."""

    transactional_id: String
    producer_id: Int64
    transaction_state: String


@message(versions="0-2", flexible="0+")
class ListTransactionsResponse:
    """The matching transactions, and the invalid states among the request's `state_filters`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    unknown_state_filters: Array[String]
    transaction_states: Array[ListedTransaction]


@structure
class TopicRequest:
    """The partitions of one topic whose producers are requested."""

    name: String
    partition_indexes: Array[Int32]


@message(versions="0", flexible="0+")
class DescribeProducersRequest:
    """DescribeProducers (key 61) lists the active producers of partitions (KIP-664)."""

    topics: Array[TopicRequest]


@structure
class ProducerState:
    """The state of one producer in a partition.

    `last_timestamp` is in milliseconds. `current_txn_start_offset` is -1 if no transaction is open.
    """

    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


@structure
class PartitionResponse:
    """The producers of one partition, or an error."""

    partition_index: Int32
    error_code: Int16
    error_message: NullableString = None
    active_producers: Array[ProducerState]


@structure
class TopicResponse:
    """The partitions of one topic."""

    name: String
    partitions: Array[PartitionResponse]


@message(versions="0", flexible="0+")
class DescribeProducersResponse:
    """One result per requested partition."""

    throttle_time_ms: Int32 = 0
    topics: Array[TopicResponse]
