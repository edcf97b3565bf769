"""Time, and what it does."""

from fastapi import APIRouter
from pydantic import Field

from minibroker.control.models import About, Body
from minibroker.control.remote import OnBroker
from minibroker.control.routes import calls
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.wording import Int64

_HUNDRED_YEARS = 3_155_760_000


class Clock(About):
    """The broker's time."""

    now_ms: Int64 = Field(description="ms since the epoch.")


class Advance(Body):
    """The time to move on by."""

    seconds: float = Field(ge=0, le=_HUNDRED_YEARS, allow_inf_nan=False)


class Retained(About):
    """The result of retention."""

    deleted_segments: int


class Compaction(Body):
    """The topic to compact."""

    topic: str | None = Field(default=None, description="Has to be a compacted one; null for all of them.")


router = APIRouter(tags=["Time"])


@router.get("/clock", openapi_extra=calls("clock.now_ms"))
async def read_clock(on_broker: OnBroker) -> Clock:
    """The broker's time."""
    return Clock(now_ms=await on_broker(lambda broker: broker.clock.now_ms()))


@router.post("/clock/advance", openapi_extra=calls("clock.advance"))
async def advance_clock(by: Advance, on_broker: OnBroker) -> Clock:
    """Move time on: sessions end, transactions and delayed requests time out, chores such as retention are done."""

    async def work(broker: AsyncOperations) -> int:
        await broker.clock.advance(by.seconds)
        return await broker.clock.now_ms()

    return Clock(now_ms=await on_broker(work))


@router.post("/retention/run", openapi_extra=calls("retention.run"))
async def run_retention(on_broker: OnBroker) -> Retained:
    """Delete what is not to be kept any longer, now."""
    return Retained(deleted_segments=await on_broker(lambda broker: broker.retention.run()))


@router.post("/compact", status_code=204, openapi_extra=calls("compact"))
async def compact(on_broker: OnBroker, options: Compaction | None = None) -> None:
    """Compact up to what was produced until now; the answer comes when it is done."""
    topic = None if options is None else options.topic
    await on_broker(lambda broker: broker.compact(topic))
