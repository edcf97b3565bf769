"""A test client for share groups."""

from collections.abc import Sequence
from typing import Any

from minibroker_protocol.messages.share_group import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from tests.broker.harness import Harness

ASSIGNMENT_MS = 1_000


class ShareGroupClient:
    """The members of the group "g"."""

    def __init__(self, harness: Harness, group_id: str = "g") -> None:
        self.harness = harness
        self.group_id = group_id

    def beat(self, member: str = "a", epoch: int = 0, topics: Sequence[str] | None = None, **fields: Any) -> Any:
        """Send a heartbeat, run the work that it schedules, and return the response."""
        if epoch == 0 and topics is None:
            topics = ["t"]
        request = ShareGroupHeartbeatRequest(
            group_id=fields.pop("group_id", self.group_id),
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else list(topics),
            **fields,
        )
        answer = self.harness.ask(request, 1)
        self.harness.run_soon()
        return answer

    def read_something(self, member: str = "a", topics: Sequence[str] | None = None) -> dict[bytes, list[int]]:
        """Join a member, and return the partitions that it is assigned."""
        answer = self.beat(member, topics=topics)
        assert not answer.error_code, answer.error_message
        self.harness.clock.advance(ASSIGNMENT_MS)
        answer = self.beat(member, answer.member_epoch)
        return {bytes(topic.topic_id): list(topic.partitions) for topic in answer.assignment.topic_partitions}

    def leave(self, member: str = "a") -> None:
        assert not self.beat(member, -1).error_code

    def describe(self, *, operations: bool = False) -> Any:
        """Return the group from ShareGroupDescribe."""
        request = ShareGroupDescribeRequest(group_ids=[self.group_id], include_authorized_operations=operations)
        (group,) = self.harness.ask(request, 1).groups
        return group
