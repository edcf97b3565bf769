"""One record followed from its Produce request to its end."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from minibroker.control.remote import OnBroker
from minibroker_lab.page.follow.story import story
from minibroker_lab.page.routes import OnRecorder

router = APIRouter(prefix="/follow")


@router.get("/{topic}/{partition}/{offset}")
async def follow(
    request: Request,
    on_broker: OnBroker,
    recorder: OnRecorder,
    topic: Annotated[str, Path()],
    partition: Annotated[int, Path(ge=0)],
    offset: Annotated[int, Path(ge=0)],
) -> dict[str, Any]:
    """The stages of a record's life, as far as logs and recorded requests show it."""
    return await story(on_broker, recorder, request.app.state.searches, topic, partition, offset)
