"""The facts that every view shows."""

from typing import Any

from fastapi import APIRouter

from minibroker.config.version import __version__
from minibroker.control.remote import OnBroker
from minibroker.operations.asynchronous import AsyncOperations

router = APIRouter()


@router.get("/lab")
async def about(on_broker: OnBroker) -> dict[str, Any]:
    """The broker that the page shows."""

    async def work(broker: AsyncOperations) -> dict[str, Any]:
        core = broker.services.core
        return {
            "version": __version__,
            "bootstrap_servers": broker.bootstrap_servers,
            "cluster_id": core.cluster.cluster_id,
            "nodes": sorted(core.cluster.nodes),
        }

    return await on_broker(work)
