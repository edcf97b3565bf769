"""Error responses in Kafka's form, for a whole request or some of its elements.

`error_answer` equals the result of `AbstractRequest.getErrorResponse` in the newest Kafka that has the request
version (4.4, or 3.9 for versions that Kafka 4 dropped). `partial_error_answer` sets the error in the innermost
elements, for requests of which only some partitions fail. `merge_response` combines these errors with the
response for the other partitions.

Both traverse the request and response classes in parallel. Each response list whose elements have an error code
gets an element for each element of the request's list. Fields are matched by name, id or index. The traversal
is planned once per API and version. Handlers whose responses do not fit declare their own functions; see
`declarations.Refusal`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from minibroker.cluster.routing.routes import UnservedRequestError
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.primitives import ZERO_UUID, WireType
from minibroker_protocol.schema import Field, fields_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from minibroker.server.requests.declarations import Refusal
    from minibroker.server.requests.endpoints import Endpoint


_DEFAULT_MESSAGE: Final = ""
"""Stands for the message that the API's `Refusal` determines."""
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
"""The fields that match elements of requests and responses. Each line has the synonyms of one identity."""
_MEANINGS: Final = {name: names for names in _IDENTITIES for name in names}


class _Level(NamedTuple):
    """A plan for building one response structure from an element of the request.

    Attributes:
        make: The class of the structure.
        values: The fields with constant values.
        code: The field with the error code, or empty.
        message: The field with the error message, or empty.
        lists: The lists that stay empty.
        copied: The copied fields, as (response field, request field).
        plain: The field for an element that is itself a name or number, or empty.
        inner: The nested list of the response, the nested list of the request, and the plan for the elements.
    """

    make: type[Any]
    values: dict[str, Any]
    code: str
    message: str
    lists: tuple[str, ...]
    copied: tuple[tuple[str, str], ...]
    plain: str
    inner: tuple[str, str, _Level] | None

    def build(self, element: Any, code: ErrorCode, message: str | None) -> Any:
        values: dict[str, Any] = {**self.values, **{name: [] for name in self.lists}}
        values |= {name: getattr(element, source) for name, source in self.copied}
        if self.code:
            values[self.code] = code
        if self.message and message != _DEFAULT_MESSAGE:
            values[self.message] = message
        if self.plain:
            values[self.plain] = element
        if self.inner is not None:
            name, source, level = self.inner
            values[name] = [level.build(child, code, message) for child in getattr(element, source) or ()]
        return self.make(**values)


_PLANS: Final[dict[tuple[type[Any], int, bool], _Level]] = {}


def error_answer(
    endpoint: Endpoint, request: Any, version: int, code: ErrorCode, message: str | None = _DEFAULT_MESSAGE
) -> Any:
    """Return the response that refuses a whole request."""
    build = endpoint.refusal.whole
    if build is not None:
        return build(request, version, code)
    return _build(endpoint, request, version, code, message, parts=False)


def partial_error_answer(endpoint: Endpoint, request: Any, version: int, code: ErrorCode) -> Any:
    """Return the response that refuses each partition, or topic, of a request."""
    if not endpoint.names.topics:  # Requests of an API without topics are rejected as a whole.
        return error_answer(endpoint, request, version, code)
    build = endpoint.refusal.parts
    if build is not None:
        return build(request, version, code)
    return _build(endpoint, request, version, code, _DEFAULT_MESSAGE, parts=True)


def _build(endpoint: Endpoint, request: Any, version: int, code: ErrorCode, message: str | None, *, parts: bool) -> Any:
    if message == _DEFAULT_MESSAGE and endpoint.refusal.explained:
        message = code.meaning
    return _plan(endpoint, version, parts=parts).build(request, code, message)


def check_acks(endpoint: Endpoint, request: Any, reason: str) -> None:
    """Close the connection if no response can carry an error.

    Raises:
        UnservedRequestError: A Produce request expects no response. As in Kafka, its connection closes.
    """
    if endpoint.route.key is ApiKey.PRODUCE and request.acks == 0:
        raise UnservedRequestError(f"produce with acks=0 failed: {reason}")


def _plan(endpoint: Endpoint, version: int, *, parts: bool) -> _Level:
    key = (endpoint.response, version, parts)
    plan = _PLANS.get(key)
    if plan is None:
        planner = _Planner(endpoint.refusal, version, parts)
        plan = _PLANS[key] = planner.level(endpoint.response, endpoint.request, is_top=True)
    return plan


class _Planner(NamedTuple):
    """Builds the plan for one response in one version."""

    refusal: Refusal
    version: int
    parts: bool

    def level(self, response: type[Any], request: type[Any] | WireType, *, is_top: bool = False) -> _Level:
        fields = [field for field in fields_of(response) if self.version in field.present]
        code = next((field.name for field in fields if field.name in _CODES), "")
        inner = None if code and not (self.parts or self.refusal.everywhere) else self._find_inner(fields, request)
        if inner is not None and self.parts:
            code = ""
        copied, plain = ((), "") if is_top else self._match(fields, request)
        handled = {code, plain, *dict(copied), inner and inner[0]}
        values: dict[str, Any] = {}
        lists: list[str] = []
        for field in fields:
            if field.name in handled or not (field.required or field.name in self.refusal.values):
                continue
            empty: Any = [] if field.is_array else None if self.version in field.nullable else field.default()
            value = self.refusal.values.get(field.name, empty)
            if isinstance(value, list):
                lists.append(field.name)
            else:
                values[field.name] = value
        message = next((field.name for field in fields if field.name == "error_message"), "")
        return _Level(response, values, code, message, tuple(lists), copied, plain, inner)

    def _find_inner(self, fields: list[Field], request: type[Any] | WireType) -> tuple[str, str, _Level] | None:
        """Return the first response list with error codes, and the first request list, from which it is built."""
        if isinstance(request, WireType):
            return None
        source = next((child for child in fields_of(request) if child.is_array and self.version in child.present), None)
        field = next((child for child in fields if child.is_array and self._has_code(child.kind)), None)
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

    def _match(self, fields: list[Field], request: type[Any] | WireType) -> tuple[tuple[tuple[str, str], ...], str]:
        """Return the fields copied from a request element, and the field for a plain name or number."""
        identities = [field for field in fields if field.name in _MEANINGS]
        if isinstance(request, WireType):
            return (), next((field.name for field in identities if field.kind is request), "")
        request_fields = {field.name for field in fields_of(request)}
        sources = ((identity.name, (identity.name, *_MEANINGS[identity.name])) for identity in identities)
        return tuple(
            (name, next(filter(request_fields.__contains__, names)))
            for name, names in sources
            if request_fields & {*names}
        ), ""


_IDENTIFYING: Final = ("topic_id", "name", "topic", "topic_name", "transactional_id", "group_id", "producer_id")


def merge_response(served: Any, refused: Any) -> Any:
    """Merge the topics, partitions and other elements of `refused` into `served`, a response of the same API."""
    for field in dataclasses.fields(served):
        served_value, refused_value = getattr(served, field.name), getattr(refused, field.name)
        if isinstance(refused_value, list) and refused_value:
            setattr(served, field.name, _merge_lists(served_value or [], cast("Sequence[Any]", refused_value)))
    return served


def _merge_lists(served_list: list[Any], refused_list: Sequence[Any]) -> list[Any]:
    served_by_name = {_identity_of(element): element for element in served_list}
    for element in refused_list:
        name = _identity_of(element)
        match = None if name is None else served_by_name.get(name)
        if match is None:
            served_list.append(element)
        else:
            merge_response(match, element)
    return served_list


def _identity_of(element: Any) -> Any:
    """Return the name or id of an element such as a topic, or None if it has neither."""
    return next((value for name in _IDENTIFYING if (value := getattr(element, name, ZERO_UUID)) != ZERO_UUID), None)
