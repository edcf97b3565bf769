"""The state created by clients: groups, transactions, fetch sessions and waiting requests."""

from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request

from minibroker.control.remote import OnBroker
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.share_groups import share_partitions
from minibroker.operations.views import clients, groups, replicas, transactions
from minibroker_lab.page.fetch_savings import FetchSavings
from minibroker_lab.page.recorder import Recorder
from minibroker_lab.page.routes import OnRecorder

router = APIRouter()

_MOST_SHARED: Final = 200
_MOST_NEWEST: Final = 5_000
"""The number of requests that are searched for waiting ones."""

After = Annotated[str, Query(description="Leaves out those up to this name.")]


@router.get("/state")
async def overview(request: Request, on_broker: OnBroker, recorder: OnRecorder) -> dict[str, Any]:
    """Return the brokers, the first partitions, groups and transactions, the fetch sessions, and all waiting requests.

    The savings of a session are None if its start is no longer recorded.
    """

    async def work(broker: AsyncOperations) -> dict[str, Any]:
        services = broker.services
        return {
            "replicas": asdict(await replicas.replicas_view(services)),
            "groups": asdict(await groups.group_page(services)),
            "transactions": asdict(await transactions.transaction_page(services)),
            "sessions": [asdict(each) for each in await clients.fetch_sessions(services)],
            "delayed": [asdict(each) for each in await clients.delayed_requests(services)],
        }

    found = await on_broker(work)
    _name(found["delayed"], recorder)
    savings: FetchSavings = request.app.state.fetch_savings
    await savings.catch_up()
    for each in found["sessions"]:
        saved = savings.of(each["node"], each["id"])
        each["savings"] = None if saved is None else asdict(saved)
    return found


def _name(delayed: list[dict[str, Any]], recorder: Recorder) -> None:
    """Add the API and the client id to waiting requests. A broker without a journal does not keep them."""
    recorder.catch_up()
    rows = recorder.rows
    newest = recorder.between(recorder.last - _MOST_NEWEST, recorder.last)
    waiting = {(each.client, each.correlation_id): each for each in newest if each.ended_ms is None}
    for each in delayed:
        exchange = waiting.get((each["client"], each["correlation_id"]))
        if each["api"] is None and exchange is not None:
            row = rows.row(exchange)
            each.update(api=row.api, client_id=row.client_id)


@router.get("/groups")
async def more_groups(on_broker: OnBroker, after: After = "") -> dict[str, Any]:
    """Return the groups after a name."""

    async def work(broker: AsyncOperations) -> dict[str, Any]:
        return asdict(await groups.group_page(broker.services, after))

    return await on_broker(work)


@router.get("/groups/{group_id:path}")
async def group(on_broker: OnBroker, group_id: Annotated[str, Path()]) -> dict[str, Any]:
    """Return one group with its members, assignments and committed offsets.

    For a share group, the records in flight are included.
    """

    async def work(broker: AsyncOperations) -> dict[str, Any]:
        found = await groups.group_view(broker.services, group_id)
        in_hand = await share_partitions(broker.services, group_id) if found.type == ShareGroup.kind else {}
        shared = [
            {"topic": topic, "partition": partition, "acquired": each.acquired, **asdict(each)}
            for (topic, partition), each in sorted(in_hand.items())[:_MOST_SHARED]
        ]
        return {**asdict(found), "shared": shared}

    return await on_broker(work)
