"""Routes for groups and share groups. Ids can contain slashes (see `NamesRoute`), so the shorter path comes last."""

from collections.abc import Mapping
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import Field

from minibroker.cluster.errors import collect_warnings
from minibroker.operations.groups import GroupDescription, MemberDescription
from minibroker.operations.share_groups import InFlightRecords, SharePartitionDescription
from minibroker.operations.topics import page_of
from minibroker.operations.wording import Int64
from minibroker_control.models import (
    Body,
    NamesRoute,
    Place,
    ResponseBody,
    Timeout,
    WithWarnings,
    by_partition,
    describes,
    warnings_field,
)
from minibroker_control.remote import OnBroker
from minibroker_control.routes import calls
from minibroker_storage.data_directory.names import TopicPartition


class GroupIds(ResponseBody):
    """A page of consumer group ids."""

    groups: list[str]
    next_after: str | None = Field(description="The `after` of the next page, or null after the last page.")


class Assigned(Place):
    """An assigned partition."""


@describes(MemberDescription)
class Member(ResponseBody):
    """A member of a group."""

    partitions: list[Assigned] | None = Field(description="Null while the member waits, or if it is not a consumer.")


@describes(GroupDescription, is_stable="state")
class Group(ResponseBody):
    """The state of a group at one moment."""

    is_stable: bool
    members: list[Member]


class Committed(Place):
    """The committed offset of a partition."""

    offset: Int64


class CommittedOffsets(ResponseBody):
    """The committed offsets of a group."""

    partitions: list[Committed]


class PartitionLag(Place):
    """The lag of a group in one partition."""

    lag: Int64


class Lag(WithWarnings):
    """The lag of a group."""

    total: Int64
    partitions: list[PartitionLag]


@describes(InFlightRecords)
class InFlight(ResponseBody):
    """Consecutive offsets that were delivered to a share group and have the same state."""


@describes(SharePartitionDescription, acquired="lag")
class SharePartition(Place):
    """The state of a share-partition (KIP-932)."""

    acquired: Int64 = Field(description="The number of offsets acquired by members.")
    in_flight: list[InFlight]


class SharePartitionList(ResponseBody):
    """The partitions that a share group reads."""

    partitions: list[SharePartition]


class GroupWait(Body):
    """The number of members to wait for, and the timeout."""

    members: int | None = Field(default=None, ge=0, description="The number of members, or null for any number.")
    timeout: Timeout = 10.0


class CatchingUp(Body):
    """The topic that a group is expected to have read, and the timeout."""

    topic: str | None = Field(default=None, description="Null for all topics with commits or assigned partitions.")
    timeout: Timeout = 10.0


router = APIRouter(tags=["Groups"], route_class=NamesRoute)

_GROUPS: Final = 1_000
_MAX_GROUPS: Final = 10_000


@router.get("/groups", openapi_extra=calls("groups"))
async def list_groups(
    on_broker: OnBroker,
    after: Annotated[str | None, Query(description="Skips this id and all ids sorted before it.")] = None,
    limit: Annotated[int, Query(ge=1, le=_MAX_GROUPS, description="The maximum number of ids.")] = _GROUPS,
) -> GroupIds:
    """List the ids of consumer groups. To continue, pass `next_after` as `after`."""
    groups, next_after = page_of(await on_broker(lambda broker: broker.groups()), after or "", limit)
    return GroupIds(groups=groups, next_after=next_after)


@router.get("/groups/{group_id:path}/committed", openapi_extra=calls("group.committed"))
async def committed_offsets(group_id: str, on_broker: OnBroker) -> CommittedOffsets:
    """Return the committed offsets of a group."""
    return _list_committed(await on_broker(lambda broker: broker.group(group_id).committed()))


@router.get("/groups/{group_id:path}/lag", response_model_exclude_unset=True, openapi_extra=calls("group.lag"))
async def group_lag(group_id: str, on_broker: OnBroker) -> Lag:
    """Return the lag of a group in each partition with a committed offset or an assigned member."""
    with collect_warnings() as warnings:
        lag = await on_broker(lambda broker: broker.group(group_id).lag())
    partitions = by_partition(lag, lambda behind: {"lag": behind})
    return Lag.model_validate({"total": sum(lag.values()), "partitions": partitions, **warnings_field(warnings)})


@router.get("/groups/{group_id:path}/share-partitions", openapi_extra=calls("group.share_partitions"))
async def share_partitions(group_id: str, on_broker: OnBroker) -> SharePartitionList:
    """Return the partitions of a share group and their records in flight. Returns 409 for a group of another type."""
    described = await on_broker(lambda broker: broker.group(group_id).share_partitions())
    names = SharePartition.model_fields.keys() - Place.model_fields.keys()
    partitions = by_partition(described, lambda state: {name: getattr(state, name) for name in names})
    return SharePartitionList.model_validate({"partitions": partitions})


@router.post("/groups/{group_id:path}/wait-until-stable", openapi_extra=calls("group.wait_until_stable"))
async def wait_until_stable(group_id: str, on_broker: OnBroker, options: GroupWait | None = None) -> Group:
    """Wait until every member has its assignment and every subscribed partition has an owner."""
    wait = options or GroupWait()
    state = await on_broker(lambda broker: broker.group(group_id).wait_until_stable(wait.members, timeout=wait.timeout))
    return Group.model_validate(state)


@router.post("/groups/{group_id:path}/wait-until-caught-up", openapi_extra=calls("group.wait_until_caught_up"))
async def wait_until_caught_up(
    group_id: str, on_broker: OnBroker, options: CatchingUp | None = None
) -> CommittedOffsets:
    """Wait until a group has read and committed all records.

    On a timeout, `message` names the partitions that lag behind.
    """
    wait = options or CatchingUp()
    return _list_committed(
        await on_broker(lambda broker: broker.group(group_id).wait_until_caught_up(wait.topic, timeout=wait.timeout))
    )


@router.post("/groups/{group_id:path}/rebalance", status_code=204, openapi_extra=calls("group.rebalance"))
async def rebalance(group_id: str, on_broker: OnBroker) -> None:
    """Make all members rejoin, as if a member had joined or left. Returns 409 for a group without members."""
    await on_broker(lambda broker: broker.group(group_id).rebalance())


@router.get("/groups/{group_id:path}", openapi_extra=calls("group.describe"))
async def describe_group(group_id: str, on_broker: OnBroker) -> Group:
    """Return the state, generation and members of a group. An unknown group is Dead."""
    return Group.model_validate(await on_broker(lambda broker: broker.group(group_id).describe()))


def _list_committed(offsets: Mapping[TopicPartition, int]) -> CommittedOffsets:
    return CommittedOffsets.model_validate({"partitions": by_partition(offsets, lambda offset: {"offset": offset})})
