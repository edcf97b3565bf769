"""EndTxn (key 26): commit a transaction, or abort it (KIP-98)."""

from minibroker_protocol.schema import Bool, Int16, Int32, Int64, String, message


@message(versions="0-4", flexible="3+")
class EndTxnRequest:
    """`committed`: true to commit, false to abort."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@message(versions="0-4", flexible="3+")
class EndTxnResponse:
    """The end is decided once this says so; the markers may follow later."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
