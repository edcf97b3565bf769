"""UnregisterController (key 94): an operator has the cluster forget a controller that is gone (KIP-1312)."""

from minibroker_protocol.schema import Int16, Int32, NullableString, message


@message(versions="0", flexible="0+")
class UnregisterControllerRequest:
    """The controller's node id."""

    controller_id: Int32


@message(versions="0", flexible="0+")
class UnregisterControllerResponse:
    """Whether it is forgotten, and if not, why."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
