"""UnregisterBroker (key 64): TODO."""

from minibroker_protocol.schema import (
    Int16,
    Int32,
    NullableString,
    message,
)


@message(versions="0", flexible="0+")
class UnregisterBrokerRequest:
    """TODO."""

    broker_id: Int32


@message(versions="0", flexible="0+")
class UnregisterBrokerResponse:
    """TODO."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString
