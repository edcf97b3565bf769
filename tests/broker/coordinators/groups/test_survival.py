"""Groups after restarts of the broker, disk failures and the deletion of their topic."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, contextmanager

import pytest

from minibroker.coordinators.coordinator_log import CoordinatorLogError
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import DeleteGroupsRequest, FindCoordinatorRequest
from minibroker_protocol.messages.topics import DeleteTopicsRequest
from tests.broker.coordinators.groups.driver import Members, answered
from tests.broker.coordinators.groups.member_requests import CHANGED, SESSION_MS
from tests.broker.harness import Harness

Again = Callable[[Harness], None]
again = pytest.mark.parametrize("start_again", [Harness.restart, Harness.crash], ids=["restart", "crash"])
REBALANCE_IN_PROGRESS = 27
NOT_COORDINATOR = 16
UNKNOWN_MEMBER_ID = 25


@pytest.fixture
def full_disk(members: Members, monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """Return a context manager during which no record of a group can be written."""

    def refuse(*args: object, **fields: object) -> int:
        raise CoordinatorLogError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")

    @contextmanager
    def refusing() -> Generator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(members.harness.services.groups.store.log, "append_batch", refuse)
            yield

    return refusing


@again
def test_members_continue_after_a_restart(start_again: Again, members: Members) -> None:
    first, second, generation = members.pair()
    before = members.describe()
    start_again(members.harness)
    assert members.describe() == before
    assert members.heartbeat(first, generation) == members.heartbeat(second, generation) == 0
    assert bytes(members.sync(second, generation).assignment) == b"for the second"
    assert members.join(second).generation_id == generation
    members.begin_join(first)
    assert members.join(second, CHANGED).generation_id == generation + 1


@again
def test_lost_members_are_removed_without_any_request(start_again: Again, members: Members) -> None:
    members.pair()
    start_again(members.harness)
    members.harness.run_soon()
    members.harness.clock.advance(SESSION_MS)
    group = members.harness.services.groups.store.get("g")
    assert group is not None
    assert (group.state.value, group.generation) == ("Empty", 3)


@again
def test_a_static_member_returns_after_a_restart_without_a_rebalance(start_again: Again, members: Members) -> None:
    first = members.alone(instance="one")
    start_again(members.harness)
    joined = members.join(instance="one")
    assert (joined.error_code, joined.generation_id, joined.skip_assignment) == (0, 1, True)
    start_again(members.harness)
    assert members.ids == {joined.member_id} != {first}
    assert bytes(members.sync(joined.member_id, 1, instance="one").assignment) == b"all"


@again
def test_an_empty_group_is_still_empty_after_a_restart(start_again: Again, members: Members) -> None:
    member = members.alone()
    members.leave(member)
    start_again(members.harness)
    described = members.describe()
    assert (described.group_state, described.protocol_type) == ("Empty", "consumer")
    member = members.new_id()
    assert members.join(member).generation_id == 3


@again
def test_an_unfinished_rebalance_begins_again_after_a_restart(start_again: Again, members: Members) -> None:
    first, second, generation = members.unsynced_pair()
    start_again(members.harness)
    assert members.ids == {first}  # The last generation with assignments.
    assert members.sync(second, generation).error_code == UNKNOWN_MEMBER_ID
    assert members.heartbeat(first, generation) == 22


@again
def test_a_deleted_group_does_not_come_back(start_again: Again, members: Members) -> None:
    members.leave(members.alone())
    (deleted,) = members.harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert deleted.error_code == 0
    start_again(members.harness)
    assert members.state == "Dead"


def test_a_group_that_exceeds_the_limit_rebalances_after_a_restart(members: Members) -> None:
    first, _, generation = members.pair()
    members.harness.close()
    with closing(Harness(members.harness.data_dir, {"group.max.size": "1"})) as smaller:
        assert Members(smaller).heartbeat(first, generation) == REBALANCE_IN_PROGRESS
    members.harness.start()


def test_an_assignment_that_cannot_be_written_is_not_sent(
    members: Members, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    first, second, generation = members.unsynced_pair()
    waiting = members.begin_sync(second, generation)
    with full_disk():
        refused = members.sync(first, generation, {first: b"1", second: b"2"})
    assert refused.error_code == answered(waiting).error_code == NOT_COORDINATOR
    assert (bytes(refused.assignment), refused.protocol_name) == (b"", None)
    assert members.state == "PreparingRebalance"
    members.begin_join(second)
    assert members.join(first).generation_id == generation + 1


def test_a_static_member_is_not_replaced_if_the_write_fails(
    members: Members, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    first = members.alone(instance="one")
    with full_disk():
        refused = members.join(instance="one", protocols=CHANGED)
    assert (refused.error_code, refused.member_id, refused.generation_id) == (NOT_COORDINATOR, "", 1)
    assert members.heartbeat(first, 1, instance="one") == 0
    assert members.describe().members[0].member_metadata != CHANGED[0][1]


def test_a_group_becomes_empty_even_if_the_write_fails(
    members: Members, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    member = members.alone()
    with full_disk():
        assert members.leave(member) == [0]
    assert members.state == "Empty"
    members.harness.crash()
    assert members.ids == {member}


def test_a_group_is_kept_if_its_deletion_cannot_be_written(
    members: Members, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    members.leave(members.alone())
    with full_disk():
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
    (deleted,) = harness.ask(DeleteTopicsRequest(topic_names=["__consumer_offsets"], timeout_ms=1000), 5).responses
    assert deleted.error_code == 0
    harness.run_soon()
    assert answered(joining).error_code == answered(syncing).error_code == NOT_COORDINATOR
    assert members.state == other.state == "Dead"
    assert members.heartbeat(first, generation) == other.heartbeat(one, other_generation) == UNKNOWN_MEMBER_ID
    assert members.join(lost).error_code == UNKNOWN_MEMBER_ID
    harness.clock.advance(10 * SESSION_MS)
    assert harness.ask(FindCoordinatorRequest(key="g"), 3).error_code == 0
    assert members.alone() in members.ids
