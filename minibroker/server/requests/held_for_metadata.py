"""Responses held back until the metadata that they report is on disk."""

from collections.abc import Callable
from typing import Any, TypeVar

from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.server.requests.call import Call
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.server.requests import endpoints, refusals

_T = TypeVar("_T")


def hold(response: _T, request: Any, call: Call, refused: Callable[[], Any] | None = None) -> _T | DelayedResponse:
    """Hold a response back until all changes of metadata are on disk; itself if they are.

    If they cannot be forced to disk, the client gets KAFKA_STORAGE_ERROR for all that `request` names, or what
    `refused` returns.
    """
    durability = call.core.durability
    if not durability.is_behind:
        return response
    held = DelayedMetadataResponse(response, refused or (lambda: refusal(request, call)))
    if durability.wait(held.release):  # the thread was quick
        held.cancel()
        return response
    return held


def refusal(request: Any, call: Call) -> Any:
    """KAFKA_STORAGE_ERROR for all that a request names, as Kafka's `AbstractRequest.getErrorResponse` has it."""
    endpoint = endpoints.endpoint_named(type(request).__name__.removesuffix("Request"))
    return refusals.error_answer(endpoint, request, call.api_version, ErrorCode.KAFKA_STORAGE_ERROR)


class DelayedMetadataResponse(DelayedResponse):
    """A response that waits for its `release`."""

    def __init__(self, response: Any, refused: Callable[[], Any]) -> None:
        self._response = response
        self._refused = refused
        self._is_wanted = True

    def cancel(self) -> None:
        """The client has gone, and does not wait for the response any more."""
        self._is_wanted = False

    def waits_for(self) -> str:
        """See `DelayedResponse`."""
        return "changed metadata to be on disk"

    def release(self, is_durable: bool) -> None:  # noqa: FBT001 - a callback with one argument
        """Deliver the response, or an error if its changes are not on disk."""
        if self._is_wanted:
            self._is_wanted = False
            self.deliver(self._response if is_durable else self._refused())
