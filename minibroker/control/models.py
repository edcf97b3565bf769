"""Base classes of requests and responses; the OpenAPI document is made of the models, which stand beside the routes.

Their names, and those of their fields, are those of the Python methods.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Final, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError
from starlette.responses import JSONResponse, Response, StreamingResponse

from minibroker.config.names import suggestion

_TEN_MINUTES = 600
_END: Final = b"]}"
_SENT_AT_ONCE: Final = 100
"""Elements of a list."""

Payload = Annotated[
    Any,
    Field(
        description=(
            'A text (stored as UTF-8), null, `{"base64": "..."}` for bytes, and anything else as JSON; '
            '`{"json": ...}` says so where it would be taken for something else.'
        )
    ),
]
Int16 = Annotated[int, Field(json_schema_extra={"format": "int16"})]
Int64 = Annotated[int, Field(json_schema_extra={"format": "int64"})]
UInt32 = Annotated[int, Field(json_schema_extra={"format": "uint32"})]
UInt64 = Annotated[int, Field(json_schema_extra={"format": "uint64"})]
"""Numbers that do not fit into an int32, which generators of clients take otherwise, or have no sign."""
Timeout = Annotated[float, Field(ge=0, le=_TEN_MINUTES, allow_inf_nan=False, description="Patience, in seconds.")]
Count = Annotated[int, Field(ge=0, description="How many there have to be at least.")]


class Body(BaseModel):
    """The body of a request; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, given: Any) -> Any:
        """Refuse an unknown field before pydantic does, which does not know which field was meant."""
        names = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        for name in names:
            if name not in cls.model_fields:
                context = {"field": name, "hint": suggestion(name, cls.model_fields)}
                raise PydanticCustomError("unknown_field", "unknown field", context)
        return cast("Any", given)


class Warnings(BaseModel):
    """A request that was done, although something in it is probably a mistake."""

    warnings: list[str] = Field(description="A sentence each; Python programs get these as warnings.")


WITH_WARNINGS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": Warnings, "description": "Done, although something is probably a mistake"}
}
"""`responses` of a route that answers 204, or 200 with `Warnings`."""


def done(warnings: list[str]) -> Response:
    """204, or 200 with the warnings if there are any."""
    return JSONResponse({"warnings": warnings}) if warnings else Response(status_code=204)


class About(BaseModel):
    """The body of a response."""

    model_config = ConfigDict(from_attributes=True)


class Warned(About):
    """The body of a response that may have warnings; without any the field is left out."""

    warnings: list[str] | None = Field(default=None, description="Probable mistakes: a sentence for each.")


def warned(warnings: list[str]) -> dict[str, list[str]]:
    """Return the field of `Warned`, if there are warnings."""
    return {"warnings": warnings} if warnings else {}


def list_answer(about: About, name: str, elements: Sequence[bytes]) -> Response:
    """The body `about` with `elements`, each as JSON, in its list `name`, which is empty until here.

    For lists without a bound: pydantic would check and encode such a list in one call, and to join it takes long, too.
    No other thread runs meanwhile.
    """
    rest = about.model_dump_json(exclude={name})[1:-1].encode()
    head = b'{%b%b"%b":[' % (rest, b"," if rest else b"", name.encode())
    size = len(head) + sum(map(len, elements)) + max(len(elements) - 1, 0) + len(_END)

    async def body() -> AsyncIterator[bytes]:
        for begin in range(0, len(elements), _SENT_AT_ONCE):
            yield (b"," if begin else head) + b",".join(elements[begin : begin + _SENT_AT_ONCE])
        yield _END if elements else head + _END

    return StreamingResponse(body(), media_type="application/json", headers={"Content-Length": str(size)})
