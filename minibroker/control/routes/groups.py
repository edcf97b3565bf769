"""Consumer groups. Their ids may hold slashes, so the shorter path comes last."""

from typing import Annotated, Final

from fastapi import APIRouter, Query

from minibroker.control.models import CommittedOffsets, Group, GroupWait, Lag
from minibroker.control.page_models import GroupIds
from minibroker.control.remote import OnBroker
from minibroker.control.routes import calls
from minibroker.control.waiting_models import CatchingUp
from minibroker.operations.paging import page_of

router = APIRouter(tags=["Groups"])

_GROUPS: Final = 1_000
_MOST_GROUPS: Final = 10_000


@router.get("/groups", openapi_extra=calls("groups"))
async def list_groups(
    on_broker: OnBroker,
    after: Annotated[str | None, Query(description="Leaves out this id, and those that sort before it.")] = None,
    limit: Annotated[int, Query(ge=1, le=_MOST_GROUPS, description="At most so many.")] = _GROUPS,
) -> GroupIds:
    """The ids of consumer groups; `next_after` tells where to go on."""
    groups, next_after = page_of(await on_broker(lambda broker: broker.groups()), after or "", limit)
    return GroupIds(groups=groups, next_after=next_after)


@router.get("/groups/{group_id:path}/committed", openapi_extra=calls("group.committed"))
async def committed_offsets(group_id: str, on_broker: OnBroker) -> CommittedOffsets:
    """What a group has committed."""
    return CommittedOffsets.of(await on_broker(lambda broker: broker.group(group_id).committed()))


@router.get("/groups/{group_id:path}/lag", openapi_extra=calls("group.lag"))
async def group_lag(group_id: str, on_broker: OnBroker) -> Lag:
    """How many offsets a group is behind, where it has committed or is assigned."""
    return Lag.of(await on_broker(lambda broker: broker.group(group_id).lag()))


@router.post("/groups/{group_id:path}/wait-until-stable", openapi_extra=calls("group.wait_until_stable"))
async def wait_until_stable(group_id: str, on_broker: OnBroker, wanted: GroupWait | None = None) -> Group:
    """Wait until every member has its assignment, and somebody has each partition that they subscribe to."""
    said = wanted or GroupWait()
    return Group.of(
        await on_broker(lambda broker: broker.group(group_id).wait_until_stable(said.members, timeout=said.timeout))
    )


@router.post("/groups/{group_id:path}/wait-until-caught-up", openapi_extra=calls("group.wait_until_caught_up"))
async def wait_until_caught_up(
    group_id: str, on_broker: OnBroker, wanted: CatchingUp | None = None
) -> CommittedOffsets:
    """Wait until a group has read and committed all records; `message` names the partitions that are behind."""
    asked = wanted or CatchingUp()
    return CommittedOffsets.of(
        await on_broker(lambda broker: broker.group(group_id).wait_until_caught_up(asked.topic, timeout=asked.timeout))
    )


@router.post("/groups/{group_id:path}/rebalance", status_code=204, openapi_extra=calls("group.rebalance"))
async def rebalance(group_id: str, on_broker: OnBroker) -> None:
    """Have all members join again, as if one had come or gone. 409 for a group without members."""
    await on_broker(lambda broker: broker.group(group_id).rebalance())


@router.get("/groups/{group_id:path}", openapi_extra=calls("group.describe"))
async def describe_group(group_id: str, on_broker: OnBroker) -> Group:
    """State, generation and members; a group that nobody knows is Dead."""
    return Group.of(await on_broker(lambda broker: broker.group(group_id).describe()))
