"""The records of `__transaction_state`: what the coordinator knows of each transactional id (KIP-98)."""

from minibroker_protocol.schema import Array, Int8, Int16, Int32, Int64, NullableArray, String, message, structure


@message(versions="0")
class TransactionLogKey:
    """The transactional id that the value describes."""

    transactional_id: String


@structure
class PartitionsSchema:
    """The partitions of one topic."""

    topic: String
    partition_ids: Array[Int32]


@message(versions="0-1", flexible="1+")
class TransactionLogValue:
    """A transaction; `transaction_status` is the number of Kafka's `TransactionState`.

    `transaction_partitions` is null when there are none.
    """

    producer_id: Int64
    producer_epoch: Int16
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: NullableArray[PartitionsSchema]
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
