"""The part of a log that a start reads after a kill or a crash."""

import os
import shutil
import struct
from pathlib import Path

import pytest

from minibroker_storage import log as log_module
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.log import Log
from minibroker_storage.recovery import RECALL_WINDOW_BYTES
from tests.storage.counted_reads import counted, linux_only
from tests.storage.helpers import INDEX, LOG, NOW, TIME_INDEX, Home, a_batch, contents, offsets_of, sequenced
from tests.storage.time_search import find_max_timestamp, offset_of_time

VALUE = b"v" * 900
SIZE = sequenced(0, value=VALUE).size
SEGMENTS = LogConfig(segment_bytes=100 * SIZE)


def large(tmp_path: Path, count: int = 950, config: LogConfig = SEGMENTS, *, idempotent: bool = True) -> Home:
    """Return a log with segments of 100 batches of about 1 KB, and timestamps that increase by 10 ms."""
    tmp_path.mkdir(exist_ok=True)
    home = Home(tmp_path / "orders-0", config)
    for number in range(count):
        time = [NOW + 10 * number]
        if idempotent:
            home.append(sequenced(number, value=VALUE, timestamps=time))
        else:
            home.append(a_batch(value=VALUE, timestamps=time))
    return home


# After a kill


@linux_only
@pytest.mark.parametrize("idempotent", [True, False])
def test_after_a_kill_flushed_batches_are_not_read(tmp_path: Path, *, idempotent: bool) -> None:
    home = large(tmp_path, 2000, LogConfig(), idempotent=idempotent)
    home.log.take_producer_snapshot()
    home.append(sequenced(2000))
    home.crash()
    with counted() as reads:
        log = home.open(last_stop=LastStop.KILLED, recovery_point=2000)
    assert log.log_end_offset == 2001
    assert log.producers.active[7].last_sequence == 2000
    assert reads.total(".log") < 60_000 < log.size // 30


@linux_only
def test_after_a_kill_closed_segments_are_looked_at_in_a_few_places_only(tmp_path: Path) -> None:
    home = large(tmp_path)
    home.crash()
    with counted() as reads:
        log = home.open(last_stop=LastStop.KILLED, recovery_point=home.log.segments[-1].base_offset)
    assert len(log.segments) == 10
    closed = {name: size for name, size in reads.of.items() if int(name[:20]) < log.segments[-1].base_offset}
    *older, newest = (size for name, size in sorted(closed.items()) if name.endswith(".log"))
    assert max(older) < 11_000 < log.segments[0].size // 8
    assert newest < 11_000 + 2 * RECALL_WINDOW_BYTES  # Recovery also reads the batches before the producers' last ones.
    assert max(size for name, size in closed.items() if name.endswith("index")) < 5000


DISORDERS = {
    "the last batch twice": ([0, 1, 2, 3, 4, 5, 5], 6),
    "the first batch again at the end": ([0, 1, 2, 3, 4, 5, 0], 6),
    "a batch twice": ([0, 1, 2, 2, 3, 4, 5], 3),
    "two batches swapped": ([0, 1, 3, 2, 4, 5], 3),
    "a batch missing": ([0, 1, 3, 4, 5], 5),
}
"""Orders of the batches 0 to 5 in a file, and how many precede the first one that is out of order.

If the offsets are large, Kafka empties such a segment because it cannot index them.
"""


@pytest.mark.parametrize("name", DISORDERS)
def test_a_batch_out_of_order_cuts_the_log_after_a_kill(tmp_path: Path, name: str) -> None:
    order, intact = DISORDERS[name]
    home = Home(tmp_path / "orders-0", LogConfig())
    for number in range(6):
        home.append(a_batch(value=bytes([number]) * 5000))
    home.crash()
    data = home.file(LOG).read_bytes()
    size = len(data) // 6
    home.file(LOG).write_bytes(b"".join(data[number * size : (number + 1) * size] for number in order))
    log = home.open(last_stop=LastStop.KILLED)
    assert log.log_end_offset == order[intact - 1] + 1
    assert offsets_of(log) == order[:intact]


@pytest.mark.parametrize("number", range(6))
def test_a_damaged_batch_below_the_end_of_the_index_cuts_the_log_after_a_kill(tmp_path: Path, number: int) -> None:
    home = Home(tmp_path / "orders-0", LogConfig())
    for value in range(6):
        home.append(a_batch(value=bytes([value]) * 5000))
    home.crash()
    data = bytearray(home.file(LOG).read_bytes())
    data[len(data) // 6 * number + 8] ^= 0x40  # This is its length.
    home.file(LOG).write_bytes(data)
    log = home.open(last_stop=LastStop.KILLED)
    assert log.log_end_offset == number
    assert offsets_of(log) == list(range(number))


@pytest.mark.parametrize("lost", range(0, 2 * SIZE, 173))
def test_an_end_that_a_kill_tore_is_cut_and_indexed_as_if_nothing_had_been(tmp_path: Path, lost: int) -> None:
    home = large(tmp_path, 130)
    home.crash()
    name = home.names(".log")[-1]
    os.truncate(home.file(name), home.file(name).stat().st_size - lost)
    log = home.open(last_stop=LastStop.KILLED)
    intact = 130 - -(-lost // SIZE)
    assert log.log_end_offset == intact
    assert log.producers.active[7].last_sequence == intact - 1
    log.close()
    expected_home = large(tmp_path / "whole", intact)
    expected_home.log.close()
    ours, expected = contents(home.path), contents(expected_home.path)
    for name in home.names("index"):
        assert ours[name] == expected[name]


def test_index_entries_without_batches_or_of_other_batches_are_not_believed(tmp_path: Path) -> None:
    home = large(tmp_path, 60)
    home.crash()
    index = home.file(INDEX).read_bytes().rstrip(b"\0")
    expected = offsets_of(home.open(last_stop=LastStop.KILLED))
    home.crash()
    lies = [
        struct.pack(">ii", 59, 59 * SIZE + 1),
        struct.pack(">ii", 58, 59 * SIZE),
        struct.pack(">ii", 70, 59 * SIZE),
        struct.pack(">ii", 60, 60 * SIZE),
        struct.pack(">ii", 2**31 - 1, 2**31 - 1),
        struct.pack(">ii", -1, -1),
        struct.pack(">ii", 59, 0),
    ]
    for lie in lies:
        home.file(INDEX).write_bytes(index + lie)
        log = home.open(last_stop=LastStop.KILLED)
        assert offsets_of(log) == expected
        assert home.file(INDEX).read_bytes().startswith(index)
        entries = [log.segments[0].offset_index.entry(slot) for slot in range(log.segments[0].offset_index.entries)]
        assert all(entry.position == entry.offset * SIZE for entry in entries)
        home.crash()


def test_a_time_index_that_knows_more_or_less_than_the_offset_index_is_put_right(tmp_path: Path) -> None:
    home = large(tmp_path, 60)
    home.log.close()
    times = home.file(TIME_INDEX).read_bytes()
    count = len(times) // 12
    damages = [
        *(times[: 12 * entries_left] for entries_left in range(count)),
        times[:-4] + b"\0\0\0\0",  # This write was torn at the end of a page.
        times[:-8] + bytes(8),
        times + struct.pack(">qi", NOW + 10**6, 60),
        times[:-12] + struct.pack(">qi", NOW + 10**6, 59),
        times + bytes(12 * 20),
        times + b"\x01" * 12 * 5,
    ]
    for damage in damages:
        home.file(TIME_INDEX).write_bytes(damage)
        log = home.open(last_stop=LastStop.KILLED)
        assert home.file(TIME_INDEX).read_bytes().rstrip(b"\0") == times
        for number in range(60):
            assert offset_of_time(log, NOW + 10 * number - 5) == number
        assert find_max_timestamp(log) == (NOW + 590, 59, 0)
        home.crash()


def test_a_kill_within_a_roll_leaves_a_segment_to_be_closed_again(tmp_path: Path) -> None:
    home = large(tmp_path, 95)
    before = home.file(TIME_INDEX).read_bytes()
    home.log.roll(NOW)
    closed = contents(home.path)
    home.crash()
    home.file(TIME_INDEX).write_bytes(before)  # The last entry was not written, and the file was not trimmed.
    for name in home.names(".snapshot"):
        home.file(name).unlink()
    log = home.open(last_stop=LastStop.KILLED)
    assert [segment.base_offset for segment in log.segments] == [0, 95]
    assert home.file(TIME_INDEX).read_bytes() == closed[TIME_INDEX]
    assert log.segments[0].max_timestamp == NOW + 940
    assert log.producers.active[7].last_sequence == 94


# Producers


def test_a_growing_segment_leaves_a_snapshot_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "SNAPSHOT_INTERVAL_BYTES", 20 * SIZE)
    home = Home(tmp_path / "orders-0", SEGMENTS)
    snapshots = []
    for number in range(250):
        home.append(sequenced(number, value=VALUE))
        snapshots.append([int(name.split(".")[0]) for name in home.names(".snapshot")])
    assert snapshots[19] == []
    assert snapshots[20] == [20]
    assert snapshots[40] == [40]
    assert snapshots[99] == [80]
    assert snapshots[100] == [100]  # The new segment's snapshot is kept.
    assert snapshots[120] == [100, 120]
    assert snapshots[249] == [100, 200, 240]
    log = home.reopen(LastStop.KILLED)
    assert log.producers.active[7].last_sequence == 249
    assert log.producers.check(sequenced(250).header) is None
    home.append(*(sequenced(250 + by, value=VALUE) for by in range(51)))
    assert home.names(".snapshot") == [f"{offset:020d}.snapshot" for offset in (100, 200, 300)]


def test_with_many_producers_the_snapshots_are_farther_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "SNAPSHOT_INTERVAL_BYTES", 1)
    home = Home(tmp_path / "orders-0", LogConfig())
    for number in range(600):
        home.append(sequenced(0, producer_id=number))
    (name,) = home.names(".snapshot")
    assert int(name.split(".")[0]) < 500


@linux_only
def test_what_a_start_had_to_replay_the_next_one_has_not(tmp_path: Path) -> None:
    home = large(tmp_path, 2000, LogConfig())
    home.crash()
    with counted() as first:
        home.open(last_stop=LastStop.KILLED, recovery_point=2000)
    home.crash()
    with counted() as second:
        log = home.open(last_stop=LastStop.KILLED, recovery_point=2000)
    assert first.total(".log") > 1_500_000
    assert second.total(".log") < 60_000
    assert log.producers.active[7].last_sequence == 1999


def test_a_snapshot_that_a_crash_spoilt_is_made_up_for_by_an_older_one(tmp_path: Path) -> None:
    home = large(tmp_path, 250)
    home.log.take_producer_snapshot()
    home.append(sequenced(250))
    home.crash()
    assert home.names(".snapshot") == [f"{offset:020d}.snapshot" for offset in (100, 200, 250)]
    for damage in (b"", b"\0" * 58, home.file(home.names(".snapshot")[0]).read_bytes()[:-1]):
        for name in home.names(".snapshot")[1:]:
            home.file(name).write_bytes(damage)
        log = home.open(last_stop=LastStop.KILLED)
        assert log.producers.active[7].last_sequence == 250
        assert len(log.producers.active[7].batches) == 5
        home.crash()


# After a machine crash


@linux_only
@pytest.mark.parametrize("recovery_point", [0, 1, 450, 500, 501, 930, 950, 2000])
def test_after_a_crash_only_what_was_not_flushed_is_read(tmp_path: Path, recovery_point: int) -> None:
    home = large(tmp_path)
    home.crash()
    with counted() as reads:
        log = home.open(last_stop=LastStop.CRASHED, recovery_point=recovery_point)
    assert log.log_end_offset == 950
    assert offsets_of(log) == list(range(950))
    assert log.producers.active[7].last_sequence == 949
    assert log.recovery_point == min(recovery_point, 950)
    unflushed = max(950 - recovery_point, 0) * SIZE
    replayed = 2 * (950 - min(recovery_point, 949) // 100 * 100) * SIZE
    assert unflushed <= reads.total(".log") <= unflushed + replayed + 10 * 20_000


@pytest.mark.slow
@pytest.mark.parametrize("recovery_point", [0, 150, 199, 200, 201, 260])
def test_what_was_not_flushed_may_be_anything(tmp_path: Path, recovery_point: int) -> None:
    home = large(tmp_path, 330)
    home.crash()
    flushed = recovery_point - recovery_point % 100
    for base in range(flushed, 400, 100):
        unflushed_from = max(recovery_point - base, 0) * SIZE
        path = home.file(f"{base:020d}.log")
        data = path.read_bytes()
        path.write_bytes(data[:unflushed_from] + bytes(len(data) - unflushed_from))
        for suffix, size in ((".index", 8), (".timeindex", 12)):
            index = home.file(f"{base:020d}{suffix}")
            original = index.read_bytes()
            intact = sum(
                0 <= struct.unpack_from(">i", original, at + size - (8 if size == 8 else 4))[0] + base < recovery_point
                and any(original[at : at + size])
                for at in range(0, len(original), size)
            )
            index.write_bytes(original[: intact * size] + b"\x55" * size * 3)
    log = home.open(last_stop=LastStop.CRASHED, recovery_point=recovery_point)
    assert log.log_end_offset == recovery_point
    assert offsets_of(log) == list(range(recovery_point))
    assert (7 in log.producers.active) == (recovery_point > 0)
    assert home.append(sequenced(recovery_point, value=VALUE, timestamps=[NOW + 10 * recovery_point])) == [
        recovery_point
    ]
    log.close()
    whole_log = large(tmp_path / "whole", recovery_point + 1)
    whole_log.log.close()
    ours, expected = contents(home.path), contents(whole_log.path)
    assert {name for name in ours if name.endswith(".log")} == {name for name in expected if name.endswith(".log")}
    for name in home.names(".log"):
        assert ours[name] == expected[name]


def test_a_recovery_point_behind_the_end_is_taken_back(tmp_path: Path) -> None:
    home = large(tmp_path, 50)
    home.crash()
    os.truncate(home.file(LOG), 20 * SIZE + 3)
    log = home.open(last_stop=LastStop.CRASHED, recovery_point=45)
    assert (log.log_end_offset, log.recovery_point) == (20, 20)
    assert offsets_of(log) == list(range(20))


# Index damage in closed segments


@pytest.mark.parametrize("last_stop", LastStop)
@pytest.mark.parametrize("name", [INDEX, TIME_INDEX, INDEX.replace("000.", "100."), TIME_INDEX.replace("000.", "100.")])
@pytest.mark.parametrize(
    "damage", ["missing", "empty", "halved", "torn", "zeros", "ones", "garbage behind", "one entry less"]
)
def test_a_damaged_index_of_a_closed_segment_is_noticed(
    tmp_path: Path, last_stop: LastStop, name: str, damage: str
) -> None:
    home = large(tmp_path, 250)
    home.log.close()
    path = home.file(name)
    original = path.read_bytes()
    size = 12 if "time" in name else 8
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {
                "empty": b"",
                "halved": original[: len(original) // size // 2 * size],
                "torn": original[:-3],
                "zeros": bytes(len(original)),
                "ones": b"\xff" * len(original),
                "garbage behind": original + b"\x33" * 2 * size,
                "one entry less": original[:-size],
            }[damage]
        )
    log = home.open(last_stop=last_stop)
    if damage != "one entry less" or "time" in name:  # A missing entry only makes searches a little longer.
        assert path.read_bytes() == original
    assert offsets_of(log) == list(range(250))
    for number in range(250):
        assert offset_of_time(log, NOW + 10 * number) == number


def test_a_rebuilt_index_that_finds_a_bad_batch_costs_its_segment_only(tmp_path: Path) -> None:
    """The records of later segments are valid, and Kafka keeps them as well."""
    home = large(tmp_path, 250)
    home.log.close()
    home.file(f"{100:020d}.index").unlink()
    path = home.file(f"{100:020d}.log")
    data = bytearray(path.read_bytes())
    data[50 * SIZE + 100] ^= 1
    path.write_bytes(data)
    log = home.open(last_stop=LastStop.CLEAN)
    assert offsets_of(log) == [*range(150), *range(200, 250)]
    assert log.log_end_offset == 250


def test_a_directory_of_many_segments_is_opened_the_same_by_all_ways(tmp_path: Path) -> None:
    home = large(tmp_path, 450)
    home.log.close()
    copy = tmp_path / "copies" / "orders-0"
    results = []
    for last_stop in LastStop:
        shutil.copytree(home.path, copy)
        log = Log.open(str(copy), config=SEGMENTS, files=home.files, last_stop=last_stop, now_ms=NOW)
        results.append((dict(log.producers.active), [(s.base_offset, s.size, s.max_timestamp) for s in log.segments]))
        log.close()
        assert contents(copy) == contents(home.path)
        shutil.rmtree(copy)
    assert [segments for _, segments in results] == [results[0][1]] * 3
    assert [producers[7].last_sequence for producers, _ in results] == [449] * 3
