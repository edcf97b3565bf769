"""The time line, the history of one record, and the facts that every view shows."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from minibroker.config.version import __version__
from minibroker_control.remote import OnBroker, from_state
from minibroker_lab.page.follow.story import story
from minibroker_lab.page.routes import OnRecorder
from minibroker_lab.page.time_line import TimeLine

broker = APIRouter()
proxy = APIRouter()
time_line = APIRouter(prefix="/timeline")
following = APIRouter(prefix="/follow")

OnTimeLine = Annotated[TimeLine, from_state("time_line")]


@broker.get("/lab")
async def about(on_broker: OnBroker) -> dict[str, Any]:
    """Return facts about the broker that the page shows."""
    return await on_broker.get(
        lambda broker: {
            "version": __version__,
            "bootstrap_servers": broker.bootstrap_servers,
            "cluster_id": broker.services.core.cluster.cluster_id,
            "nodes": sorted(broker.services.core.cluster.nodes),
        }
    )


@proxy.get("/lab")
async def about_proxy(request: Request) -> dict[str, Any]:
    """Return facts about the proxy and the cluster behind it."""
    facts: dict[str, Any] = request.app.state.facts
    return facts


@time_line.get("")
async def view(line: OnTimeLine) -> dict[str, Any]:
    """Return all requests and events in order."""
    return await line.view()


@time_line.get("/{number}")
async def moment(request: Request, line: OnTimeLine, number: Annotated[int, Path(ge=1)]) -> dict[str, Any]:
    """Return the groups, offsets and logs at the time when a request was answered."""
    return await line.moment(request.app.state.remote, number)


@following.get("/{topic}/{partition}/{offset}")
async def follow(
    request: Request,
    on_broker: OnBroker,
    recorder: OnRecorder,
    topic: Annotated[str, Path()],
    partition: Annotated[int, Path(ge=0)],
    offset: Annotated[int, Path(ge=0)],
) -> dict[str, Any]:
    """Return the stages of a record's life that logs and recorded requests show."""
    return await story(on_broker, recorder, request.app.state.searches, topic, partition, offset)
