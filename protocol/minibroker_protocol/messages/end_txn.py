"""EndTxn (key 26): commit a transaction, or abort it (KIP-98)."""

from typing import Annotated

from minibroker_protocol.schema import Bool, Int16, Int32, Int64, String, message, since


@message(versions="0-5", flexible="3+")
class EndTxnRequest:
    """`committed`: true to commit, false to abort."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@message(versions="0-5", flexible="3+")
class EndTxnResponse:
    """The end is decided once this says so; the markers may follow later.

    `producer_id` and `producer_epoch` are what the producer's next transaction is written under (KIP-890).
    """

    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id: Annotated[Int64, since(5)] = -1
    producer_epoch: Annotated[Int16, since(5)] = -1
