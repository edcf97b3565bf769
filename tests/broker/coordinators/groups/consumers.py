"""A driver for groups of the consumer protocol."""

from collections.abc import Mapping, Sequence
from typing import Any

from minibroker_protocol.messages.consumer_group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.broker.config.configs import GROUP, SET, change_request
from tests.broker.harness import Harness
from tests.broker.logs.world import topic_of

SESSION_MS = 45_000
REBALANCE_MS = 60_000
Owned = Mapping[str, Sequence[int]]


class Consumers:
    """The members of a group without an assignment interval. Partitions are given by topic name."""

    def __init__(self, harness: Harness, group_id: str = "g") -> None:
        self.harness = harness
        self.group_id = group_id
        harness.ask(change_request(GROUP, group_id, (SET, "consumer.assignment.interval.ms", "0")), 1)

    def request(
        self,
        member: str,
        epoch: int = 0,
        owned: Owned | None = None,
        topics: Sequence[str] | None = None,
        **fields: Any,
    ) -> ConsumerGroupHeartbeatRequest:
        """Return a heartbeat, with the fields that a joining member must send."""
        if epoch == 0:
            owned = {} if owned is None else owned
            topics = ["t"] if topics is None and "subscribed_topic_regex" not in fields else topics
            fields.setdefault("rebalance_timeout_ms", REBALANCE_MS)
        listed = None
        if owned is not None:
            listed = [
                TopicPartitions(topic_id=topic_of(self.harness, name).id, partitions=list(indexes))
                for name, indexes in owned.items()
            ]
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else list(topics),
            topic_partitions=listed,
            **fields,
        )

    def beat(self, member: str, epoch: int = 0, owned: Owned | None = None, *, version: int = 1, **fields: Any) -> Any:
        """Send a heartbeat, and return the response."""
        return self.harness.ask(self.request(member, epoch, owned, **fields), version)

    def given(self, answer: Any) -> dict[str, list[int]] | None:
        """Return the assignment in a response, or None."""
        if answer.assignment is None:
            return None
        return self.named(answer.assignment.topic_partitions)

    def named(self, partitions: Sequence[Any]) -> dict[str, list[int]]:
        """Return partitions by topic name."""
        by_name: dict[str, list[int]] = {}
        for entry in partitions:
            topic = self.harness.core.topics.with_id(bytes(entry.topic_id))
            assert topic is not None
            by_name[topic.name] = list(entry.partitions)
        return by_name

    def describe(self, version: int = 1) -> Any:
        """Return the group's ConsumerGroupDescribe response, with its members sorted by id."""
        request = ConsumerGroupDescribeRequest(group_ids=[self.group_id], include_authorized_operations=False)
        (group,) = self.harness.ask(request, version).groups
        group.members.sort(key=lambda member: member.member_id)
        return group

    def assigned(self) -> dict[str, dict[str, list[int]]]:
        """Return the partitions of each member."""
        return {member.member_id: self.named(member.assignment.topic_partitions) for member in self.describe().members}

    def settle(self, *members: str) -> dict[str, dict[str, list[int]]]:
        """Send heartbeats until nothing changes, and return the partitions of each member."""
        for _ in range(10):
            before = self.describe()
            described = {entry.member_id: entry for entry in before.members}
            for member in members:
                owned = self._kept(described[member])
                assert self.beat(member, described[member].member_epoch, owned).error_code == 0
            if self.describe() == before:
                break
        return self.assigned()

    def _kept(self, member: Any) -> dict[str, list[int]]:
        """Return the partitions that a described member has and need not revoke."""
        target = self.named(member.target_assignment.topic_partitions)
        held = self.named(member.assignment.topic_partitions)
        kept = {name: [index for index in indexes if index in target.get(name, ())] for name, indexes in held.items()}
        return {name: indexes for name, indexes in kept.items() if indexes}
