"""Idempotent producers: what the log accepts, recognizes, refuses and stores."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_protocol.errors import CorruptRecordError
from minibroker_protocol.records.header import BatchHeader, crc32c
from minibroker_storage.errors import (
    CorruptSnapshotError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from minibroker_storage.producer_snapshot import (
    BatchMetadata,
    ProducerStateEntry,
    SnapshotEncoder,
    decode_snapshot,
    encode_snapshot,
)
from minibroker_storage.producer_state import ProducerStateManager
from tests.storage.helpers import NOW, Batch, a_batch, marker, sequenced

DAY = 24 * 60 * 60 * 1000
INT32_MAX = 2**31 - 1


def producers(tmp_path: Path, *batches: Batch) -> ProducerStateManager:
    manager = ProducerStateManager(str(tmp_path), DAY)
    note(manager, *batches)
    return manager


def note(manager: ProducerStateManager, *batches: Batch, offset: int = 0) -> None:
    for batch in batches:
        manager.update(batch.header, offset, batch.view)
        offset += batch.header.last_offset_delta + 1
    manager.commit()


def header(base_sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7) -> BatchHeader:
    return sequenced(base_sequence, count, epoch=epoch, producer_id=producer_id).header


def test_a_producer_without_state_may_begin_at_any_sequence(tmp_path: Path) -> None:
    manager = producers(tmp_path)
    for sequence in (0, 1, 4711, INT32_MAX):
        assert manager.check(header(sequence)) is None
    assert manager.check(header(5, epoch=9)) is None


# The log has sequences 0 to 2 in epoch 1. These are possible next batches.
@pytest.mark.parametrize(
    ("epoch", "sequence", "count", "answer"),
    [
        (1, 3, 1, None),
        (1, 3, 500, None),
        (1, 0, 3, "duplicate"),
        (1, 0, 2, OutOfOrderSequenceError),
        (1, 1, 2, OutOfOrderSequenceError),
        (1, 2, 1, OutOfOrderSequenceError),
        (1, 4, 1, OutOfOrderSequenceError),
        (1, INT32_MAX, 1, OutOfOrderSequenceError),
        (0, 3, 1, InvalidProducerEpochError),
        (0, 0, 3, InvalidProducerEpochError),
        (2, 0, 1, None),
        (2, 3, 1, OutOfOrderSequenceError),
        (2, 1, 1, OutOfOrderSequenceError),
    ],
)
def test_a_batch_continues_repeats_or_breaks_the_row(
    tmp_path: Path, epoch: int, sequence: int, count: int, answer: str | type[Exception] | None
) -> None:
    manager = producers(tmp_path, sequenced(0, 3, epoch=1))
    if isinstance(answer, type):
        with pytest.raises(answer, match="producer 7"):
            manager.check(header(sequence, count, epoch=epoch))
        return
    duplicate = manager.check(header(sequence, count, epoch=epoch))
    assert (duplicate is not None) == (answer == "duplicate")


def test_a_duplicate_is_answered_with_the_offset_and_time_of_the_first(tmp_path: Path) -> None:
    manager = producers(tmp_path)
    note(manager, sequenced(0, 2, timestamps=[5, 9]), sequenced(2, 3, timestamps=[10, 30, 20]), offset=100)
    duplicate = manager.check(header(2, 3))
    assert duplicate is not None
    assert (duplicate.base_offset, duplicate.last_offset, duplicate.timestamp) == (102, 104, 30)
    first = manager.check(header(0, 2))
    assert first is not None
    assert (first.base_offset, first.timestamp) == (100, 9)


def test_the_last_five_batches_are_recognized_and_the_sixth_is_out_of_order(tmp_path: Path) -> None:
    manager = producers(tmp_path, *(sequenced(number) for number in range(6)))
    assert [manager.check(header(number)) is not None for number in range(1, 6)] == [True] * 5
    with pytest.raises(OutOfOrderSequenceError):
        manager.check(header(0))


def test_sequences_wrap_from_the_largest_int32_to_0(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(INT32_MAX - 1, 2))
    assert manager.check(header(0)) is None
    with pytest.raises(OutOfOrderSequenceError):
        manager.check(header(1))
    across = producers(tmp_path, sequenced(INT32_MAX - 1, 4))
    assert across.active[7].last_sequence == 1
    assert across.check(header(2)) is None
    assert across.check(header(INT32_MAX - 1, 4)) == (INT32_MAX - 1, 1, 3, 3, NOW)


def test_a_new_epoch_forgets_the_batches_of_the_old_one(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0, epoch=0), sequenced(0, epoch=1))
    assert len(manager.active[7].batches) == 1
    duplicate = manager.check(header(0, epoch=1))
    assert duplicate is not None
    assert duplicate.base_offset == 1
    with pytest.raises(InvalidProducerEpochError):
        manager.check(header(0, epoch=0))


def test_producers_do_not_disturb_each_other(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0), sequenced(50, producer_id=8))
    assert manager.check(header(1)) is None
    assert manager.check(header(51, producer_id=8)) is None
    with pytest.raises(OutOfOrderSequenceError, match="producer 8"):
        manager.check(header(1, producer_id=8))


def test_a_coordinators_batch_is_checked_for_its_epoch_only(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0, epoch=4))
    offsets = a_batch(producer_id=7, producer_epoch=4).header
    assert manager.check(offsets, from_client=False) is None
    with pytest.raises(InvalidProducerEpochError):
        manager.check(a_batch(producer_id=7, producer_epoch=3).header, from_client=False)


def test_updates_are_undone_back_to_the_last_commit(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0))
    before = dict(manager.active)
    for batch in (sequenced(1), sequenced(0, producer_id=8), sequenced(2), sequenced(1, producer_id=8)):
        manager.update(batch.header, 10, batch.view)
    assert manager.active[7].last_sequence == 2
    manager.rollback()
    assert dict(manager.active) == before
    assert manager.check(header(1)) is None


def test_a_transaction_begins_with_its_first_batch_and_ends_with_a_marker(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0, 2, is_transactional=True), sequenced(2, is_transactional=True))
    assert manager.active[7].current_txn_first_offset == 0
    note(manager, marker(coordinator_epoch=3), offset=3)
    entry = manager.active[7]
    assert (entry.current_txn_first_offset, entry.coordinator_epoch, entry.last_timestamp) == (-1, 3, NOW + 5)
    assert entry.last_sequence == 2
    assert manager.check(sequenced(3, is_transactional=True).header) is None
    note(manager, sequenced(3, is_transactional=True), offset=4)
    assert manager.active[7].current_txn_first_offset == 4


def test_a_marker_of_a_new_epoch_begins_a_new_row_of_sequences(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0, is_transactional=True), marker(epoch=1))
    assert manager.active[7].batches == ()
    assert manager.check(header(0, epoch=1)) is None
    with pytest.raises(OutOfOrderSequenceError):
        manager.check(header(1, epoch=1))


def test_a_marker_of_an_unknown_producer_is_kept(tmp_path: Path) -> None:
    manager = producers(tmp_path, marker(producer_id=9, epoch=2, coordinator_epoch=8))
    assert manager.active[9] == ProducerStateEntry(2, (), NOW + 5, 8, -1)


def test_a_marker_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0, is_transactional=True))
    before = dict(manager.active)
    broken = a_batch(value=b"short", producer_id=7, producer_epoch=0, is_transactional=True, is_control=True)
    with pytest.raises(CorruptRecordError, match="5 bytes"):
        manager.update(broken.header, 1, broken.view)
    manager.rollback()
    assert dict(manager.active) == before


def test_a_marker_that_compaction_has_emptied_changes_nothing(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0, is_transactional=True))
    before = dict(manager.active)
    emptied = marker()
    struct.pack_into(">i", emptied.view, 57, 0)  # This is the record count.
    struct.pack_into(">i", emptied.view, 8, 49)  # This is the length of a header alone.
    note(manager, emptied._replace(view=emptied.view[:61]), offset=1)
    assert dict(manager.active) == before


def test_a_batch_outside_of_the_open_transaction_is_refused(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0, is_transactional=True))
    with pytest.raises(InvalidTxnStateError):
        manager.check(header(1))
    assert manager.check(marker().header, from_client=False) is None


def test_a_marker_from_an_older_coordinator_is_fenced(tmp_path: Path) -> None:
    manager = producers(tmp_path, marker(coordinator_epoch=3))
    manager.check_coordinator_epoch(7, 3)
    manager.check_coordinator_epoch(99, 0)
    with pytest.raises(TransactionCoordinatorFencedError, match="2 after 3"):
        manager.check_coordinator_epoch(7, 2)


def test_idle_producers_expire_but_not_within_a_transaction(tmp_path: Path) -> None:
    manager = producers(
        tmp_path,
        sequenced(0, timestamps=[NOW]),
        sequenced(0, producer_id=8, timestamps=[NOW + 1]),
        sequenced(0, producer_id=9, timestamps=[NOW - DAY], is_transactional=True),
    )
    assert manager.remove_expired(NOW + DAY - 1) == 0
    assert manager.remove_expired(NOW + DAY) == 1
    assert sorted(manager.active) == [8, 9]
    manager.expiration_ms = 5
    assert manager.remove_expired(NOW + 10) == 1
    assert manager.check(header(77)) is None


def test_the_snapshot_has_kafkas_bytes() -> None:
    entry = ProducerStateEntry(2, (BatchMetadata(4, 6, 106, 2, NOW),), NOW, 5, 99)
    data = encode_snapshot({7: entry})
    assert data[:2] == bytes.fromhex("0001")
    assert data[6:] == struct.pack(">iqhiqiqiq", 1, 7, 2, 6, 106, 2, NOW, 5, 99)
    assert encode_snapshot({}) == bytes.fromhex("0001 48674bc7 00000000")


def test_a_snapshot_keeps_the_newest_batch_of_each_producer() -> None:
    batches = tuple(BatchMetadata(number, number, number + 10, 0, NOW + number) for number in range(5))
    known = {
        7: ProducerStateEntry(0, batches, NOW + 4),
        8: ProducerStateEntry(3, (), NOW, 4, -1),
        9: ProducerStateEntry(1, (BatchMetadata(INT32_MAX, 1, 30, 2, NOW),), NOW, -1, 28),
    }
    assert decode_snapshot(encode_snapshot(known)) == {**known, 7: known[7]._replace(batches=batches[-1:])}


WHOLE = encode_snapshot({7: ProducerStateEntry(0, (BatchMetadata(0, 0, 0, 0, NOW),), NOW)})
TWO_COUNTED = struct.pack(">i", 2) + WHOLE[10:]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        WHOLE[:-1],
        WHOLE + b"\0",
        b"\0\2" + WHOLE[2:],  # This is the version.
        WHOLE[:20] + bytes([WHOLE[20] ^ 1]) + WHOLE[21:],
        WHOLE[:2] + struct.pack(">I", crc32c(TWO_COUNTED)) + TWO_COUNTED,
    ],
)
def test_a_damaged_snapshot_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(data)


def snapshot_at(manager: ProducerStateManager, offset: int) -> None:
    manager.map_end_offset = offset
    manager.take_snapshot()


def test_a_snapshot_is_loaded_again_with_what_it_told(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0, 3))
    snapshot_at(manager, 3)
    loaded = ProducerStateManager(str(tmp_path), DAY, [3])
    loaded.truncate_and_reload(0, 3, NOW)
    assert loaded.map_end_offset == 3
    assert dict(loaded.active) == dict(manager.active)


def test_a_snapshot_is_written_once_per_offset(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0, 3))
    snapshot_at(manager, 3)
    (tmp_path / "00000000000000000003.snapshot").unlink()
    snapshot_at(manager, 3)
    assert list(tmp_path.iterdir()) == []


def test_a_corrupt_snapshot_gives_way_to_the_one_before(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0, 3))
    snapshot_at(manager, 3)
    snapshot_at(manager, 5)
    (tmp_path / "00000000000000000005.snapshot").write_bytes(b"nonsense")
    manager.truncate_and_reload(0, 6, NOW)
    assert manager.map_end_offset == 3
    assert manager.snapshots == [3]
    assert manager.active[7].last_sequence == 2


def test_a_producer_whose_batches_tell_no_time_lives_from_the_first_look_on(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0, 3, timestamps=[-1, -1, -1]))
    assert manager.active[7].last_timestamp == -1
    assert manager.remove_expired(NOW) == 0
    assert manager.check(header(0, 3)) is not None
    assert manager.remove_expired(NOW + DAY - 1) == 0
    assert manager.remove_expired(NOW + DAY) == 1


def test_a_producer_whose_batches_tell_no_time_is_loaded(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0, 3, timestamps=[-1, -1, -1]))
    snapshot_at(manager, 3)
    again = ProducerStateManager(str(tmp_path), DAY, [3])
    again.truncate_and_reload(0, 3, NOW)
    assert again.check(header(0, 3)) is not None
    assert again.active[7].last_timestamp == NOW


def test_expired_producers_are_not_loaded(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0, 3))
    snapshot_at(manager, 3)
    manager.truncate_and_reload(0, 3, NOW + DAY)
    assert dict(manager.active) == {}


def test_going_back_removes_the_snapshots_that_are_ahead(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0, 3))
    for offset in (3, 5, 8):
        snapshot_at(manager, offset)
    manager.truncate_and_reload(3, 6, NOW)
    assert manager.snapshots == [5]
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000005.snapshot"]
    manager.truncate_fully_and_start_at(100)
    assert (manager.snapshots, manager.map_end_offset, dict(manager.active)) == ([], 100, {})
    assert list(tmp_path.iterdir()) == []


def test_snapshots_without_a_segment_go_but_for_one_behind_the_last(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0))
    for offset in (10, 20, 25, 30, 35, 40):
        snapshot_at(manager, offset)
    manager.remove_stray_snapshots([0, 20, 30])
    assert manager.snapshots == [20, 30, 40]
    manager.remove_stray_snapshots([0, 20, 50])
    assert manager.snapshots == [20]


def test_a_later_log_start_is_remembered(tmp_path: Path) -> None:
    manager = producers(tmp_path, sequenced(0))
    manager.on_log_start_offset_incremented(50)
    assert manager.map_end_offset == 50
    assert sorted(manager.active) == [7]


@given(st.lists(st.dictionaries(st.integers(0, 8), st.none() | st.integers(0, 3), max_size=4), max_size=8))
def test_a_snapshot_of_changes_is_that_of_all_producers(changes: list[dict[int, int | None]]) -> None:
    """None removes a producer."""
    producers: dict[int, ProducerStateEntry] = {}
    encoder = SnapshotEncoder()
    for number, changed in enumerate(changes):
        for producer_id, epoch in changed.items():
            if epoch is None:
                producers.pop(producer_id, None)
            else:
                producers[producer_id] = ProducerStateEntry(epoch, (BatchMetadata(0, 0, number, 0, NOW),), NOW)
        data = encoder.encode(producers, changed)
        assert decode_snapshot(data) == producers
        if number % 2:
            encoder = SnapshotEncoder(data)
