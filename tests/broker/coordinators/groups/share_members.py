"""A driver for share groups that calls the coordinator directly."""

from collections.abc import Sequence

import pytest

from minibroker.coordinators.groups.modern.coordinator import Answer, Client
from minibroker.coordinators.groups.modern.group import GroupRefusedError
from minibroker.coordinators.groups.share.coordinator import ShareGroups
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.share_group import ShareGroupHeartbeatRequest
from tests.broker.harness import Harness

SESSION_MS = 45_000
ASSIGNMENT_MS = 1_000


class ShareMembers:
    """The members of a share group. Partitions are given by topic name."""

    def __init__(self, harness: Harness, group_id: str = "g") -> None:
        self.harness = harness
        self.group_id = group_id

    @property
    def groups(self) -> ShareGroups:
        return self.harness.services.groups.shares

    @property
    def group(self) -> ShareGroup:
        """The coordinator's group."""
        assert not self.harness.services.groups.status(self.group_id)
        return self.groups.existing(self.group_id)

    def beat(self, member: str, epoch: int = 0, topics: Sequence[str] | None = None) -> Answer:
        """Send a heartbeat, and run the callbacks that it schedules."""
        if epoch == 0 and topics is None:
            topics = ["t"]
        self.status()
        answer = self.send(member, epoch, topics)
        self.harness.run_soon()
        return answer

    def send(self, member: str, epoch: int = 0, topics: Sequence[str] | None = None) -> Answer:
        """Send a heartbeat without running any callbacks."""
        topic_names = None if topics is None else list(topics)
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=member, member_epoch=epoch, subscribed_topic_names=topic_names
        )
        return self.groups.heartbeat(request, Client("client", "/host"))

    def refused(self, member: str, epoch: int = 0, topics: Sequence[str] | None = None) -> ErrorCode:
        """Send a heartbeat that is rejected, and return the error."""
        with pytest.raises(GroupRefusedError) as refused:
            self.beat(member, epoch, topics)
        return refused.value.code

    def status(self) -> None:
        """Make sure that the coordinator can serve the group."""
        self.harness.services.groups.store.log.ensure()
        assert not self.harness.services.groups.status(self.group_id)

    def settle(self, *members: str, topics: Sequence[str] | None = None) -> dict[str, dict[str, list[int]]]:
        """Join members, send heartbeats until everything is assigned, and return the partitions of each member."""
        for member in members:
            if member not in self.known():
                self.beat(member, topics=topics)
        for _ in range(3):
            self.pass_time(ASSIGNMENT_MS)
            for member in members:
                self.beat(member, self.group.members[member].epoch)
        return self.assigned()

    def known(self) -> set[str]:
        """Return the member ids."""
        self.status()
        group = self.harness.services.groups.store.find(self.group_id)
        return set(group.members) if isinstance(group, ShareGroup) else set()

    def assigned(self) -> dict[str, dict[str, list[int]]]:
        """Return the partitions of each member."""
        return {
            member_id: {self.name(topic): sorted(indexes) for topic, indexes in member.assigned.items()}
            for member_id, member in self.group.members.items()
        }

    def name(self, topic_id: bytes) -> str:
        topic = self.harness.core.topics.with_id(topic_id)
        assert topic is not None
        return topic.name

    def initialized(self) -> dict[str, list[int]]:
        """Return the partitions that have a state."""
        return {state.name: sorted(state.partitions) for state in self.group.partitions.initialized.values()}

    def pass_time(self, delay_ms: int) -> None:
        self.harness.clock.advance(delay_ms)
        self.harness.run_soon()
