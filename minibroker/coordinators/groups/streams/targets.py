"""Target assignments of streams groups (Kafka's `TargetAssignmentBuilder` of streams groups)."""

from collections.abc import Mapping

from minibroker.coordinators.groups.modern.member_targets import MemberTargets
from minibroker.coordinators.groups.store import GroupStore
from minibroker.coordinators.groups.streams import changes as records
from minibroker.coordinators.groups.streams.group import StreamsGroup
from minibroker.coordinators.groups.streams.internal_topics import ConfiguredTopology
from minibroker.coordinators.groups.streams.member import StreamsMember
from minibroker.coordinators.groups.streams.sticky import StreamsMemberSpec, TaskCounts, assign_sticky
from minibroker.coordinators.groups.streams.tasks import NO_TASKS, Tasks
from minibroker.coordinators.java_order import hash_order, string_hash
from minibroker.support.slices import Slices, Steps, Work

_Target = dict[str, Tasks]


class StreamsTargets(MemberTargets[StreamsGroup, Tasks]):
    """Makes the targets of all streams groups."""

    def __init__(self, slices: Slices, store: GroupStore) -> None:
        super().__init__(slices, store, records.target_assignment, records.assignment_epoch)

    def begin(
        self,
        group: StreamsGroup,
        members: Mapping[str, StreamsMember],
        topology: ConfiguredTopology,
        standbys: int,
    ) -> _Target | Work[_Target]:
        """Begin to make a target: the tasks of each member, or the work that goes on.

        No member has any while the topics of the topology are not ready.
        """
        specs = {
            each: StreamsMemberSpec(
                member.process_id, member.assigned.without_epochs(), group.reported_by(each).reached
            )
            for each, member in members.items()
        }
        counts: dict[str, TaskCounts] = {}
        if topology.is_ready:
            for name, each in (topology.subtopologies or {}).items():
                counts[name] = TaskCounts(each.tasks, bool(each.changelogs))
        return self.slices.begin(_make(specs, counts, standbys))


def _make(specs: Mapping[str, StreamsMemberSpec], counts: Mapping[str, TaskCounts], standbys: int) -> Steps[_Target]:
    """Make the target; members are in the order of Kafka's records."""
    assigned = yield from assign_sticky(specs, counts, standbys)
    return {member_id: assigned.get(member_id, NO_TASKS) for member_id in hash_order(specs, string_hash)}
