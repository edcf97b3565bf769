"""The short way of requests that come again with other numbers: Fetch with its offset, OffsetCommit.

All other bytes are compared with those of a request that was decoded before. The numbers are read where they stand in
the frame, and put into that request.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from minibroker.requests.repeats import BODY, UNKNOWN
from minibroker.requests.same_request import MOST_BYTES, KnownRequest, SameRequest
from minibroker_protocol.codec import encode
from minibroker_protocol.copying import shallow_copy

if TYPE_CHECKING:
    from minibroker.requests.call import Call
    from minibroker.requests.endpoints import Endpoint
    from minibroker.routing.outcomes import AnyOutcome

_MOST_NUMBERS: Final = 4
_MARK: Final = 0x2B7E_1516
"""The first of the numbers that show where a field stands; fits into an int32."""


class Number(NamedTuple):
    """A field of a request, or of one of its elements, whose value changes.

    Attributes:
        owner: what has the field, or the list that has the owner.
        form: "i" for an int32, "q" for an int64.
        at: the owner's place in its list, where a copy takes its place, since the handler may keep it; else None.
    """

    owner: Any
    field: str
    form: str
    at: int | None = None


NumbersOf = Callable[[Any], list[Number]]
"""From a request to its numbers, in their order on the wire; none for a request that is not to be remembered."""


class NumberedRequest(SameRequest):
    """The repeated requests of one API in one version on one connection: see `repeats.ShortWay`.

    It remembers one request. The 1st, 2nd, 4th, 8th ... request that differs from it takes its place: so a client that
    repeats nothing pays next to nothing. `keeps_response` is False for an API whose responses hold file
    ranges.
    """

    __slots__ = ("_fixed", "_keeps_response", "_numbers", "_numbers_of", "_one", "_size", "_strangers", "_unpack")

    def __init__(self, numbers_of: NumbersOf, endpoint: Endpoint, call: Call, *, keeps_response: bool = True) -> None:
        super().__init__(endpoint, call)
        self._numbers_of = numbers_of
        self._keeps_response = keeps_response
        self._one: KnownRequest | None = None
        self._strangers = 0
        self._size = 0
        self._unpack: Callable[[memoryview, int], tuple[Any, ...]] = Struct("").unpack_from
        self._fixed: tuple[bytes, ...] = ()
        self._numbers: list[Number] = []

    def take(self, frame: memoryview, correlation_id: int) -> AnyOutcome | Literal[False]:
        """See `repeats.ShortWay`."""
        one = self._one
        if one is None or len(frame) != self._size:
            return UNKNOWN
        values = self._unpack(frame, BODY)
        if values[::2] != self._fixed:
            return UNKNOWN
        for number, value in zip(self._numbers, values[1::2], strict=True):
            owner = number.owner
            if number.at is not None:
                owner[number.at] = owner = shallow_copy(owner[number.at])
            setattr(owner, number.field, value)
        return self._outcome(one, correlation_id)

    def learn(self, frame: memoryview, request: Any, response: Any) -> None:
        """See `repeats.ShortWay`."""
        if response is None and self._keeps_response:
            return
        self._strangers += 1
        if self._strangers & (self._strangers - 1) or len(frame) > MOST_BYTES:
            return
        numbers = self._numbers_of(request)
        if not numbers or len(numbers) > _MOST_NUMBERS:
            return
        form = _form_of(frame, request, numbers, self.call.api_version)
        if form is None:
            return
        self._unpack = form.unpack_from
        self._fixed = form.unpack_from(frame, BODY)[::2]
        self._numbers = numbers
        self._size = len(frame)
        self._one = KnownRequest(request, response if self._keeps_response else None)

    def known(self, frame: memoryview) -> KnownRequest:  # noqa: ARG002 - it remembers but one
        """See `SameRequest`."""
        assert self._one is not None
        return self._one


def _form_of(frame: memoryview, request: Any, numbers: list[Number], version: int) -> Struct | None:
    """Bytes and numbers behind the correlation id, in turns; None for a frame that is not as the encoder writes it."""
    body = _encoded(request, version)
    begin = len(frame) - len(body)
    if begin < BODY or bytes(frame[begin:]) != body:
        return None
    owners = [number.owner if number.at is None else number.owner[number.at] for number in numbers]
    values = [getattr(owner, number.field) for owner, number in zip(owners, numbers, strict=True)]
    for index, number in enumerate(numbers):
        setattr(owners[index], number.field, _MARK + index)
    marked = _encoded(request, version)
    for index, number in enumerate(numbers):
        setattr(owners[index], number.field, values[index])
    form, end = ">", BODY - begin
    for mark, number in enumerate(numbers, _MARK):
        run = Struct(f">{number.form}").pack(mark)
        position = marked.find(run)
        if position < end or marked.count(run) != 1:
            return None
        form += f"{position - end}s{number.form}"
        end = position + len(run)
    return Struct(f"{form}{len(marked) - end}s")


def _encoded(request: Any, version: int) -> bytes:
    out = bytearray()
    encode(request, version, out, [])
    return bytes(out)
