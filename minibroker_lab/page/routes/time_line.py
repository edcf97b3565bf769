"""The time line, and the broker as it was at one of its requests."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from minibroker_lab.page.time_line import TimeLine

router = APIRouter(prefix="/timeline")


@router.get("")
async def view(request: Request) -> dict[str, Any]:
    """All requests and events in their order."""
    time_line: TimeLine = request.app.state.time_line
    return await time_line.view()


@router.get("/{number}")
async def moment(request: Request, number: Annotated[int, Path(ge=1)]) -> dict[str, Any]:
    """Groups, offsets and logs as they were when a request was answered."""
    time_line: TimeLine = request.app.state.time_line
    return await time_line.moment(request.app.state.remote, number)
