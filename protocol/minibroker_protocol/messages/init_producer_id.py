"""InitProducerId (key 22): the id and epoch that make a producer idempotent (KIP-98)."""

from typing import Annotated

from minibroker_protocol.schema import Bool, Int16, Int32, Int64, NullableString, message, since


@message(versions="0-6", flexible="2+")
class InitProducerIdRequest:
    """From version 3 on a producer may ask for the next epoch of the id it has (KIP-360).

    Kafka still designs version 6, with two-phase commit (KIP-939).
    """

    transactional_id: NullableString
    transaction_timeout_ms: Int32
    producer_id: Annotated[Int64, since(3)] = -1
    producer_epoch: Annotated[Int16, since(3)] = -1
    enable2_pc: Annotated[Bool, since(6)] = False
    keep_prepared_txn: Annotated[Bool, since(6)] = False


@message(versions="0-6", flexible="2+")
class InitProducerIdResponse:
    """The producer id with its epoch, or why there is none."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id: Int64 = -1
    producer_epoch: Int16
    ongoing_txn_producer_id: Annotated[Int64, since(6)] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, since(6)] = -1
