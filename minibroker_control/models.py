"""Base classes of request and response models, and the check of parameters. The models are defined next to the routes.

The OpenAPI document is generated from the models. Models and fields have the same names as in the Python API.
"""

import re
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping, Sequence
from inspect import getdoc
from typing import Annotated, Any, Final, TypeVar, cast, get_type_hints
from urllib.parse import unquote

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic_core import PydanticCustomError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Match

from minibroker.config.names import suggestion
from minibroker_storage.data_directory.names import TopicPartition

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

_TEN_MINUTES = 600
_END: Final = b"]}"
_ELEMENTS_PER_CHUNK: Final = 100
"""The number of list elements that are sent at a time."""

Payload = Annotated[
    Any,
    Field(
        description=(
            'A text (stored as UTF-8), null, `{"base64": "..."}` for bytes, or any other value, stored as JSON. '
            '`{"json": ...}` stores a value as JSON that would otherwise be a text, null or bytes.'
        )
    ),
]
Timeout = Annotated[float, Field(ge=0, le=_TEN_MINUTES, allow_inf_nan=False, description="The timeout in seconds.")]
Count = Annotated[int, Field(ge=0, description="The minimum number.")]


class Body(BaseModel):
    """The body of a request. An unknown field is an error."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, data: Any) -> Any:
        """Refuse an unknown field before pydantic does, in order to suggest the intended field."""
        names = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        known = cls.field_names()
        for name in names:
            if name not in known:
                context = {"field": name, "hint": suggestion(name, known)}
                raise PydanticCustomError("unknown_field", "unknown field", context)
        return cast("Any", data)

    @classmethod
    def field_names(cls) -> list[str]:
        """Return the names of the fields in JSON."""
        return [field.alias or name for name, field in cls.model_fields.items()]


class Warnings(BaseModel):
    """Warnings about a request that succeeded although it probably contains a mistake."""

    warnings: list[str] = Field(description="One sentence per warning. Python programs get them as warnings.")


WITH_WARNINGS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": Warnings, "description": "Done, but the request probably contains a mistake"}
}
"""The `responses` of a route that returns 204, or 200 with `Warnings`."""


def done(warnings: list[str]) -> Response:
    """Return a response with status 204, or with status 200 and the warnings if there are any."""
    return JSONResponse({"warnings": warnings}) if warnings else Response(status_code=204)


class ResponseBody(BaseModel):
    """The body of a response."""

    model_config = ConfigDict(from_attributes=True)


def describes(described: type[Any], **after: str) -> Callable[[type[M]], type[M]]:
    """Give a model the fields of a dataclass of `operations`, with their types and descriptions.

    The model itself declares the fields that differ in JSON, and those that are properties of the dataclass.

    Args:
        described: The dataclass. Its docstring has a sentence for each field that needs one.
        after: The field that each property follows, by property name.
    """
    sentences = {
        name: " ".join(sentence.split()).replace("None", "null")
        for name, sentence in re.findall(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", getdoc(described) or "", re.MULTILINE)
    }

    def make(model: type[M]) -> type[M]:
        own_fields = {name: field for name, field in model.model_fields.items() if name in model.__annotations__}
        fields: dict[str, Any] = {}
        for name, hint in get_type_hints(described, include_extras=True).items():
            fields[name] = (hint, Field(description=sentences.get(name)))
            fields |= {property_name: None for property_name, field_before in after.items() if field_before == name}
        fields |= {name: (field.annotation, field) for name, field in own_fields.items()}
        names = ("__base__", "__doc__", "__module__")
        attributes: dict[str, Any] = {name: getattr(model, name) for name in names}
        return cast("type[M]", create_model(model.__name__, **attributes, **fields))

    return make


class Place(ResponseBody):
    """A partition. Validation also accepts a pair of topic and partition."""

    topic: str
    partition: int

    @model_validator(mode="before")
    @classmethod
    def _of_pair(cls, data: Any) -> Any:
        if not isinstance(data, tuple):
            return data
        topic, partition = cast("TopicPartition", data)
        return {"topic": topic, "partition": partition}


def by_partition(values: Mapping[TopicPartition, T], fields: Callable[[T], dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the fields of each value with its topic and partition, sorted by partition."""
    return [
        {"topic": topic, "partition": partition, **fields(value)}
        for (topic, partition), value in sorted(values.items())
    ]


class WithWarnings(ResponseBody):
    """A response body with optional warnings. The field `warnings` is omitted if there are no warnings."""

    warnings: list[str] | None = Field(default=None, description="One sentence per probable mistake.")


def warnings_field(warnings: list[str]) -> dict[str, list[str]]:
    """Return the field of `WithWarnings` if there are warnings."""
    return {"warnings": warnings} if warnings else {}


def list_response(about: ResponseBody, name: str, elements: Sequence[bytes]) -> Response:
    """Return a response with the fields of `about` and a list.

    Use this for unbounded lists. pydantic would validate and encode such a list in one call, and joining it takes long,
    too. No other thread could run meanwhile.

    Args:
        about: The response, in which the list is empty.
        name: The name of the list.
        elements: The elements of the list, each as JSON.
    """
    other_fields = about.model_dump_json(exclude={name})[1:-1].encode()
    head = b'{%b%b"%b":[' % (other_fields, b"," if other_fields else b"", name.encode())
    size = len(head) + sum(map(len, elements)) + max(len(elements) - 1, 0) + len(_END)

    async def body() -> AsyncIterator[bytes]:
        for begin in range(0, len(elements), _ELEMENTS_PER_CHUNK):
            yield (b"," if begin else head) + b",".join(elements[begin : begin + _ELEMENTS_PER_CHUNK])
        yield _END if elements else head + _END

    return StreamingResponse(body(), media_type="application/json", headers={"Content-Length": str(size)})


_FOR_MACHINES: Final = frozenset({"/healthz", "/readyz", "/metrics"})


async def refuse_unknown_parameters(request: Request) -> None:
    """Refuse query parameters that the route does not have.

    FastAPI ignores such parameters, so a misspelled filter or limit would silently have no effect. Probes and scrapers
    may add parameters of their own.

    Raises:
        HTTPException: A parameter is unknown. The status is 400.
    """
    route = cast("APIRoute", request.scope["route"])
    if not request.query_params or route.path in _FOR_MACHINES:
        return
    known = [parameter.alias for parameter in route.dependant.query_params]
    for name in request.query_params:
        if name not in known:
            raise HTTPException(400, f"{name}: unknown query parameter{_suggest_parameter(name, known, route)}")


def _suggest_parameter(name: str, known: list[str], route: APIRoute) -> str:
    if name in _fields_of(route):
        return "; it is a field of the JSON body of this request"
    if not known:
        return "; this request has none"
    return suggestion(name, known) or f"; this request has {', '.join(known)}"


def _fields_of(route: APIRoute) -> set[str]:
    """Return the names of the fields of the body, or an empty set if the route has no model for it."""
    if route.body_field is None:
        return set()
    body: Any = route.body_field.field_info.annotation
    models = (body, *getattr(body, "__args__", ()))
    return {
        field
        for model in models
        if isinstance(model, type) and issubclass(model, Body)
        for field in model.field_names()
    }


_SLASH: Final = "\ud82f"
"""A placeholder for a slash sent as %2F. It cannot occur in a path, since a lone surrogate has no UTF-8 encoding."""


class NamesRoute(APIRoute):
    """A route whose `{name:path}` can contain slashes. A slash sent as `%2F` is part of the name, not a separator.

    Servers decode a path before they choose a route, so `/groups/a%2Flag` would be the lag of the group `a` instead of
    the group `a/lag`. A slash sent unencoded can also be part of the name, if no longer path matches.
    """

    def matches(self, scope: MutableMapping[str, Any]) -> tuple[Match, MutableMapping[str, Any]]:
        """Match the path of a request as it was sent."""
        sent = scope.get("raw_path", b"").decode("ascii", "replace")
        if scope["type"] != "http" or "%2f" not in sent.lower():
            return super().matches(scope)
        path = unquote(sent.replace("%2f", "%2F").replace("%2F", _SLASH))
        match, child_scope = super().matches({**scope, "path": path})
        if match is not Match.NONE:
            child_scope["path_params"] = {
                name: value.replace(_SLASH, "/") if isinstance(value, str) else value
                for name, value in child_scope["path_params"].items()
            }
        return match, child_scope
