"""One broker as a script about streams groups sees it: see `group_world`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from minibroker_protocol.coordinator_records.streams_groups import (
    STREAMS_GROUP_RECORDS,
    StreamsGroupTargetAssignmentMemberKey,
)
from minibroker_protocol.messages.streams_group import (
    StreamsGroupDescribeRequest,
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
)
from minibroker_protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Topology
from minibroker_protocol.schema import schema_of
from tests.broker.handlers.streams_group_requests import COMPACTED, listed, named, subtopology, topic, topology
from tests.kafka.consumer_group_world import ConsumerWorld

Named = Mapping[str, Sequence[int]]
_REBALANCE_MS: Final = 60_000
_WAITING: Final = {3, 5}
"""Statuses that go away by themselves: internal topics are being made, the assignment comes later."""


_SETTLED: Final = {"Stable", "NotReady", "Empty"}


class StreamsWorld(ConsumerWorld):
    """A world whose group is a streams group; what each member was given last is kept."""

    records_of = STREAMS_GROUP_RECORDS
    targets_of = schema_of(StreamsGroupTargetAssignmentMemberKey).versions.first
    version = 1
    beside = ("streams.assignment.interval.ms", 1_000)
    not_recorded = frozenset({"metadata_hash", "assignment_timestamp"})

    def __init__(self, address: tuple[str, int], group_id: str) -> None:
        super().__init__(address, group_id)
        self.epochs: dict[str, int] = {}
        self.tasks: dict[str, tuple[Named, Named]] = {}

    # Topologies

    def plain(self, *sources: str, epoch: int = 0) -> Topology:
        """One subtopology that reads topics."""
        return topology(subtopology("0", [self.topic(each) for each in sources]), epoch=epoch)

    def counting(self, source: str = "t", epoch: int = 0, partitions: int = 0) -> Topology:
        """A topic between two parts, and a store in the second."""
        between, store = self.topic("repartition"), self.topic("changelog")
        return topology(
            subtopology("0", [self.topic(source)], sinks=[between]),
            subtopology("1", [], repartition=[topic(between, partitions)], changelogs=[topic(store, 0, COMPACTED)]),
            epoch=epoch,
        )

    def joining(self, epoch: int = 0) -> Topology:
        """Two topics that are joined, one of them by way of a topic of its own, with a store."""
        between, store = self.topic("between"), self.topic("store")
        return topology(
            subtopology("0", [self.topic("u")], sinks=[between]),
            subtopology(
                "1", [self.topic("t")], repartition=[topic(between)], changelogs=[topic(store)], joined=[([0], [0])]
            ),
            epoch=epoch,
        )  # fmt: skip

    # Members

    def send_beat(self, member: str, epoch: int, *, owned: Named | None = None, **fields: Any) -> Any:
        """Send a heartbeat; the answer, which is not noted."""
        if epoch == 0:
            defaults = {"rebalance_timeout_ms": _REBALANCE_MS, "process_id": f"p-{member}", "topology": self.plain("t")}
            fields = {**defaults, **fields}
            owned = {} if owned is None else owned
        if owned is not None:
            named_tasks = {name: list(indexes) for name, indexes in owned.items()}
            fields = {"active_tasks": listed(named_tasks), "standby_tasks": [], "warmup_tasks": [], **fields}
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member,
            member_epoch=epoch,
            endpoint_information_epoch=fields.pop("endpoint_epoch", -1),
            **fields,
        )
        return self.client(member or "nobody").ask(request, self.version)

    def streams_beat(self, member: str, epoch: int, **fields: Any) -> Any:
        """Send a heartbeat and note the answer; the member keeps the tasks that it is given, and joins with epoch 0."""
        answer = self.send_beat(member, epoch, **fields)
        self._keep(member, answer)
        if epoch == 0 and not answer.error_code:
            self.epochs[member] = answer.member_epoch
        self.note(f"{member} in {epoch}", answer)
        return answer

    def step(self, member: str, **fields: Any) -> Any:
        """Send and note a heartbeat of a member that does at once as it is told; it joins with the first one."""
        answer = self._take(member, **fields)
        self.note(f"{member} goes on", answer)
        return answer

    def _take(self, member: str, **fields: Any) -> Any:
        active, standby = self.tasks.get(member, ({}, {}))
        epoch = self.epochs.get(member, 0)
        if epoch:
            fields = {"standby_tasks": listed({name: list(each) for name, each in standby.items()}), **fields}
        answer = self.send_beat(member, epoch, owned=active, **fields)
        if not answer.error_code:
            self.epochs[member] = answer.member_epoch
            self._keep(member, answer)
        elif epoch:
            self.forget_member(member)
        return answer

    def _keep(self, member: str, answer: Any) -> None:
        if answer.active_tasks is not None:
            self.tasks[member] = named(answer.active_tasks), named(answer.standby_tasks)

    def forget_member(self, member: str) -> None:
        """A member has left, or is fenced."""
        self.epochs.pop(member, None)
        self.tasks.pop(member, None)

    def go(self, member: str) -> None:
        """Have a member leave."""
        self.streams_beat(member, -1)
        self.forget_member(member)

    def leave_for_a_while(self, member: str, instance_id: str) -> None:
        """Have a static member leave that will come back."""
        self.streams_beat(member, -2, instance_id=instance_id)
        self.forget_member(member)

    def describe_topology(self, member: str, epoch: int) -> None:
        """Have a member hand in the description of a topology."""
        request = StreamsGroupTopologyDescriptionUpdateRequest(
            group_id=self.group_id,
            member_id=member,
            topology_epoch=epoch,
            topology_description=TopologyDescription(subtopologies=[], global_stores=[]),
        )
        self.note(f"{member} describes", self.client("admin").ask(request, 0))

    def begin(self, member: str, shape: Topology, **fields: Any) -> None:
        """Have a member join, and go on until the coordinator has found the internal topics made."""
        self.send_beat(member, 0, topology=shape, **fields)
        for each in shape.subtopologies:
            for info in (*each.repartition_source_topics, *each.state_changelog_topics):
                self.know(info.name.removeprefix(self.topic("")))
        self.epochs[member] = 0
        self._go_on_until(lambda answer: not _codes(answer) & _WAITING, member, topology=shape, **fields)
        self.settle_streams()

    def _go_on_until(self, ready: Callable[[Any], bool], member: str, **fields: Any) -> None:
        def is_ready() -> bool:
            answer = self._take(member, **({} if self.epochs.get(member) else fields))
            assert answer.error_code == 0, answer
            return ready(answer)

        self.wait(is_ready)

    def settle_streams(self, *, after: int = 0) -> None:
        """Have all members go on until nothing changes; note the group.

        Args:
            after: the number of epochs that the group has to come to first.
        """
        until = self.described().group_epoch + after if after else 0

        def is_settled() -> bool:
            for member in sorted(self.epochs):
                answer = self._take(member)
                assert answer.error_code == 0, answer
                if _codes(answer) & _WAITING:
                    return False
            group = self.described()
            return group.group_epoch >= until and group.group_state in _SETTLED

        self.wait(is_settled)
        self.note("tasks", repr({member: self.tasks.get(member) for member in sorted(self.epochs)}))
        self.streams_look()

    def described(self, *, with_description: bool = False) -> Any:
        """The group as StreamsGroupDescribe has it now."""
        request = StreamsGroupDescribeRequest(
            group_ids=[self.group_id],
            include_authorized_operations=False,
            include_topology_description=with_description,
        )
        (group,) = self.client("admin").ask(request, self.version).groups
        return group

    def streams_look(self, *, with_description: bool = False) -> None:
        """Note what the group is."""
        self.note("the group", self.described(with_description=with_description))


def _codes(answer: Any) -> set[int]:
    return {each.status_code for each in answer.status or ()}
