"""What the models of requests and answers share; the OpenAPI document is made of them, beside the routes.

Their names, and those of their fields, are those of the Python methods.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

_TEN_MINUTES = 600

Payload = Annotated[
    Any,
    Field(
        description=(
            'A text (stored as UTF-8), null, `{"base64": "..."}` for bytes, and anything else as JSON; '
            '`{"json": ...}` says so where it would be taken for something else.'
        )
    ),
]
Timeout = Annotated[float, Field(ge=0, le=_TEN_MINUTES, allow_inf_nan=False, description="Patience, in seconds.")]
Count = Annotated[int, Field(ge=0, description="How many there have to be at least.")]


class Body(BaseModel):
    """What a request says; a field that there is none of is an error."""

    model_config = ConfigDict(extra="forbid", strict=True)


class About(BaseModel):
    """What an answer says."""

    model_config = ConfigDict(from_attributes=True)
