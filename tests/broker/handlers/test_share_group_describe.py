from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import DescribeGroupsRequest
from minibroker_protocol.messages.share_group import ShareGroupDescribeRequest
from tests.broker.handlers.share_group_requests import ShareGroupClient
from tests.broker.harness import Harness
from tests.broker.logs.world import topic_of


def test_a_group_is_described_with_its_members(harness: Harness) -> None:
    client = ShareGroupClient(harness)
    client.read_something(topics=["t", "there-is-none"])
    group = client.describe(operations=True)
    assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "simple")
    assert (group.group_epoch, group.assignment_epoch) == (3, 3)
    assert group.authorized_operations > 0
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.rack_id, member.client_id) == ("a", 3, None, "test")
    assert member.subscribed_topic_names == ["t", "there-is-none"]
    (assigned,) = member.assignment.topic_partitions
    assert (bytes(assigned.topic_id), assigned.topic_name, assigned.partitions) == (topic_of(harness, "t").id, "t", [0])
    client.leave()
    group = client.describe()
    assert (group.group_state, group.group_epoch, group.members) == ("Empty", 4, [])
    assert group.authorized_operations == -(2**31)


def test_what_is_no_share_group_is_not_found(harness: Harness) -> None:
    client = ShareGroupClient(harness)
    client.read_something()
    request = ShareGroupDescribeRequest(group_ids=["other", ""], include_authorized_operations=False)
    codes = [each.error_code for each in harness.ask(request, 1).groups]
    assert codes == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID]
    (group,) = harness.ask(DescribeGroupsRequest(groups=["g"]), 6).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
