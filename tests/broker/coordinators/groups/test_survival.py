"""Groups after restarts of the broker, disk failures and the deletion of their topic."""

from collections.abc import Callable
from contextlib import closing

from minibroker_protocol.messages.groups import DeleteGroupsRequest, FindCoordinatorRequest
from tests.broker.coordinators.groups.driver import FULL_DISK, Members, answered
from tests.broker.coordinators.groups.member_requests import CHANGED, SESSION_MS
from tests.broker.coordinators.groups.offset_requests import delete_topics, group_of
from tests.broker.harness import Harness

Again = Callable[[Harness], None]
REBALANCE_IN_PROGRESS = 27
NOT_COORDINATOR = 16
UNKNOWN_MEMBER_ID = 25


def test_members_continue_after_a_restart(again: Again, members: Members) -> None:
    first, second, generation = members.pair()
    before = members.describe()
    again(members.harness)
    assert members.describe() == before
    assert members.heartbeat(first, generation) == members.heartbeat(second, generation) == 0
    assert bytes(members.sync(second, generation).assignment) == b"for the second"
    assert members.join(second).generation_id == generation
    members.begin_join(first)
    assert members.join(second, CHANGED).generation_id == generation + 1


def test_lost_members_are_removed_without_any_request(again: Again, members: Members) -> None:
    members.pair()
    again(members.harness)
    members.harness.run_soon()
    members.harness.clock.advance(SESSION_MS)
    group = group_of(members.harness)
    assert (group.state.value, group.generation) == ("Empty", 3)


def test_a_static_member_returns_after_a_restart_without_a_rebalance(again: Again, members: Members) -> None:
    first = members.alone(instance="one")
    again(members.harness)
    joined = members.join(instance="one")
    assert (joined.error_code, joined.generation_id, joined.skip_assignment) == (0, 1, True)
    again(members.harness)
    assert members.ids == {joined.member_id} != {first}
    assert bytes(members.sync(joined.member_id, 1, instance="one").assignment) == b"all"


def test_an_empty_group_is_still_empty_after_a_restart(again: Again, members: Members) -> None:
    member = members.alone()
    members.leave(member)
    again(members.harness)
    described = members.describe()
    assert (described.group_state, described.protocol_type) == ("Empty", "consumer")
    member = members.new_id()
    assert members.join(member).generation_id == 3


def test_an_unfinished_rebalance_begins_again_after_a_restart(again: Again, members: Members) -> None:
    first, second, generation = members.unsynced_pair()
    again(members.harness)
    assert members.ids == {first}  # The last generation with assignments.
    assert members.sync(second, generation).error_code == UNKNOWN_MEMBER_ID
    assert members.heartbeat(first, generation) == 22


def test_a_deleted_group_does_not_come_back(again: Again, members: Members) -> None:
    members.leave(members.alone())
    (deleted,) = members.harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert deleted.error_code == 0
    again(members.harness)
    assert members.state == "Dead"


def test_a_group_that_exceeds_the_limit_rebalances_after_a_restart(members: Members) -> None:
    first, _, generation = members.pair()
    members.harness.close()
    with closing(Harness(members.harness.data_dir, {"group.max.size": "1"})) as smaller:
        assert Members(smaller).heartbeat(first, generation) == REBALANCE_IN_PROGRESS
    members.harness.start()


def test_an_assignment_that_cannot_be_written_is_not_sent(members: Members) -> None:
    first, second, generation = members.unsynced_pair()
    waiting = members.begin_sync(second, generation)
    with FULL_DISK:
        refused = members.sync(first, generation, {first: b"1", second: b"2"})
    assert refused.error_code == answered(waiting).error_code == NOT_COORDINATOR
    assert (bytes(refused.assignment), refused.protocol_name) == (b"", None)
    assert members.state == "PreparingRebalance"
    members.begin_join(second)
    assert members.join(first).generation_id == generation + 1


def test_a_static_member_is_not_replaced_if_the_write_fails(members: Members) -> None:
    first = members.alone(instance="one")
    with FULL_DISK:
        refused = members.join(instance="one", protocols=CHANGED)
    assert (refused.error_code, refused.member_id, refused.generation_id) == (NOT_COORDINATOR, "", 1)
    assert members.heartbeat(first, 1, instance="one") == 0
    assert members.describe().members[0].member_metadata != CHANGED[0][1]


def test_a_group_becomes_empty_even_if_the_write_fails(members: Members) -> None:
    member = members.alone()
    with FULL_DISK:
        assert members.leave(member) == [0]
    assert members.state == "Empty"
    members.harness.crash()
    assert members.ids == {member}


def test_a_group_is_kept_if_its_deletion_cannot_be_written(members: Members) -> None:
    members.leave(members.alone())
    with FULL_DISK:
        (refused,) = members.harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert refused.error_code == NOT_COORDINATOR
    assert members.state == "Empty"


def test_members_must_look_up_their_coordinator_after_its_topic_is_deleted(members: Members) -> None:
    harness = members.harness
    first, second, generation = members.pair()
    joining = members.begin_join(second, CHANGED)
    other = Members(harness, "other")
    one, two, other_generation = other.unsynced_pair()
    syncing = other.begin_sync(two, other_generation)
    lost = members.new_id()
    delete_topics(harness, "__consumer_offsets")
    harness.run_soon()
    assert answered(joining).error_code == answered(syncing).error_code == NOT_COORDINATOR
    assert members.state == other.state == "Dead"
    assert members.heartbeat(first, generation) == other.heartbeat(one, other_generation) == UNKNOWN_MEMBER_ID
    assert members.join(lost).error_code == UNKNOWN_MEMBER_ID
    harness.clock.advance(10 * SESSION_MS)
    assert harness.ask(FindCoordinatorRequest(key="g"), 3).error_code == 0
    assert members.alone() in members.ids
