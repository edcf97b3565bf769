"""The state created by clients: groups, transactions, fetch sessions and waiting requests."""

from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request

from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.share_groups import share_partitions
from minibroker.operations.views import groups
from minibroker.operations.views import state as views_state
from minibroker_control.remote import OnBroker
from minibroker_lab.page.fetch_savings import FetchSavings

router = APIRouter()

_MAX_SHARE_PARTITIONS: Final = 200

After = Annotated[str, Query(description="Leaves out those up to this name.")]


@router.get("/state")
async def overview(request: Request, on_broker: OnBroker) -> dict[str, Any]:
    """Return the brokers, the first partitions, groups and transactions, the fetch sessions, and all waiting requests.

    The savings of a session are None if its start is no longer recorded.
    """

    async def work(broker: AsyncOperations) -> dict[str, Any]:
        services = broker.services
        return {
            "replicas": asdict(await views_state.replicas_view(services)),
            "groups": asdict(await groups.group_page(services)),
            "transactions": asdict(await views_state.transaction_page(services)),
            "sessions": [asdict(session) for session in await views_state.fetch_sessions(services)],
            "delayed": [asdict(request) for request in await views_state.delayed_requests(services)],
        }

    state = await on_broker(work)
    savings: FetchSavings = request.app.state.fetch_savings
    await savings.catch_up()
    for session in state["sessions"]:
        saved = savings.of(session["node"], session["id"])
        session["savings"] = None if saved is None else asdict(saved)
    return state


@router.get("/groups")
async def more_groups(on_broker: OnBroker, after: After = "") -> dict[str, Any]:
    """Return the next page of groups, after the group with this name."""
    return asdict(await on_broker(lambda broker: groups.group_page(broker.services, after)))


@router.get("/groups/{group_id:path}")
async def group(on_broker: OnBroker, group_id: Annotated[str, Path()]) -> dict[str, Any]:
    """Return one group: its members, assignments and committed offsets, and for a share group the records in flight."""

    async def work(broker: AsyncOperations) -> dict[str, Any]:
        view = await groups.group_view(broker.services, group_id)
        partitions = await share_partitions(broker.services, group_id) if view.type == ShareGroup.kind else {}
        shared = [
            {"topic": topic, "partition": partition, "acquired": share_partition.acquired, **asdict(share_partition)}
            for (topic, partition), share_partition in sorted(partitions.items())[:_MAX_SHARE_PARTITIONS]
        ]
        return {**asdict(view), "shared": shared}

    return await on_broker(work)
