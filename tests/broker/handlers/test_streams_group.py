"""StreamsGroupDescribe, and StreamsGroupTopologyDescriptionUpdate without a plugin."""

from minibroker.cluster.features import STREAMS_VERSION
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import DescribeGroupsRequest
from minibroker_protocol.messages.streams_group import (
    StreamsGroupDescribeRequest,
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
)
from tests.broker.handlers.streams_group_requests import StreamsGroupClient, counting, named
from tests.broker.harness import Harness


def test_a_group_is_described_with_its_topology_and_its_tasks(harness: Harness) -> None:
    client = StreamsGroupClient(harness)
    client.settle(["a", "b"], topology=counting())
    group = client.describe(operations=True)
    assert (group.error_code, group.group_state) == (0, "Stable")
    assert group.group_epoch == group.assignment_epoch == client.epochs["a"] == client.epochs["b"]
    assert group.authorized_operations > 0
    first, second = group.topology.subtopologies
    assert (first.subtopology_id, first.source_topics, first.repartition_sink_topics) == ("0", ["t"], ["g-repartition"])
    assert (second.subtopology_id, second.source_topics) == ("1", [])
    assert [(each.name, each.partitions) for each in second.repartition_source_topics] == [("g-repartition", 1)]
    assert [each.member_id for each in group.members] == ["b", "a"]  # Kafka's hash order
    for member in group.members:
        assert (member.member_epoch, member.topology_epoch, member.client_id) == (group.group_epoch, 0, "test")
        assert member.process_id == f"p-{member.member_id}"
        assert named(member.assignment.active_tasks) == client.tasks[member.member_id][0]
        assert member.target_assignment == member.assignment
    tasks = [named(member.assignment.active_tasks) for member in group.members]
    assert sorted(tasks, key=str) == [{"0": [0]}, {"1": [0]}]


def test_nobody_keeps_descriptions_of_topologies(harness: Harness) -> None:
    StreamsGroupClient(harness).settle(["a"])
    for asks, status in ((False, 0), (True, 1)):
        request = StreamsGroupDescribeRequest(
            group_ids=["g", "other"], include_authorized_operations=False, include_topology_description=asks
        )
        described, missing = harness.ask(request, 1).groups
        assert (described.topology_description_status, described.topology_description) == (status, None)
        assert described.assignor_name == "sticky"
        assert (missing.topology_description_status, missing.assignor_name) == (0, None)


def test_a_group_that_its_members_have_left_is_empty(harness: Harness) -> None:
    client = StreamsGroupClient(harness)
    client.settle(["a"])
    assert client.beat(epoch=-1).error_code == 0
    group = client.describe()
    assert (group.group_state, group.members) == ("Empty", [])
    assert group.authorized_operations == -(2**31)


def test_what_is_no_streams_group_is_not_found(harness: Harness) -> None:
    StreamsGroupClient(harness).settle(["a"])
    request = StreamsGroupDescribeRequest(group_ids=["other", ""], include_authorized_operations=False)
    codes = [described.error_code for described in harness.ask(request, 0).groups]
    assert codes == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID]
    (group,) = harness.ask(DescribeGroupsRequest(groups=["g"]), 6).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_description_is_refused_for_want_of_a_plugin(harness: Harness) -> None:
    StreamsGroupClient(harness).settle(["a"])
    request = StreamsGroupTopologyDescriptionUpdateRequest(
        group_id="g",
        member_id="a",
        topology_epoch=0,
        topology_description=TopologyDescription(subtopologies=[], global_stores=[]),
    )
    answer = harness.ask(request, 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.error_message == "The broker has no streams group topology description plugin configured."
    harness.core.features.finalize({STREAMS_VERSION: 0})
    answer = harness.ask(request, 0)
    assert (answer.error_code, answer.error_message) == (ErrorCode.UNSUPPORTED_VERSION, None)
