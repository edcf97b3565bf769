"""A test client for streams groups."""

from collections.abc import Sequence
from typing import Any

from minibroker_protocol.messages.streams_group import (
    KeyValue,
    StreamsGroupDescribeRequest,
    TaskIds,
    TaskOffset,
    TopicInfo,
)
from minibroker_protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from tests.broker.harness import Harness

DELAY_MS = 3_000
ASSIGNMENT_MS = 1_000
COMPACTED = [KeyValue(key="cleanup.policy", value="compact")]
Named = dict[str, list[int]]


def topic(name: str, partitions: int = 0, configs: Sequence[KeyValue] = ()) -> TopicInfo:
    return TopicInfo(name=name, partitions=partitions, replication_factor=0, topic_configs=list(configs))


def subtopology(name: str = "0", sources: Sequence[str] = ("t",), **fields: Any) -> Subtopology:
    """Return a subtopology. Fields that are not given are empty."""
    return Subtopology(
        subtopology_id=name,
        source_topics=list(sources),
        source_topic_regex=fields.pop("regex", []),
        state_changelog_topics=fields.pop("changelogs", []),
        repartition_sink_topics=fields.pop("sinks", []),
        repartition_source_topics=fields.pop("repartition", []),
        copartition_groups=[
            CopartitionGroup(source_topics=sources, source_topic_regex=[], repartition_source_topics=repartition)
            for sources, repartition in fields.pop("joined", [])
        ],
    )


def topology(*subtopologies: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=list(subtopologies) or [subtopology()])


def counting() -> Topology:
    """Return the topology of a word count of "t": two subtopologies joined by a topic, with a store in the second."""
    return topology(
        subtopology("0", sinks=["g-repartition"]),
        subtopology("1", [], repartition=[topic("g-repartition")], changelogs=[topic("g-changelog", 0, COMPACTED)]),
    )


class StreamsGroupClient:
    """The members of the group "g", each with its own process unless the test sets one."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.epochs: dict[str, int] = {}
        self.tasks: dict[str, tuple[Named, Named]] = {}

    def beat(self, member: str = "a", epoch: int = 0, *, owned: Named | None = None, **fields: Any) -> Any:
        """Send a heartbeat, and return the response."""
        version = fields.pop("version", 0)
        if epoch == 0:
            fields = {"topology": topology(), "rebalance_timeout_ms": 1_000, "process_id": f"p-{member}", **fields}
            owned = {} if owned is None else owned
        if owned is not None:
            fields = {"active_tasks": listed(owned), "standby_tasks": [], "warmup_tasks": [], **fields}
        request = StreamsGroupHeartbeatRequest(
            group_id=fields.pop("group_id", "g"),
            member_id=member,
            member_epoch=epoch,
            endpoint_information_epoch=fields.pop("endpoint_epoch", -1),
            **fields,
        )
        answer = self.harness.ask(request, version)
        self.harness.run_soon()
        return answer

    def step(self, member: str, **fields: Any) -> Any:
        """Send a heartbeat for a member that has taken over its last assignment."""
        active, standby = self.tasks.get(member, ({}, {}))
        tasks = {}
        if self.epochs.get(member):
            fields.pop("topology", None)  # sent once only
            tasks = {"standby_tasks": listed(standby)}
        answer = self.beat(member, self.epochs.get(member, 0), owned=active, **tasks, **fields)
        assert not answer.error_code, answer.error_message
        self.epochs[member] = answer.member_epoch
        if answer.active_tasks is not None:
            self.tasks[member] = named(answer.active_tasks), named(answer.standby_tasks)
        return answer

    def settle(self, members: Sequence[str], **fields: Any) -> None:
        """Join members, and exchange heartbeats until the group is stable."""
        for member in members:
            self.step(member, **fields)
        self.harness.clock.advance(DELAY_MS)
        for _ in range(6):
            self.harness.clock.advance(ASSIGNMENT_MS)
            for member in members:
                self.step(member, **fields)
        assert self.describe().group_state == "Stable"

    def describe(self, *, operations: bool = False) -> Any:
        """Return the group from StreamsGroupDescribe."""
        request = StreamsGroupDescribeRequest(group_ids=["g"], include_authorized_operations=operations)
        (group,) = self.harness.ask(request, 0).groups
        return group


def listed(tasks: Named) -> list[TaskIds]:
    return [TaskIds(subtopology_id=subtopology_id, partitions=indexes) for subtopology_id, indexes in tasks.items()]


def offsets_of(*offsets: tuple[str, int, int]) -> list[TaskOffset]:
    return [TaskOffset(subtopology_id=name, partition=index, offset=offset) for name, index, offset in offsets]


def named(tasks: Sequence[TaskIds]) -> Named:
    return {task.subtopology_id: list(task.partitions) for task in tasks}


def statuses(answer: Any) -> list[tuple[int, str]]:
    return [(status.status_code, status.status_detail) for status in answer.status]
