"""Requests that are applied after their connections were closed, as by a broker whose request queue is long.

Kafka does not drop a request from its queue when its connection is closed (`KafkaRequestHandler`).
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker.server.requests.declarations import Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker.server.inspection.recording import RecordedRequest
    from minibroker.server.requests.call import Call
    from minibroker.server.services import Services


@dataclasses.dataclass(slots=True, eq=False)
class _LateRequest:
    remaining: int
    request: Any
    targets: frozenset[Target]
    call: Call
    entry: RecordedRequest
    node_starts: int


class LateRequests:
    """The requests of one broker that wait for later requests.

    Args:
        services: The services of the broker.
        handle: Handles a request, given its call and its entry, and returns its result.
    """

    def __init__(self, services: Services, handle: Callable[[Any, Call, RecordedRequest], Any]) -> None:
        self._services = services
        self._handle = handle
        self._waiting: list[_LateRequest] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, count: int, request: Any, targets: tuple[Target, ...], call: Call, entry: RecordedRequest) -> None:
        """Keep a request until `count` other requests with one of its targets were served.

        A request without targets waits for any requests.
        """
        distinct = frozenset(targets) - {Target()}
        copied = _copy_buffers(request)
        self._waiting.append(_LateRequest(count, copied, distinct, call, entry, call.node.starts))

    def count(self, targets: tuple[Target, ...]) -> None:
        """Count a request. It is served before the late requests that have waited for it."""
        for late in tuple(self._waiting):
            if not late.targets or not late.targets.isdisjoint(targets):
                late.remaining -= 1
                if not late.remaining:
                    self._services.core.call_soon(partial(self._apply, late))

    def apply_all(self) -> None:
        """Apply all late requests now, in their order of arrival."""
        for late in tuple(self._waiting):
            self._apply(late)

    def clear(self) -> None:
        """Drop all late requests."""
        self._waiting.clear()

    def _apply(self, late: _LateRequest) -> None:
        if late not in self._waiting:
            return
        self._waiting.remove(late)
        node = late.call.node
        if not node.is_up or node.starts != late.node_starts:  # A stopped broker loses its queue.
            return
        with suppress(UnservedRequestError):
            result = self._handle(late.request, late.call, late.entry)
            self._services.core.slices.run(result, _ignore_response, _raise)
        self._services.core.writes.commit_and_wake()


def _ignore_response(response: Any) -> None:
    if isinstance(response, DelayedResponse):
        response.deliver = _ignore_response


def _raise(error: Exception) -> None:
    if not isinstance(error, UnservedRequestError):
        raise error


def _copy_buffers(value: Any) -> Any:
    """Return a copy of a request or a part of it that shares no memory with the connection's buffer."""
    kind: type[Any] = value.__class__
    if kind is memoryview:
        return memoryview(bytearray(value))
    if kind is list:
        return list(map(_copy_buffers, value))
    if not dataclasses.is_dataclass(kind):
        return value
    return kind(**{field.name: _copy_buffers(getattr(value, field.name)) for field in dataclasses.fields(kind)})
