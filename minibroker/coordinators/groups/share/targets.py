"""Target assignments of share groups (Kafka's `TargetAssignmentBuilder`)."""

from collections.abc import Mapping

from minibroker.coordinators.groups.assignors.pace import Pace
from minibroker.coordinators.groups.assignors.simple import assign_simply
from minibroker.coordinators.groups.assignors.spec import MemberSpec
from minibroker.coordinators.groups.modern.member_targets import MemberTargets
from minibroker.coordinators.groups.modern.partitions import NOTHING, Partitions
from minibroker.coordinators.groups.modern.topics import TopicMetadata
from minibroker.coordinators.groups.share import changes as records
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.coordinators.groups.share.member import ShareMember
from minibroker.coordinators.groups.store import GroupStore
from minibroker.coordinators.java_order import hash_order, string_hash
from minibroker.support.slices import Slices, Steps, Work

_Target = dict[str, Partitions]


class ShareTargets(MemberTargets[ShareGroup, Partitions]):
    """Makes the targets of all share groups."""

    def __init__(self, slices: Slices, store: GroupStore) -> None:
        super().__init__(slices, store, records.target_assignment, records.assignment_epoch)

    def begin(
        self, group: ShareGroup, members: Mapping[str, ShareMember], topics: Mapping[str, TopicMetadata]
    ) -> _Target | Work[_Target]:
        """Begin to make a target: the partitions of each member, or the work that goes on."""
        return self.slices.begin(_make(members, topics, dict(group.target), group.partitions.indexes()))


def _make(
    members: Mapping[str, ShareMember],
    topics: Mapping[str, TopicMetadata],
    present: Mapping[str, Partitions],
    ready: Partitions,
) -> Steps[_Target]:
    """Make the target; members are in the order of Kafka's records."""
    pace = Pace()
    ids: dict[frozenset[str], list[bytes]] = {}
    specs: dict[str, MemberSpec] = {}
    for member_id, member in members.items():
        listed = ids.get(member.topics)
        if listed is None:
            listed = [topics[name].topic_id for name in sorted(member.topics) if name in topics]
            ids[member.topics] = listed
        specs[member_id] = MemberSpec(None, listed, present.get(member_id, NOTHING))
        if pace.is_due(2 + len(listed)):
            yield
    assigned = yield from assign_simply(specs, ready, homogeneous=len(ids) == 1)
    return {member_id: assigned.get(member_id, NOTHING) for member_id in hash_order(specs, string_hash)}
