"""Directories of minibroker 1.0, in which half of all groups and transactional ids are in the wrong partitions."""

import logging
from unittest.mock import patch

import pytest

from minibroker.coordinators.coordinator_log import CoordinatorLog, CoordinatorLogError
from minibroker.coordinators.groups.offsets import CommittedOffset, OffsetKeys, offset_record
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.describe_transactions import DescribeTransactionsRequest
from minibroker_protocol.messages.groups import DeleteGroupsRequest
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.record import NewRecord
from tests.broker.coordinators.groups.driver import Members
from tests.broker.coordinators.groups.offset_requests import NOTHING, commit, fetch, offsets_of
from tests.broker.coordinators.share_state.state_requests import BATCH, initialize, only, read, write
from tests.broker.coordinators.transactions.producer import Producer, markers_in, read_committed
from tests.broker.coordinators.version_1 import version_1
from tests.broker.harness import Harness
from tests.broker.logs.world import log_of

OFFSETS, TRANSACTIONS, SHARES = "__consumer_offsets", "__transaction_state", "__share_group_state"
T0, U1 = ("t", 0), ("u", 1)
KAFKAS, VERSION_1S = 31, 17
"""The partitions for the name "orders"."""
ALIKE = "g1"
"""A name with the same partition in both."""


def move_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if "moved to the partitions" in line]


def latest(harness: Harness, index: int, topic: str = OFFSETS) -> dict[bytes, bytes | None]:
    """Return the latest value of each key in a partition."""
    log = log_of(harness, topic, index)
    if log.log_end_offset == log.log_start_offset:
        return {}
    data = log.read(log.log_start_offset, 1 << 20).read()
    return {record.key or b"": record.value for batch in iter_batches(data) for record in batch}


def put_offset(harness: Harness, index: int, offset: int | None, time_ms: int, *, record_ms: int | None = None) -> None:
    """Write an offset of "orders", or a tombstone for None, to a partition."""
    record = offset_record(
        OffsetKeys("orders").of(T0), CommittedOffset(offset or 0, -1, "", time_ms), record_ms or time_ms
    )
    put(harness, index, record if offset is not None else record._replace(value=None))


def put(harness: Harness, index: int, *records: NewRecord) -> None:
    harness.services.groups.store.log.append(index, records)


def test_offsets_are_moved_once_and_logged(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    harness.create("u", 2)
    with version_1(harness):
        commit(harness, {T0: 8, U1: 9}, "orders")
        commit(harness, {T0: 1}, ALIKE)
        assert log_of(harness, OFFSETS, VERSION_1S).log_end_offset == 2
    assert move_lines(caplog) == ["moved to the partitions that Kafka uses: 1 groups"]
    ends = [log_of(harness, OFFSETS, index).log_end_offset for index in (KAFKAS, VERSION_1S)]
    for _ in range(2):
        assert offsets_of(harness, "orders") == {T0: 8, U1: 9}
        assert offsets_of(harness, ALIKE) == {T0: 1}
        assert len(latest(harness, KAFKAS)) == 2
        assert set(latest(harness, VERSION_1S).values()) == {None}
        harness.restart()
        assert [log_of(harness, OFFSETS, index).log_end_offset for index in (KAFKAS, VERSION_1S)] == ends
    assert len(move_lines(caplog)) == 1


@pytest.mark.parametrize(
    ("kafkas", "version_1s", "expected"),
    [
        ((3, 1000), (8, 2000), 8),
        ((3, 2000), (8, 1000), 3),
        ((3, 1000), (8, 1000), 3),
        ((None, 2000), (8, 1000), NOTHING[0]),
        ((3, 1000), (None, 2000), NOTHING[0]),
        ((3, 2000), (None, 1000), 3),
    ],
    ids=["version 1.0 is newer", "Kafka is newer", "tie", "Kafka deleted", "version 1.0 deleted", "deleted before"],
)
def test_the_newer_of_two_states_wins(
    harness: Harness, kafkas: tuple[int | None, int], version_1s: tuple[int | None, int], expected: int
) -> None:
    put_offset(harness, KAFKAS, *kafkas)
    put_offset(harness, VERSION_1S, *version_1s)
    for _ in range(2):
        harness.restart()
        assert fetch(harness, T0, group_id="orders")[T0][0] == expected
    assert set(latest(harness, VERSION_1S).values()) == {None}


def test_the_commit_timestamp_wins_over_the_record_timestamp(harness: Harness) -> None:
    put_offset(harness, KAFKAS, 3, 2000, record_ms=1000)
    put_offset(harness, VERSION_1S, 8, 1000, record_ms=3000)
    harness.restart()
    assert offsets_of(harness, "orders") == {T0: 3}


def test_moved_states_stay_deleted_after_the_clock_was_set_back(harness: Harness) -> None:
    put_offset(harness, VERSION_1S, 8, 5000)
    harness.restart()
    assert offsets_of(harness, "orders") == {T0: 8}
    put_offset(harness, KAFKAS, 9, 1000)
    harness.restart()
    assert offsets_of(harness, "orders") == {T0: 9}


def test_an_unreadable_record_is_not_moved(harness: Harness) -> None:
    put(harness, VERSION_1S, *(NewRecord(key, b"x", 1) for key in (b"\0", b"\0\1\0\x09orders", None)))
    put_offset(harness, VERSION_1S, 8, 5000)
    harness.restart()
    assert offsets_of(harness, "orders") == {T0: 8}


def test_members_stay_in_their_group(harness: Harness) -> None:
    with version_1(harness):
        member_id = Members(harness, "orders").alone()
    assert Members(harness, "orders").heartbeat(member_id, 1) == 0
    (described,) = Members(harness, "orders").describe().members
    assert bytes(described.member_assignment) == b"all"


def test_a_group_is_moved_as_a_whole_if_it_is_newer(harness: Harness) -> None:
    """Kafka's partition has a record of another group type, which must be deleted."""
    put(harness, KAFKAS, NewRecord(b"\0\3\0\6orders", b"\0\0\0\0\0\1\0", harness.clock.now_ms()))
    with version_1(harness):
        harness.clock.advance(1000)
        member_id = Members(harness, "orders").alone()
    assert latest(harness, KAFKAS)[b"\0\3\0\6orders"] is None
    assert Members(harness, "orders").heartbeat(member_id, 1) == 0


def test_a_deleted_group_stays_deleted(harness: Harness) -> None:
    commit(harness, {T0: 3}, "orders")
    with version_1(harness):
        commit(harness, {T0: 4}, "orders")
        harness.clock.advance(1000)
        harness.ask(DeleteGroupsRequest(groups_names=["orders"]), 2)
    assert offsets_of(harness, "orders") == {}


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("transactional_id", ["orders", ALIKE])
def test_a_moved_open_transaction_can_be_committed_or_aborted(
    harness: Harness, transactional_id: str, *, commits: bool
) -> None:
    with version_1(harness):
        commit(harness, {T0: 1}, "orders")
        producer = Producer(harness, transactional_id)
        producer.write(b"one")
        assert producer.add_offsets("orders") == 0
        assert producer.commit_offset("orders", 5) == 0
        assert producer.add_offsets(ALIKE) == 0
        assert producer.commit_offset(ALIKE, 6) == 0
    for _ in range(2):
        assert fetch(harness, T0, group_id="orders")[T0][0] == 1
        assert fetch(harness, T0, group_id="orders", stable=True)[T0][3] == ErrorCode.UNSTABLE_OFFSET_COMMIT
        harness.restart()
    assert producer.end(commit=commits) == 0
    for _ in range(2):
        assert offsets_of(harness, "orders") == {T0: 5 if commits else 1}
        assert offsets_of(harness, ALIKE) == ({T0: 6} if commits else {})
        assert read_committed(harness) == ([b"one"] if commits else [])
        for index in (KAFKAS, VERSION_1S, 42):
            log = log_of(harness, OFFSETS, index)
            assert log.last_stable_offset == log.log_end_offset
        harness.restart()
    assert Producer(harness, transactional_id).id == producer.id
    assert Producer(harness, transactional_id).epoch == producer.epoch + 2


def test_a_decided_transaction_is_completed_after_its_offsets_moved(harness: Harness) -> None:
    with version_1(harness):
        producer = Producer(harness, "orders")
        assert producer.add_offsets("orders") == 0
        assert producer.commit_offset("orders", 5) == 0
        marker = "minibroker.coordinators.transactions.coordinator.write_marker"
        with patch(marker, return_value=ErrorCode.UNKNOWN_SERVER_ERROR):
            producer.commit()
    harness.run_soon()
    assert fetch(harness, T0, group_id="orders", stable=True)[T0] == (5, -1, "", 0)
    (described,) = harness.ask(DescribeTransactionsRequest(transactional_ids=["orders"]), 0).transaction_states
    assert described.transaction_state == "CompleteCommit"


def test_the_older_of_two_open_transactions_with_the_same_id_is_aborted(harness: Harness) -> None:
    kafkas = Producer(harness, "orders")
    kafkas.write(b"older")
    with version_1(harness):
        harness.clock.advance(1000)
        version_1s = Producer(harness, "orders")
        assert version_1s.id != kafkas.id
        version_1s.write(b"newer")
    assert [(producer_id, kind) for _, producer_id, _, kind in markers_in(harness)] == [(kafkas.id, 0)]
    assert version_1s.commit() == 0
    assert read_committed(harness) == [b"newer"]


def test_the_state_of_a_share_partition_moves(harness: Harness) -> None:
    with version_1(harness):
        for length in range(2, 30):
            initialize(harness, start=10, group="g" * length)
        initialize(harness, start=10)
        assert only(write(harness, BATCH, leader_epoch=3)).error_code == 0
    log = harness.services.share_states.store.log
    tombstones = sum(value is None for index in range(50) for value in latest(harness, index, log.name).values())
    assert 0 < tombstones < 28
    for _ in range(2):
        state = only(read(harness, leader_epoch=3))
        assert (state.error_code, state.start_offset) == (0, 10)
        assert [(batch.first_offset, batch.last_offset) for batch in state.state_batches] == [(10, 14)]
        harness.restart()


def test_a_failed_move_is_repeated_by_the_next_start(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    put_offset(harness, VERSION_1S, 8, 1000)
    refusal = CoordinatorLogError(ErrorCode.KAFKA_STORAGE_ERROR, "no space")
    with patch.object(CoordinatorLog, "append", side_effect=refusal):
        harness.restart()
        harness.run_soon()
    assert "groups of minibroker 1.0 cannot be moved yet: no space" in caplog.messages
    harness.restart()
    assert offsets_of(harness, "orders") == {T0: 8}


def test_a_start_searches_only_new_records(harness: Harness) -> None:
    commit(harness, {T0: 8}, "orders")
    harness.restart()
    commit(harness, {T0: 9}, "orders")
    with patch.object(CoordinatorLog, "replay", return_value=iter(())) as replay:
        harness.restart()
        harness.run_soon()
    assert ((KAFKAS, 1), {}) in replay.call_args_list
    put_offset(harness, VERSION_1S, 7, 10**13)
    harness.restart()
    assert offsets_of(harness, "orders") == {T0: 7}
