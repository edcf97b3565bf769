"""UnregisterBroker (key 64): forget a broker that will not come back (KIP-500)."""

from minibroker_protocol.schema import (
    Int16,
    Int32,
    NullableString,
    message,
)


@message(versions="0", flexible="0+")
class UnregisterBrokerRequest:
    """The broker by its id."""

    broker_id: Int32


@message(versions="0", flexible="0+")
class UnregisterBrokerResponse:
    """The outcome."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString
