"""Routes for the clock, retention and compaction."""

from fastapi import APIRouter
from pydantic import Field

from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.wording import Int64
from minibroker_control.models import Body, ResponseBody
from minibroker_control.remote import OnBroker
from minibroker_control.routes import calls

_HUNDRED_YEARS = 3_155_760_000


class Clock(ResponseBody):
    """The broker's time."""

    now_ms: Int64 = Field(description="Milliseconds since the epoch.")


class Advance(Body):
    """The time to advance by."""

    seconds: float = Field(ge=0, le=_HUNDRED_YEARS, allow_inf_nan=False)


class Retained(ResponseBody):
    """The result of retention."""

    deleted_segments: int


class Compaction(Body):
    """The topic to compact."""

    topic: str | None = Field(default=None, description="A compacted topic, or null for all compacted topics.")


router = APIRouter(tags=["Time"])


@router.get("/clock", openapi_extra=calls("clock.now_ms"))
async def read_clock(on_broker: OnBroker) -> Clock:
    """Return the broker's time."""
    return Clock(now_ms=await on_broker(lambda broker: broker.clock.now_ms()))


@router.post("/clock/advance", openapi_extra=calls("clock.advance"))
async def advance_clock(by: Advance, on_broker: OnBroker) -> Clock:
    """Advance the clock.

    Sessions expire, transactions and delayed requests time out, and tasks such as retention run.
    """

    async def work(broker: AsyncOperations) -> int:
        await broker.clock.advance(by.seconds)
        return await broker.clock.now_ms()

    return Clock(now_ms=await on_broker(work))


@router.post("/retention/run", openapi_extra=calls("retention.run"))
async def run_retention(on_broker: OnBroker) -> Retained:
    """Run retention now."""
    return Retained(deleted_segments=await on_broker(lambda broker: broker.retention.run()))


@router.post("/compact", status_code=204, openapi_extra=calls("compact"))
async def compact(on_broker: OnBroker, options: Compaction | None = None) -> None:
    """Compact all records produced so far. The response is sent when compaction has finished."""
    topic = None if options is None else options.topic
    await on_broker(lambda broker: broker.compact(topic))
