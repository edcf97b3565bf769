"""ListPartitionReassignments: there is never one."""

from minibroker_protocol.messages.reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.broker.harness import Harness


def test_nothing_is_being_reassigned(harness: Harness) -> None:
    named = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 9]) for name in ("t", "none")]
    for topics in (None, [], named):
        response = harness.ask(ListPartitionReassignmentsRequest(topics=topics), 0)
        assert (response.error_code, response.error_message, response.topics) == (0, None, [])
