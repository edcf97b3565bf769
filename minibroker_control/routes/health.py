"""Routes for the health of the broker, used by people, container runtimes and Prometheus."""

import asyncio
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Header, Response
from pydantic import Field

from minibroker.config.version import __version__
from minibroker.operations.asynchronous import AsyncOperations
from minibroker_control.errors import UnavailableError
from minibroker_control.metrics import collect_metrics, encode_metrics
from minibroker_control.models import ResponseBody
from minibroker_control.remote import OnBroker
from minibroker_control.routes import calls


class BrokerInfo(ResponseBody):
    """The brokers as a whole."""

    name: Literal["minibroker"] = "minibroker"
    version: str
    cluster_id: str
    bootstrap_servers: str = Field(description="The `bootstrap.servers` of clients.")
    controller: int | None = Field(description="The node id of the controller, or null while no broker is up.")
    registry_url: str | None = Field(
        description="The URL of the schema registry for programs on the broker's machine, or null without a registry."
    )


class Status(ResponseBody):
    """The state of the broker."""

    status: Literal["ok", "down"]


router = APIRouter(tags=["Health"])

_PATIENCE_S: Final = 5


@router.get("/", openapi_extra=calls("bootstrap_servers"))
async def about(on_broker: OnBroker) -> BrokerInfo:
    """Return the version of the broker and the addresses for its clients."""

    async def work(broker: AsyncOperations) -> BrokerInfo:
        controller = broker.services.core.cluster.controller
        return BrokerInfo(
            version=__version__,
            cluster_id=broker.services.core.cluster.cluster_id,
            bootstrap_servers=broker.bootstrap_servers,
            controller=None if controller is None else controller.id,
            registry_url=broker.services.registry_url,
        )

    return await on_broker(work)


@router.get("/healthz", openapi_extra=calls())
async def healthz(on_broker: OnBroker) -> Status:
    """Return whether the broker's event loop is running. Returns 503 otherwise. Needs no token."""
    await _are_up(on_broker)
    return Status(status="ok")


@router.get("/readyz", responses={503: {"model": Status, "description": "No broker is up"}}, openapi_extra=calls())
async def readyz(on_broker: OnBroker, response: Response) -> Status:
    """Return whether clients can connect. Returns 503 while no broker is up. Needs no token."""
    if any(await _are_up(on_broker)):
        return Status(status="ok")
    response.status_code = 503
    return Status(status="down")


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}, "description": "In Prometheus' text format or OpenMetrics"}},
    openapi_extra=calls(),
)
async def metrics(on_broker: OnBroker, accept: Annotated[str, Header()] = "") -> Response:
    """Return metrics for Prometheus. Kafka's metrics have the names that the Prometheus JMX exporter gives them."""
    content, content_type = encode_metrics(await on_broker(collect_metrics), accept)
    return Response(content, headers={"Content-Type": content_type})


async def _are_up(on_broker: OnBroker) -> list[bool]:
    looking = on_broker.get(lambda broker: [node.is_up for node in broker.services.core.cluster.nodes.values()])
    try:
        return await asyncio.wait_for(looking, _PATIENCE_S)
    except TimeoutError:
        raise UnavailableError from None
