"""AllocateProducerIds (key 67): a broker asks the controller for a block of producer ids. No client sends it."""

from minibroker_protocol.schema import Int16, Int32, Int64, message


@message(versions="0", flexible="0+")
class AllocateProducerIdsRequest:
    """The broker that asks, with the epoch of its registration."""

    broker_id: Int32
    broker_epoch: Int64 = -1


@message(versions="0", flexible="0+")
class AllocateProducerIdsResponse:
    """`producer_id_len` ids from `producer_id_start` on."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id_start: Int64
    producer_id_len: Int32
