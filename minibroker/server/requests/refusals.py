"""Error responses in Kafka's form, for a whole request or some of its elements (`AbstractRequest.getErrorResponse`).

`error_answer` is what `AbstractRequest.getErrorResponse` makes of the same request in the newest Kafka that has its
version (4.4, or 3.9 for what 4 has dropped). `part_answer` has the error at the innermost elements, for errors of some
partitions beside others that are served; `merged` brings the two together.

Both walk the declarations of request and response side by side: each list of the response with an error code in it has
an element for each element of the request's list, matched by name, id or index. The walk is planned once for each API
and version. Handlers whose responses do not fit declare functions that make them: see `declarations.Refusal`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.primitives import ZERO_UUID, WireType
from minibroker_protocol.schema import Field, fields_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from minibroker.server.requests.declarations import Refusal
    from minibroker.server.requests.endpoints import Endpoint


_CODES: Final = frozenset({"error_code", "partition_error_code"})
_IDENTITIES: Final = (
    ("name", "topic", "topic_name"),
    ("topic_id",),
    ("index", "partition", "partition_index", "partition_id"),
    ("group_id",),
    ("transactional_id",),
    ("key",),
    ("producer_id",),
    ("resource_type",),
    ("resource_name",),
    ("entity",),
)
"""The fields by which elements of requests and responses are matched; one line for the names of one thing."""
_MEANINGS: Final = {name: names for names in _IDENTITIES for name in names}


class _Level(NamedTuple):
    """The making of one structure of a response from an element of the request.

    Attributes:
        values: the fields that are always the same.
        code, message: the fields of the error and its sentence; empty where they say nothing.
        lists: the lists that stay empty.
        copied: (field of the response, field of the request).
        plain: the field that takes an element that is a name or a number.
        inner: the list of the response, that of the request, and how its elements are made.
    """

    make: type[Any]
    values: dict[str, Any]
    code: str
    message: str
    lists: tuple[str, ...]
    copied: tuple[tuple[str, str], ...]
    plain: str
    inner: tuple[str, str, _Level] | None

    def build(self, element: Any, code: ErrorCode) -> Any:
        values = self.values.copy()
        if self.code:
            values[self.code] = code
        if self.message:
            values[self.message] = code.meaning
        for name in self.lists:
            values[name] = []
        for name, source in self.copied:
            values[name] = getattr(element, source)
        if self.plain:
            values[self.plain] = element
        if self.inner is not None:
            name, source, level = self.inner
            values[name] = [level.build(each, code) for each in getattr(element, source) or ()]
        return self.make(**values)


_PLANS: Final[dict[tuple[type[Any], int, bool], _Level]] = {}


def error_answer(endpoint: Endpoint, request: Any, version: int, code: ErrorCode) -> Any:
    """The response that refuses a whole request."""
    by_hand = endpoint.refusal.whole
    if by_hand is not None:
        return by_hand(request, version, code)
    return _plan(endpoint, version, parts=False).build(request, code)


def part_answer(endpoint: Endpoint, request: Any, version: int, code: ErrorCode) -> Any:
    """The response that refuses each partition, or topic, of a request."""
    if not endpoint.names.topics:  # nothing is refused below the elements that a request names
        return error_answer(endpoint, request, version, code)
    by_hand = endpoint.refusal.parts
    if by_hand is not None:
        return by_hand(request, version, code)
    return _plan(endpoint, version, parts=True).build(request, code)


def _plan(endpoint: Endpoint, version: int, *, parts: bool) -> _Level:
    key = (endpoint.response, version, parts)
    known = _PLANS.get(key)
    if known is None:
        planner = _Planner(endpoint.refusal, version, parts)
        known = _PLANS[key] = planner.level(endpoint.response, endpoint.request, is_top=True)
    return known


class _Planner(NamedTuple):
    """Makes the levels of one response in one version."""

    refusal: Refusal
    version: int
    parts: bool

    def level(self, response: type[Any], request: type[Any] | WireType, *, is_top: bool = False) -> _Level:
        fields = [field for field in fields_of(response) if self.version in field.present]
        code = next((field.name for field in fields if field.name in _CODES), "")
        inner = None if code and not (self.parts or self.refusal.everywhere) else self._inner(fields, request)
        if inner is not None and self.parts:
            code = ""
        copied, plain = ((), "") if is_top else self._matched(fields, request)
        taken = {code, plain, *dict(copied), inner and inner[0]}
        values: dict[str, Any] = {}
        lists: list[str] = []
        for field in fields:
            if field.name in taken or not (field.required or field.name in self.refusal.values):
                continue
            empty: Any = [] if field.is_array else None if self.version in field.nullable else field.default()
            value = self.refusal.values.get(field.name, empty)
            if isinstance(value, list):
                lists.append(field.name)
            else:
                values[field.name] = value
        explains = self.refusal.explained and any(field.name == "error_message" for field in fields)
        return _Level(response, values, code, "error_message" if explains else "", tuple(lists), copied, plain, inner)

    def _inner(self, fields: list[Field], request: type[Any] | WireType) -> tuple[str, str, _Level] | None:
        """The first list of the response with errors in it, as made from the first list of the request."""
        if isinstance(request, WireType):
            return None
        source = next((each for each in fields_of(request) if each.is_array and self.version in each.present), None)
        field = next((each for each in fields if each.is_array and self._has_code(each.kind)), None)
        if source is None or field is None:
            return None
        assert not isinstance(field.kind, WireType)
        return field.name, source.name, self.level(field.kind, source.kind)

    def _has_code(self, kind: type[Any] | WireType) -> bool:
        return not isinstance(kind, WireType) and any(
            field.name in _CODES or (field.is_array and self._has_code(field.kind))
            for field in fields_of(kind)
            if self.version in field.present
        )

    def _matched(self, fields: list[Field], request: type[Any] | WireType) -> tuple[tuple[tuple[str, str], ...], str]:
        """The fields that take a field of the request's element, and the one that takes a plain element."""
        identities = [field for field in fields if field.name in _MEANINGS]
        if isinstance(request, WireType):
            return (), next((field.name for field in identities if field.kind is request), "")
        given = {field.name for field in fields_of(request)}
        sources = ((each.name, (each.name, *_MEANINGS[each.name])) for each in identities)
        return tuple((name, next(filter(given.__contains__, names))) for name, names in sources if given & {*names}), ""


_IDENTIFYING: Final = ("topic_id", "name", "topic", "topic_name", "transactional_id", "group_id", "producer_id")


class MergedAnswer(DelayedResponse):
    """The answer of a handler that takes its time, with errors to be added."""

    def __init__(self, inner: DelayedResponse, change: Callable[[Any], Any]) -> None:
        self._inner = inner
        inner.deliver = lambda response: self.deliver(change(response))

    def cancel(self) -> None:
        """The client has gone."""
        self._inner.cancel()

    def waits_for(self) -> str:
        """See `DelayedResponse`."""
        return self._inner.waits_for()


def merged(served: Any, refused: Any) -> Any:
    """Return `served` with the topics, partitions and so on of `refused` in its lists; both answer the same API."""
    for field in dataclasses.fields(served):
        here, there = getattr(served, field.name), getattr(refused, field.name)
        if isinstance(there, list) and there:
            setattr(served, field.name, _merged_lists(here or [], cast("Sequence[Any]", there)))
    return served


def _merged_lists(here: list[Any], there: Sequence[Any]) -> list[Any]:
    served = {_identity(element): element for element in here}
    for element in there:
        name = _identity(element)
        same = None if name is None else served.get(name)
        if same is None:
            here.append(element)
        else:
            merged(same, element)
    return here


def _identity(element: Any) -> Any:
    """Return the name or id of an element such as a topic, or None where it has none."""
    return next((named for name in _IDENTIFYING if (named := getattr(element, name, ZERO_UUID)) != ZERO_UUID), None)
