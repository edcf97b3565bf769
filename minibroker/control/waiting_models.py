"""What is sent to hold that nothing was sent, and to wait for a group that reads."""

from typing import Annotated

from pydantic import Field

from minibroker.control.models import Body, Payload, Timeout

Within = Annotated[float, Field(ge=0, le=600, allow_inf_nan=False, description="Go on looking for so many seconds.")]


class Absence(Body):
    """What no record is to be like; what is not given may be anything."""

    value: Payload = None
    key: Payload = None
    headers: dict[str, Payload] | None = Field(default=None, description="Those that such a record would have.")
    partition: int | None = None
    within: Within = 0.0


class CatchingUp(Body):
    """What a group is to have read."""

    topic: str | None = Field(default=None, description="Null for all that it has committed for or is assigned.")
    timeout: Timeout = 10.0
