"""Responses that are held until the metadata changes that they report are on disk."""

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
    """Return the response if all metadata changes are on disk, otherwise a delayed response that waits for them.

    Args:
        response: The response.
        request: The request. If the changes cannot be forced to disk, everything it names gets KAFKA_STORAGE_ERROR.
        call: The context of the request.
        refused: Returns the error response to use for that case instead.
    """
    durability = call.core.durability
    if not durability.is_behind:
        return response
    delayed = DelayedMetadataResponse(response, refused or (lambda: refusal(request, call)))
    if durability.wait(delayed.release):  # The thread has already forced the changes to disk.
        delayed.cancel()
        return response
    return delayed


def refusal(request: Any, call: Call) -> Any:
    """Return a response with KAFKA_STORAGE_ERROR for everything that a request names.

    It has the form of Kafka's `AbstractRequest.getErrorResponse`.
    """
    endpoint = endpoints.find_endpoint(type(request).__name__.removesuffix("Request"))
    return refusals.error_answer(endpoint, request, call.api_version, ErrorCode.KAFKA_STORAGE_ERROR)


class DelayedMetadataResponse(DelayedResponse):
    """A response that is held until `release`."""

    def __init__(self, response: Any, refused: Callable[[], Any]) -> None:
        self._response = response
        self._refused = refused
        self._is_pending = True

    def cancel(self) -> None:
        """Drop the response because the client disconnected."""
        self._is_pending = False

    def waits_for(self) -> str:
        """Return what the request waits for, see `DelayedResponse`."""
        return "changed metadata to be on disk"

    def release(self, is_durable: bool) -> None:  # noqa: FBT001 - a callback with one argument
        """Deliver the response, or an error if the changes are not on disk."""
        if self._is_pending:
            self._is_pending = False
            self.deliver(self._response if is_durable else self._refused())
