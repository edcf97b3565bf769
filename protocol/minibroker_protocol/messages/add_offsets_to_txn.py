"""AddOffsetsToTxn (key 25): a transaction is about to commit offsets of a group (KIP-98)."""

from minibroker_protocol.schema import Int16, Int32, Int64, String, message


@message(versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    """The group whose offsets the transaction will commit."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@message(versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    """Whether the transaction has the group's partition of the offsets topic in it."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
