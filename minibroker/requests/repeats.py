"""Repeated requests: the short way from the bytes of a request to its answer.

A client sends the same few requests again and again. The short way skips decoding, and encoding where the response is
as before, and nothing else: the same bytes are the same request, and an equal response has the same bytes. The handler
serves every request, with all its checks. Numbers that differ from request to request are read where they stand, and
filled in where they belong.

A handler that takes part declares `REPEAT` beside `handle`: a function that makes a `ShortWay`. A connection keeps one
for each API and version that it uses (`Repeats`). Where the short way has any doubt, the request takes the long way
(`dispatch.accept_whole`), and so does every request while there is a fault or a quota.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import TYPE_CHECKING, Final, Literal, Protocol, Self

from minibroker_protocol.codec import Splices, encode
from minibroker_protocol.errors import EncodeError
from minibroker_protocol.frame import begin_response

if TYPE_CHECKING:
    from typing import Any

    from minibroker.requests.call import Call
    from minibroker.requests.endpoints import Endpoint
    from minibroker.routing.outcomes import AnyOutcome

UNKNOWN: Final = False
"""In place of an outcome: the request has to take the long way."""
BODY: Final = 8
"""Position in a frame of the first byte behind API key, version and correlation id."""
_START: Final = Struct(">Ii")
"""API key and version as one number, and the correlation id."""
_HEAD_OF_RESPONSE: Final = 8
_MOST_WAYS: Final = 16
_NO_WAYS: Final[dict[int, ShortWay]] = {}
"""Of all connections that repeat nothing; stays empty."""


class ShortWay(Protocol):
    """The short way of one API in one version, for one connection.

    Attributes:
        endpoint, call: those of its requests.
    """

    endpoint: Endpoint
    call: Call

    def take(self, frame: memoryview, correlation_id: int) -> AnyOutcome | Literal[False]:
        """The outcome of a request that is known, else `UNKNOWN`. Errors as those of `dispatch.accept`."""
        ...

    def learn(self, frame: memoryview, request: Any, response: Any) -> None:
        """Remember a request that has taken the long way, if its like may come again; None for no response yet."""
        ...

    def remembered(self, frame: memoryview) -> tuple[Any, memoryview | None]:
        """The request of a frame that was taken, without its records, and these; numbers may be those before."""
        ...


MakeShortWay = Callable[["Endpoint", "Call"], ShortWay]
"""The form of a handler's `REPEAT`; the call is that of the first request, and good for those behind it."""


class Repeats:
    """The requests that one connection repeats.

    It remembers nothing of an API's first request: most connections that stay idle have asked each API once.
    """

    __slots__ = ("_client_id", "_seen", "_ways")

    def __init__(self) -> None:
        self._seen = 0  # a bit for each API key
        self._ways: dict[int, ShortWay] = _NO_WAYS
        self._client_id: str | None = None

    def take(self, frame: memoryview) -> AnyOutcome | Literal[False]:
        """The outcome of a request that is known, else `UNKNOWN`. Errors as those of `dispatch.accept`."""
        try:
            key, correlation_id = _START.unpack_from(frame)
        except StructError:
            return UNKNOWN
        way = self._ways.get(key)
        return UNKNOWN if way is None else way.take(frame, correlation_id)

    def way(self, frame: memoryview) -> tuple[ShortWay, int]:
        """The short way of a frame that was taken, and the frame's correlation id."""
        key, correlation_id = _START.unpack_from(frame)
        return self._ways[key], correlation_id

    def learn(self, frame: memoryview, endpoint: Endpoint, request: Any, response: Any, call: Call) -> None:
        """Remember a request that has taken the long way, if its API takes part; None for no response yet."""
        if endpoint.repeat is None:
            return
        api = 1 << endpoint.route.key
        # An idle connection has sent ApiVersions and Metadata once: a short way for each would be memory for nothing.
        if not self._seen & api:
            self._seen |= api
            return
        if call.client_id != self._client_id:  # the calls that the short ways keep are another client's
            self._ways, self._client_id = _NO_WAYS, call.client_id
        key: int = _START.unpack_from(frame)[0]
        way = self._ways.get(key)
        if way is None:
            # A client that uses each API in all its versions starts again: no LRU for what only a test does.
            if self._ways is _NO_WAYS or len(self._ways) >= _MOST_WAYS:
                self._ways = {}
            way = self._ways[key] = endpoint.repeat(endpoint, call)
        way.learn(frame, request, response)


class Template:
    """The frame of a response, encoded once. Correlation id and numbers are filled in.

    Attributes:
        size: the frame's length, its first field.
        head, tail: the bytes between the correlation id and the numbers, and those behind the numbers.
        pack: makes the frame of size, correlation id, head, the numbers (int64) and tail.
    """

    __slots__ = ("head", "pack", "size", "tail")

    def __init__(self, head: bytes, numbers: int, tail: bytes) -> None:
        form = Struct(f">ii{len(head)}s{'q' * numbers}{len(tail)}s")
        self.head = head
        self.tail = tail
        self.size = form.size - _START.size // 2
        self.pack: Callable[..., bytes] = form.pack

    @classmethod
    def of(cls, response: Any, version: int, *, flexible_header: bool, marks: tuple[int, ...] = ()) -> Self | None:
        """The template of a response whose numbers are `marks`, int64 fields one behind the other.

        None where that run of numbers is not in the response once, or the response cannot be encoded by itself.
        """
        out = bytearray()
        splices: Splices = []
        begin_response(out, 0, flexible_header=flexible_header)
        try:
            encode(response, version, out, splices)
        except EncodeError:
            return None
        run = Struct(f">{len(marks)}q").pack(*marks)
        # The marks are found by their bytes. If they were there twice, numbers could be put into a name.
        if splices or (run and out.count(run) != 1):
            return None
        begin = out.find(run) if run else len(out)
        return cls(bytes(out[_HEAD_OF_RESPONSE:begin]), len(marks), bytes(out[begin + len(run) :]))
