"""DescribeTransactions (key 65): the state of transactions (KIP-664)."""

from minibroker_protocol.schema import Array, Int16, Int32, Int64, String, message, structure


@message(versions="0", flexible="0+")
class DescribeTransactionsRequest:
    """The transactional ids to look up."""

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
