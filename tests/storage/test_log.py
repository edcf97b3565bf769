"""Appending batches, indexing them, closing and deleting a log."""

import os
import struct
from pathlib import Path

import pytest

from minibroker_protocol.records.batch import RecordBatch
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.errors import LogClosedError, OffsetOutOfRangeError
from minibroker_storage.files import FilePool
from minibroker_storage.layout import purge
from minibroker_storage.log import Log
from tests.storage.helpers import (
    INDEX,
    LOG,
    NOW,
    SMALL,
    TIME_INDEX,
    Home,
    a_batch,
    batches_of,
    filled,
    offsets_of,
    sequenced,
)
from tests.storage.time_search import find_by_timestamp


def test_an_appended_batch_gets_the_next_offset_and_the_leader_epoch(home: Home) -> None:
    assert home.append(a_batch(3), leader_epoch=4) == [0]
    assert home.append(a_batch(1), a_batch(2), leader_epoch=5) == [3, 4]
    headers = [batch.header for batch in batches_of(home.log)]
    assert [(header.base_offset, header.last_offset, header.partition_leader_epoch) for header in headers] == [
        (0, 2, 4),
        (3, 3, 5),
        (4, 5, 5),
    ]
    for batch in batches_of(home.log):
        batch.check_crc()


def test_staged_batches_are_not_seen_before_the_commit(home: Home) -> None:
    assert home.stage(a_batch(2), a_batch()) == [0, 2]
    assert (home.log.log_end_offset, home.log.high_watermark, home.log.size) == (0, 0, 0)
    assert home.log.read(0, 1000).read() == b""
    with pytest.raises(OffsetOutOfRangeError):
        home.log.read(1, 1000)
    home.log.commit()
    assert (home.log.log_end_offset, home.log.high_watermark, home.log.last_stable_offset) == (3, 3, 3)
    assert offsets_of(home.log) == [0, 2]


def test_the_bytes_in_the_file_are_the_stamped_bytes_of_the_producer(home: Home) -> None:
    batches = [a_batch(count) for count in (1, 2, 3)]
    home.append(*batches)
    assert home.file(LOG).read_bytes() == b"".join(bytes(batch.view) for batch in batches)


def test_a_commit_of_nothing_does_nothing(home: Home) -> None:
    calls: list[Log] = []
    home.log.add_append_listener(calls.append)
    home.log.commit()
    assert calls == []


def test_many_small_batches_are_written_by_one_commit(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", LogConfig())
    home.append(*(a_batch() for _ in range(2500)))
    assert offsets_of(home.log) == list(range(2500))


def test_listeners_are_called_once_per_commit_until_they_leave(home: Home) -> None:
    calls: list[tuple[str, int]] = []

    def once(log: Log) -> None:
        calls.append(("once", log.high_watermark))
        log.remove_append_listener(once)

    def always(log: Log) -> None:
        calls.append(("always", log.high_watermark))

    for listener in (once, always, always):
        home.log.add_append_listener(listener)
    home.append(a_batch(), a_batch())
    home.append(a_batch())
    home.log.remove_append_listener(always)
    home.log.remove_append_listener(always)
    home.append(a_batch())
    assert calls == [("once", 2), ("always", 2), ("always", 3)]


def test_the_leader_epoch_is_checkpointed_at_its_first_batch(home: Home) -> None:
    home.append(a_batch(5), leader_epoch=2)
    home.append(a_batch(5), leader_epoch=2)
    home.append(a_batch(5), leader_epoch=6)
    assert home.file("leader-epoch-checkpoint").read_text() == "0\n2\n2 0\n6 10\n"
    assert home.log.epochs.end_offset_for(2, home.log.log_end_offset) == (2, 10)


def test_producers_are_known_as_soon_as_their_batch_is_staged(home: Home) -> None:
    home.stage(sequenced(0, 3))
    duplicate = home.log.producers.check(sequenced(0, 3).header)
    assert duplicate is not None
    assert duplicate.base_offset == 0
    home.log.commit()
    assert home.log.producers.active[7].last_sequence == 2


def test_a_batch_gets_an_index_entry_once_more_than_the_interval_lies_behind_the_last_one(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", LogConfig(index_interval_bytes=300))
    batches = [a_batch(2, timestamps=[NOW + number, NOW + 100 - number]) for number in range(12)]
    size = batches[0].size
    assert 300 // size == 3  # Four batches exceed the interval; three do not.
    home.append(*batches)
    offset_index, time_index = home.log.segments[0].offset_index, home.log.segments[0].time_index
    entries = [offset_index.entry(slot) for slot in range(offset_index.entries)]
    assert entries == [(9, 4 * size), (17, 8 * size)]
    # The first batch has the largest timestamp and the last offset 1. The second index entry has no larger timestamp.
    assert [time_index.entry(slot) for slot in range(time_index.entries)] == [(NOW + 100, 1)]


def test_exactly_the_interval_gives_no_entry(tmp_path: Path) -> None:
    size = a_batch().size
    home = Home(tmp_path / "orders-0", LogConfig(index_interval_bytes=size))
    home.append(a_batch(), a_batch(), a_batch())
    index = home.log.segments[0].offset_index
    assert [index.entry(slot) for slot in range(index.entries)] == [(2, 2 * size)]


def test_closing_adds_the_largest_timestamp_and_trims_the_indexes(home: Home) -> None:
    home.append(a_batch(timestamps=[NOW + 9]), a_batch(timestamps=[NOW + 5]))
    assert home.file(INDEX).stat().st_size == 1200
    home.log.close()
    assert home.file(INDEX).read_bytes() == b""
    assert home.file(TIME_INDEX).read_bytes() == struct.pack(">qi", NOW + 9, 0)


def test_a_closed_log_refuses_appends_and_closes_once(home: Home) -> None:
    home.stage(a_batch())
    home.log.close()
    home.log.close()
    assert home.log.log_end_offset == 1
    with pytest.raises(LogClosedError):
        home.stage(a_batch())
    with pytest.raises(LogClosedError):
        home.log.replace_segments(0, [0])
    assert len(home.files) == 0
    assert home.names(".snapshot") == ["00000000000000000001.snapshot"]


def test_flushing_reaches_every_file_and_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = filled(tmp_path)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    home.log.flush()
    files = {path.stat().st_ino for path in home.path.iterdir() if path.suffix in {".log", ".index", ".timeindex"}}
    assert set(synced) == files | {home.path.stat().st_ino, home.file("leader-epoch-checkpoint").stat().st_ino}


def test_a_deleted_log_leaves_its_name_at_once_and_its_files_to_purge(home: Home) -> None:
    home.append(a_batch())
    home.stage(a_batch())
    data = home.log.read(0, 1000)
    with data.handle as fd:
        target = Path(home.log.delete())
        assert not home.path.exists()
        assert target.name.startswith("orders-0.")
        assert target.name.endswith("-delete")
        purge(str(target))
        assert list(target.parent.iterdir()) == []
        assert RecordBatch(memoryview(os.pread(fd, data.size, 0))).header.base_offset == 0
    assert home.log.directory == str(target)
    assert len(home.files) == 0
    with pytest.raises(LogClosedError):
        home.stage(a_batch())


def test_many_logs_share_few_descriptors(tmp_path: Path) -> None:
    files = FilePool(5)
    homes = [Home(tmp_path / f"orders-{number}", SMALL, files) for number in range(12)]
    for turn in range(40):
        for home in homes:
            home.append(a_batch(2, timestamps=[NOW + turn, NOW]))
            assert len(files) <= 5
    for home in homes:
        assert offsets_of(home.log) == list(range(0, 80, 2))
        assert find_by_timestamp(home.log, NOW + 20) is not None
        assert len(files) <= 5
        assert offsets_of(home.reopen(LastStop.CRASHED)) == list(range(0, 80, 2))
        home.log.close()
    assert len(files) == 0


def test_a_pool_of_one_descriptor_is_enough(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", SMALL, FilePool(1))
    for number in range(100):
        home.append(a_batch(timestamps=[NOW + number]))
    assert offsets_of(home.log) == list(range(100))
    home.log.truncate_to(50, NOW)
    assert offsets_of(home.reopen(LastStop.CLEAN)) == list(range(50))


def test_a_log_says_where_it_is_and_what_it_holds(home: Home) -> None:
    home.append(a_batch(3))
    assert repr(home.log).endswith("orders-0', 0..3)")
    assert repr(home.log.segments) == f"[LogSegment(base_offset=0, size={home.log.size})]"
