"""Transactions and producers for administrators (KIP-664)."""

from typing import Annotated

from minibroker_protocol.schema import Array, Int16, Int32, Int64, NullableString, String, message, since, structure


@message(versions="0", flexible="0+")
class DescribeTransactionsRequest:
    """DescribeTransactions (key 65): the state of transactions (KIP-664).

    The transactional ids to look up.
    """

    transactional_ids: Array[String]


@structure
class TopicData:
    """The partitions of one topic."""

    topic: String
    partitions: Array[Int32]


@structure
class TransactionState:
    """The transaction of one transactional id.

    `transaction_start_time_ms` is -1 while none is open; `topics` holds the partitions that still await a marker.
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
    """One answer per transactional id asked."""

    throttle_time_ms: Int32 = 0
    transaction_states: Array[TransactionState]


@message(versions="0-2", flexible="0+")
class ListTransactionsRequest:
    """ListTransactions (key 66): every transactional id that the broker keeps (KIP-664).

    Empty filters let everything through.

    `duration_filter` asks for transactions that have run longer than so many ms; below 0 for all (KIP-994).
    `transactional_id_pattern` is a regular expression of Java's for the whole transactional id (KIP-1152).
    """

    state_filters: Array[String]
    producer_id_filters: Array[Int64]
    duration_filter: Annotated[Int64, since(1)] = -1
    transactional_id_pattern: Annotated[NullableString, since(2)] = None


@structure
class ListedTransaction:
    """One transactional id, the producer that uses it and the name of its state."""

    transactional_id: String
    producer_id: Int64
    transaction_state: String


@message(versions="0-2", flexible="0+")
class ListTransactionsResponse:
    """The transactions that match the filters, and the unknown states among the filters."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    unknown_state_filters: Array[String]
    transaction_states: Array[ListedTransaction]


@structure
class TopicRequest:
    """DescribeProducers (key 61): the producers that a partition knows (KIP-664).

    The partitions of one topic.
    """

    name: String
    partition_indexes: Array[Int32]


@message(versions="0", flexible="0+")
class DescribeProducersRequest:
    """The partitions to look at."""

    topics: Array[TopicRequest]


@structure
class ProducerState:
    """The state of one producer in a partition.

    `last_timestamp` is in ms; `current_txn_start_offset` is -1 while no transaction is open.
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
    """One answer per partition asked."""

    throttle_time_ms: Int32 = 0
    topics: Array[TopicResponse]
