"""The records of `__transaction_state`: the state of each transactional id (KIP-98, KIP-890)."""

from typing import Annotated

from minibroker_protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableArray,
    String,
    message,
    since,
    structure,
    tagged,
)


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
    """The state of a transaction. `transaction_status` is the number of a Kafka `TransactionState`.

    `transaction_partitions` is null if the transaction has no partitions. The tagged fields were added in Kafka
    4.0. `previous_producer_id` and `next_producer_id` are set when the epochs of a producer id are exhausted and a
    new producer id replaces it. `client_transaction_version` is 2 if the epoch is raised with each transaction
    (KIP-890).
    """

    producer_id: Int64
    producer_epoch: Int16
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: NullableArray[PartitionsSchema]
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    previous_producer_id: Annotated[Int64, tagged(0, "1+"), since(1)] = -1
    next_producer_id: Annotated[Int64, tagged(1, "1+"), since(1)] = -1
    client_transaction_version: Annotated[Int16, tagged(2, "1+"), since(1)] = 0
