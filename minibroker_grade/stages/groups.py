"""Stage 9: groups, rebalances and committed offsets."""

from typing import Final

from minibroker_grade.check import Stage
from minibroker_grade.groups import Member, code_text, commit_offset, fetch_committed, new_group
from minibroker_grade.subject import Subject
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)

STAGE: Final = Stage("groups", "9 Groups", "Members join, get assignments, and commit offsets.")
_COMMITTED: Final = "topics[0].partitions[0].committed_offset"
_COMMIT_ERROR: Final = "topics[0].partitions[0].error_code"


@STAGE.check(
    "KIP-394, GroupMetadataManager.classicGroupJoinNewDynamicMember",
    look="Respond to a new member's first JoinGroup with an id and MEMBER_ID_REQUIRED.",
)
def a_new_member_gets_its_id_first(b: Subject) -> None:
    """From version 4 on, a member without an id gets an id with error 79, and joins again with that id."""
    member = Member(b, new_group(b))
    answer = member.ask_to_join()
    b.same(answer, "error_code", 79)
    b.holds(answer.member_id, "an id", answer, "member_id")


@STAGE.check(
    "GroupMetadataManager.classicGroupJoin, ClassicGroup",
    look="Complete the join when all members have joined, and make the first one the leader.",
)
def a_member_alone_leads(b: Subject) -> None:
    """The only member becomes the leader of generation 1 and gets the list of all members."""
    member = Member(b, new_group(b))
    answer = member.join()
    b.same(answer, "leader", member.member_id)
    b.same(answer, "generation_id", 1)
    b.same(answer, "protocol_name", "range")
    ids = [info.member_id for info in answer.members]
    b.equal(ids, [member.member_id], "the members", answer, "members")
    b.equal(bytes(answer.members[0].metadata), b"range", "the metadata", answer, "members[0].metadata")


@STAGE.check("GroupMetadataManager.classicGroupSync", look="Distribute the leader's assignments byte for byte.")
def the_leader_gets_its_own_assignment(b: Subject) -> None:
    """The leader sends the assignments in SyncGroup and gets its own back."""
    member = Member(b, new_group(b))
    member.join()
    answer = member.sync(**{member.member_id: b"\x00mine"})
    b.same(answer, "error_code", 0)
    b.equal(bytes(answer.assignment), b"\x00mine", "the assignment", answer, "assignment")


def _join_two_members(b: Subject) -> tuple[Member, Member]:
    """Return a leader and a follower that have joined the same generation but have not synced."""
    leader = Member(b, new_group(b)).join_alone()
    follower = Member(b, leader.group)
    if follower.ask_to_join().error_code == ErrorCode.MEMBER_ID_REQUIRED:
        follower.send_join()
    b.until(
        leader.heartbeat,
        lambda answer: answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS,
        "27 REBALANCE_IN_PROGRESS in error_code",
        code_text,
    )
    leader.ask_to_join()
    follower.receive_join()
    return leader, follower


@STAGE.check(
    "GroupMetadataManager.classicGroupHeartbeat",
    look="Respond to the other members' heartbeats with REBALANCE_IN_PROGRESS.",
)
def a_second_member_starts_a_rebalance(b: Subject) -> None:
    """When a member joins, the heartbeats of the other members return error 27, and all of them rejoin."""
    leader, follower = _join_two_members(b)
    b.equal(leader.generation, follower.generation, "the generation of both")
    b.equal(leader.generation, 2, "the second generation")


@STAGE.check(
    "GroupMetadataManager.completeClassicGroupJoin",
    look="Hold the join until all members have joined, or their rebalance timeout has expired.",
)
def a_join_waits_for_the_other_members(b: Subject) -> None:
    """JoinGroup is answered after all members have joined, because the member list is unknown until then."""
    leader = Member(b, new_group(b)).join_alone()
    follower = Member(b, leader.group)
    if follower.ask_to_join().error_code == ErrorCode.MEMBER_ID_REQUIRED:
        follower.send_join()
        b.holds(follower.wire.is_silent(0.3), "no answer before the leader has joined", actual="an answer at once")
        leader.send_join()
        leader.receive_join()
        b.same(follower.receive_join(), "error_code", 0)


@STAGE.check("GroupMetadataManager.completeClassicGroupJoin", look="Send the member list only to the leader.")
def followers_do_not_learn_the_members(b: Subject) -> None:
    """Only the leader computes assignments, so only the leader gets the member list."""
    _join_two_members(b)
    joins = [exchange.response for exchange in b.exchanges if exchange.key == ApiKey.JOIN_GROUP]
    answers = {answer.leader == answer.member_id: answer for answer in joins[-3:] if not answer.error_code}
    b.equal(len(answers[True].members), 2, "the number of members that the leader learns of", answers[True], "members")
    b.equal(len(answers[False].members), 0, "the number that a follower learns of", answers[False], "members")


@STAGE.check(
    "GroupMetadataManager.classicGroupSync",
    look="Hold SyncGroup of followers until the leader has sent the assignments.",
)
def a_follower_waits_for_its_assignment(b: Subject) -> None:
    """A follower's SyncGroup is answered after the leader has synced."""
    leader, follower = _join_two_members(b)
    follower.wire.send(follower.sync_request(), b.newest(SyncGroupRequest))
    b.holds(follower.wire.is_silent(0.3), "no answer before the leader has synced", actual="an answer at once")
    leader.sync(**{leader.member_id: b"one", follower.member_id: b"two"})
    answer = follower.wire.receive()
    b.equal(bytes(answer.assignment), b"two", "the assignment", answer, "assignment")


@STAGE.check(
    "ClassicGroup.supportsProtocols",
    look="Choose a protocol that all members support, and reject a member that shares none.",
)
def a_member_without_a_common_protocol_has_error_23(b: Subject) -> None:
    """A member that shares no protocol with the group is rejected with INCONSISTENT_GROUP_PROTOCOL."""
    first = Member(b, new_group(b)).join_alone()
    other = Member(b, first.group, protocols=("other",))
    b.same(other.ask_to_join(), "error_code", 23)


@STAGE.check(
    "GroupCoordinatorService.joinGroup, group.max.session.timeout.ms",
    look="Check the session timeout against group.min.session.timeout.ms and the maximum.",
)
def an_impossible_session_timeout_has_error_26(b: Subject) -> None:
    """A session timeout of a day is rejected with INVALID_SESSION_TIMEOUT."""
    member = Member(b, new_group(b), session=86400000)
    b.same(member.ask_to_join(), "error_code", 26)


@STAGE.check(
    "GroupMetadataManager.classicGroupHeartbeat", look="Reject ids that are not in the group with UNKNOWN_MEMBER_ID."
)
def an_unknown_member_has_error_25(b: Subject) -> None:
    """A member id that is not in the group gets UNKNOWN_MEMBER_ID, and the member has to rejoin."""
    stable = Member(b, new_group(b)).join_alone()
    b.same(Member(b, stable.group, member_id="nobody", generation=1).heartbeat(), "error_code", 25)


@STAGE.check(
    "GroupMetadataManager.classicGroupHeartbeat", look="Compare the generation of heartbeats with the group's."
)
def an_old_generation_has_error_22(b: Subject) -> None:
    """A member that missed a rebalance gets ILLEGAL_GENERATION."""
    stable = Member(b, new_group(b)).join_alone()
    b.same(stable.heartbeat(), "error_code", 0)
    b.same(stable.heartbeat(generation=stable.generation - 1), "error_code", 22)


@STAGE.check("GroupMetadataManager.classicGroupLeave", look="Remove the member immediately.")
def who_leaves_is_gone(b: Subject) -> None:
    """After LeaveGroup, the member is unknown."""
    member = Member(b, new_group(b)).join_alone()
    b.same(member.leave(), "error_code", 0)
    b.same(member.heartbeat(), "error_code", 25)


@STAGE.check(
    "KIP-345, GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin",
    look="Map group.instance.id to the new member id, and fence the previous member.",
)
def a_static_member_comes_back_without_a_rebalance(b: Subject) -> None:
    """A member that rejoins with its instance id keeps its place in the group, and the generation does not change."""
    first = Member(b, new_group(b), instance="i1").join_alone()
    again = Member(b, first.group, instance="i1")
    answer = again.ask_to_join()
    b.same(answer, "error_code", 0)
    b.same(answer, "generation_id", first.generation)
    b.holds(answer.member_id != first.member_id, "another member id", answer, "member_id")
    b.same(first.heartbeat(), "error_code", 82, "FENCED_INSTANCE_ID")


@STAGE.check("KafkaApis.handleDescribeGroupsRequest", look="Return the state, the protocol and the members.")
def a_group_can_be_described(b: Subject) -> None:
    """DescribeGroups returns the group state, and each member with its assignment."""
    member = Member(b, new_group(b)).join_alone()
    answer = b.ask(DescribeGroupsRequest(groups=[member.group]))
    b.same(answer, "groups[0].error_code", 0)
    b.same(answer, "groups[0].group_state", "Stable")
    b.same(answer, "groups[0].protocol_data", "range")
    b.same(answer, "groups[0].members[0].member_id", member.member_id)
    b.equal(bytes(answer.groups[0].members[0].member_assignment), b"all", "the assignment", answer, "groups[0].members")


@STAGE.check("KafkaApis.handleListGroupsRequest", look="List every group that is not dead.")
def a_group_is_listed(b: Subject) -> None:
    """ListGroups returns the group with its protocol type."""
    member = Member(b, new_group(b)).join_alone()
    answer = b.ask(ListGroupsRequest())
    protocol_types = {group.group_id: group.protocol_type for group in answer.groups}
    b.equal(protocol_types.get(member.group), "consumer", "the protocol type of the group", answer, "groups")


@STAGE.check(
    "KIP-229, ClassicGroup.validateDeleteGroup", look="Reject groups with members, and delete the offsets of others."
)
def only_an_empty_group_can_be_deleted(b: Subject) -> None:
    """Deleting a group with members fails with NON_EMPTY_GROUP. Deleting an empty group also deletes its offsets."""
    topic = b.topic()
    member = Member(b, new_group(b)).join_alone()
    commit_offset(b, member.group, topic, 3, member.member_id, member.generation)
    request = DeleteGroupsRequest(groups_names=[member.group])
    b.same(b.ask(request), "results[0].error_code", 68)
    member.leave()
    b.same(b.ask(request), "results[0].error_code", 0)
    b.same(fetch_committed(b, member.group, topic), _COMMITTED, -1)


@STAGE.check("OffsetMetadataManager.commitOffset", look="Store the last commit for each group and partition.")
def a_committed_offset_comes_back(b: Subject) -> None:
    """OffsetFetch returns the offset and metadata of the last commit."""
    topic, group = b.topic(), new_group(b)
    b.same(commit_offset(b, group, topic, 5, text="note"), _COMMIT_ERROR, 0)
    b.same(commit_offset(b, group, topic, 42, text="note"), _COMMIT_ERROR, 0)
    answer = fetch_committed(b, group, topic)
    b.same(answer, _COMMITTED, 42)
    b.same(answer, "topics[0].partitions[0].metadata", "note")


@STAGE.check("OffsetMetadataManager.fetchOffsets", look="Return -1 and no error if nothing was committed.")
def without_a_commit_the_offset_is_minus_1(b: Subject) -> None:
    """A group without commits has offset -1, and the consumer applies auto.offset.reset."""
    answer = fetch_committed(b, new_group(b), b.topic())
    b.same(answer, _COMMITTED, -1)
    b.same(answer, _COMMIT_ERROR, 0)


@STAGE.check(
    "KIP-88, OffsetMetadataManager.fetchAllOffsets", look="Return all partitions of the group if topics is null."
)
def null_asks_for_all_offsets(b: Subject) -> None:
    """From version 2 on, a request with a null topic list returns all committed offsets of the group."""
    topic, group = b.topic(), new_group(b)
    commit_offset(b, group, topic, 7)
    answer = fetch_committed(b, group, None)
    b.same(answer, "topics[0].name", topic)
    b.same(answer, _COMMITTED, 7)


@STAGE.check("OffsetMetadataManager.fetchOffsets", look="Store the offsets of each group separately.")
def groups_do_not_share_offsets(b: Subject) -> None:
    """A commit by one group does not affect other groups."""
    topic = b.topic()
    commit_offset(b, new_group(b), topic, 7)
    b.same(fetch_committed(b, new_group(b), topic), _COMMITTED, -1)


@STAGE.check(
    "ClassicGroup.validateOffsetCommit", look="Check a commit's member id and generation while the group has members."
)
def a_commit_of_an_old_generation_has_error_22(b: Subject) -> None:
    """A member that lost its partitions must not overwrite the offsets of their new owner."""
    topic = b.topic()
    member = Member(b, new_group(b)).join_alone()
    b.same(commit_offset(b, member.group, topic, 1, member.member_id, member.generation), _COMMIT_ERROR, 0)
    b.same(commit_offset(b, member.group, topic, 9, member.member_id, member.generation - 1), _COMMIT_ERROR, 22)
    b.same(fetch_committed(b, member.group, topic), _COMMITTED, 1)


@STAGE.check(
    "OffsetMetadataManager.isMetadataInvalid, offset.metadata.max.bytes", look="Reject metadata larger than 4096 bytes."
)
def too_much_metadata_has_error_12(b: Subject) -> None:
    """Oversized metadata is rejected with OFFSET_METADATA_TOO_LARGE, and the offset is not committed."""
    topic, group = b.topic(), new_group(b)
    b.same(commit_offset(b, group, topic, 1, text="x" * 5000), _COMMIT_ERROR, 12)
    b.same(fetch_committed(b, group, topic), _COMMITTED, -1)
