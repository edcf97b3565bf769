"""Groups of consumers and share groups. Ids may hold slashes (see `NamesRoute`): the shorter path comes last."""

from collections.abc import Mapping
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import Field

from minibroker.cluster.errors import collected_warnings
from minibroker.control.models import About, Body, Place, Timeout, Warned, by_place, describes, warned
from minibroker.control.parameters import NamesRoute
from minibroker.control.remote import OnBroker
from minibroker.control.routes import calls
from minibroker.operations.groups import GroupDescription, MemberDescription
from minibroker.operations.share_groups import InFlightRecords, SharePartitionDescription
from minibroker.operations.topics import page_of
from minibroker.operations.wording import Int64
from minibroker_storage.data_directory.names import TopicPartition


class GroupIds(About):
    """Some consumer groups, by id."""

    groups: list[str]
    next_after: str | None = Field(description="The `after` that goes on; null once all were listed.")


class Assigned(Place):
    """A partition."""


@describes(MemberDescription)
class Member(About):
    """A member of a group."""

    partitions: list[Assigned] | None = Field(description="Null while it waits, or when it is not a consumer.")


@describes(GroupDescription, is_stable="state")
class Group(About):
    """A group at one moment."""

    is_stable: bool
    members: list[Member]


class Committed(Place):
    """The committed offset of a partition."""

    offset: Int64


class CommittedOffsets(About):
    """The committed offsets of a group."""

    partitions: list[Committed]


class PartitionLag(Place):
    """The offsets that a group is behind in a partition."""

    lag: Int64


class Lag(Warned):
    """The offsets that a group is behind."""

    total: Int64
    partitions: list[PartitionLag]


@describes(InFlightRecords)
class InFlight(About):
    """Neighboring offsets that were delivered to a share group and are in the same state."""


@describes(SharePartitionDescription, acquired="lag")
class SharePartition(Place):
    """A partition as a share group sees it (KIP-932)."""

    acquired: Int64 = Field(description="The offsets that members have in hand.")
    in_flight: list[InFlight]


class SharePartitionList(About):
    """The partitions that a share group reads."""

    partitions: list[SharePartition]


class GroupWait(Body):
    """The members to wait for, and how long."""

    members: int | None = Field(default=None, ge=0, description="So many of them; null for any.")
    timeout: Timeout = 10.0


class CatchingUp(Body):
    """The topic that a group is to have read, and how long to wait."""

    topic: str | None = Field(default=None, description="Null for all that it has committed for or is assigned.")
    timeout: Timeout = 10.0


router = APIRouter(tags=["Groups"], route_class=NamesRoute)

_GROUPS: Final = 1_000
_MOST_GROUPS: Final = 10_000


@router.get("/groups", openapi_extra=calls("groups"))
async def list_groups(
    on_broker: OnBroker,
    after: Annotated[str | None, Query(description="Leaves out this id, and those that sort before it.")] = None,
    limit: Annotated[int, Query(ge=1, le=_MOST_GROUPS, description="At most so many.")] = _GROUPS,
) -> GroupIds:
    """The ids of consumer groups; to go on, give `next_after` as `after`."""
    groups, next_after = page_of(await on_broker(lambda broker: broker.groups()), after or "", limit)
    return GroupIds(groups=groups, next_after=next_after)


@router.get("/groups/{group_id:path}/committed", openapi_extra=calls("group.committed"))
async def committed_offsets(group_id: str, on_broker: OnBroker) -> CommittedOffsets:
    """The committed offsets of a group."""
    return _committed(await on_broker(lambda broker: broker.group(group_id).committed()))


@router.get("/groups/{group_id:path}/lag", response_model_exclude_unset=True, openapi_extra=calls("group.lag"))
async def group_lag(group_id: str, on_broker: OnBroker) -> Lag:
    """The offsets that a group is behind, where it has committed or is assigned."""
    with collected_warnings() as warnings:
        lag = await on_broker(lambda broker: broker.group(group_id).lag())
    partitions = by_place(lag, lambda behind: {"lag": behind})
    return Lag.model_validate({"total": sum(lag.values()), "partitions": partitions, **warned(warnings)})


@router.get("/groups/{group_id:path}/share-partitions", openapi_extra=calls("group.share_partitions"))
async def share_partitions(group_id: str, on_broker: OnBroker) -> SharePartitionList:
    """The partitions of a share group, with the records in flight. 409 for a group of another type."""
    described = await on_broker(lambda broker: broker.group(group_id).share_partitions())
    names = SharePartition.model_fields.keys() - Place.model_fields.keys()
    partitions = by_place(described, lambda each: {name: getattr(each, name) for name in names})
    return SharePartitionList.model_validate({"partitions": partitions})


@router.post("/groups/{group_id:path}/wait-until-stable", openapi_extra=calls("group.wait_until_stable"))
async def wait_until_stable(group_id: str, on_broker: OnBroker, options: GroupWait | None = None) -> Group:
    """Wait until every member has its assignment, and each partition that they subscribe to has an owner."""
    wait = options or GroupWait()
    found = await on_broker(lambda broker: broker.group(group_id).wait_until_stable(wait.members, timeout=wait.timeout))
    return Group.model_validate(found)


@router.post("/groups/{group_id:path}/wait-until-caught-up", openapi_extra=calls("group.wait_until_caught_up"))
async def wait_until_caught_up(
    group_id: str, on_broker: OnBroker, options: CatchingUp | None = None
) -> CommittedOffsets:
    """Wait until a group has read and committed all records; `message` names the partitions that are behind."""
    asked = options or CatchingUp()
    return _committed(
        await on_broker(lambda broker: broker.group(group_id).wait_until_caught_up(asked.topic, timeout=asked.timeout))
    )


@router.post("/groups/{group_id:path}/rebalance", status_code=204, openapi_extra=calls("group.rebalance"))
async def rebalance(group_id: str, on_broker: OnBroker) -> None:
    """Have all members join again, as if one had come or gone. 409 for a group without members."""
    await on_broker(lambda broker: broker.group(group_id).rebalance())


@router.get("/groups/{group_id:path}", openapi_extra=calls("group.describe"))
async def describe_group(group_id: str, on_broker: OnBroker) -> Group:
    """State, generation and members; an unknown group is Dead."""
    return Group.model_validate(await on_broker(lambda broker: broker.group(group_id).describe()))


def _committed(offsets: Mapping[TopicPartition, int]) -> CommittedOffsets:
    return CommittedOffsets.model_validate({"partitions": by_place(offsets, lambda offset: {"offset": offset})})
