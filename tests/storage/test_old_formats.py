"""Messages of formats v0 and v1 in a log: appended, found and recovered beside v2 batches."""

import os
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import LegacyRecordBatch, build_message_set, encode_message
from minibroker_protocol.records.record import NewRecord, Record
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.errors import RecordBatchTooLargeError, StorageError
from minibroker_storage.log import Log
from minibroker_storage.lookup import TimestampOffset
from tests.storage.counted_reads import counted, linux_only
from tests.storage.helpers import (
    INDEX,
    LOG,
    NOW,
    TIME_INDEX,
    Home,
    a_batch,
    batches_of,
    contents,
    refusing,
    stage_messages,
)
from tests.storage.time_search import find_by_timestamp, find_max_timestamp, offset_of_time

DENSE = LogConfig(segment_bytes=2000, index_interval_bytes=100, segment_index_bytes=1200)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "orders-0", DENSE)


def append_set(
    home: Home,
    values: Sequence[bytes | None],
    *,
    magic: int = 1,
    timestamps: Sequence[int] = (),
    codec: CompressionCodec = CompressionCodec.NONE,
) -> int:
    """Append and commit one message set, and return the offset of its first message."""
    base = home.log.next_offset
    times = list(timestamps) or [NOW + base + by for by in range(len(values))]
    records = [NewRecord(None, value, time) for value, time in zip(values, times, strict=True)]
    data = build_message_set(records, magic=magic, base_offset=base, codec=codec)
    newest = max(times) if magic else -1
    stage_messages(home.log, data, newest, times.index(newest) if codec is CompressionCodec.NONE and magic else 0)
    home.log.commit()
    return base


def records_of(log: Log, offset: int | None = None) -> list[Record]:
    """Return every record from `offset` or the log start on, read like a consumer."""
    first = log.log_start_offset if offset is None else offset
    return [record for batch in batches_of(log, first) for record in batch if record.offset >= first]


def mixed(tmp_path: Path, config: LogConfig = DENSE) -> Home:
    """Return a log of v0, v1 and v2, plain and compressed, in 50 appends. Values of v0 and v1 contain their offset."""
    home = Home(tmp_path / "orders-0", config)
    for number in range(50):
        base, count, codec = home.log.next_offset, number % 7 + 1, CompressionCodec(number % 4)
        times = [NOW + base + by for by in range(count)]
        if number % 5 == 4:
            home.append(a_batch(value=b"", timestamps=times, codec=codec))
        else:
            append_set(home, [b"%d" % (base + by) for by in range(count)], magic=number % 5 % 2, codec=codec)
    return home


def test_every_offset_is_read_from_where_it_is(tmp_path: Path) -> None:
    home = mixed(tmp_path)
    end = home.log.log_end_offset
    assert len(home.log.segments) > 3
    for offset in range(end):
        data = home.log.read(offset, 1).read()
        (first,) = iter_batches(data)
        assert first.header.last_offset >= offset
        assert offset in {record.offset for record in first} or first.header.magic == 2
    for start in (0, 1, 57, end - 1):
        assert [record.offset for record in records_of(home.log, start)] == list(range(start, end))
    for record in records_of(home.log):
        assert record.value in {b"%d" % record.offset, b""}


def test_a_message_set_is_kept_to_the_byte_and_gets_one_index_entry_at_most(home: Home) -> None:
    assert append_set(home, [b"a" * 60] * 3) == 0
    first = home.file(LOG).read_bytes()
    assert append_set(home, [b"b" * 60] * 4, timestamps=[NOW + 9, NOW + 11, NOW + 10, NOW + 11]) == 3
    size = home.log.size
    assert append_set(home, [b"c" * 60] * 2, timestamps=[NOW, NOW]) == 7
    assert home.file(LOG).read_bytes().startswith(first)
    assert [batch.header.base_offset for batch in iter_batches(home.file(LOG).read_bytes())] == list(range(9))
    home.log.close()
    assert home.file(INDEX).read_bytes() == struct.pack(">iiii", 3, len(first), 7, size)
    # This is the first message with the largest timestamp, as given by the caller.
    assert home.file(TIME_INDEX).read_bytes() == struct.pack(">qi", NOW + 11, 4)


def test_nothing_is_seen_or_kept_of_a_staged_set_before_the_commit(home: Home) -> None:
    data = build_message_set([NewRecord(None, b"v", NOW)] * 3, magic=1)
    stage_messages(home.log, data, NOW)
    assert (home.log.next_offset, home.log.log_end_offset) == (3, 0)
    assert find_max_timestamp(home.log) is None
    home.log.commit()
    assert (home.log.next_offset, home.log.log_end_offset) == (3, 3)
    assert find_max_timestamp(home.log) == (NOW, 0, -1)


def test_the_smallest_messages_are_found_at_the_end_of_a_log(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", LogConfig(index_interval_bytes=10**6))
    for number in range(400):  # These exceed one read.
        append_set(home, [None], magic=0)
        assert home.log.size == 26 * (number + 1)
    for offset in (0, 1, 314, 315, 316, 398, 399):
        entry = home.log.segments[0].translate(offset)
        assert entry == (offset, 26 * offset, 26, offset)
    assert home.log.segments[0].translate(400) is None
    home.crash()
    for last_stop in LastStop:
        assert home.open(last_stop=last_stop).log_end_offset == 400
        home.crash()


def test_bytes_of_a_message_are_not_taken_for_an_offset_delta(tmp_path: Path) -> None:
    """Old messages have their key or value where a v2 header has its last offset delta."""
    home = Home(tmp_path / "orders-0", LogConfig(index_interval_bytes=10**6))
    contents_of_value = [b"\xff" * 40, b"\x7f" * 40, b"\0" * 40, b"\x80" + b"\0" * 39]
    for number in range(40):
        data = encode_message(number, contents_of_value[number % 4], b"", magic=0)
        stage_messages(home.log, bytearray(data), -1)
    home.log.commit()
    size = home.log.size // 40
    for offset in range(40):
        entry = home.log.segments[0].translate(offset)
        assert entry == (offset, size * offset, size, offset)


def test_a_set_begins_a_new_segment_as_a_batch_does(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", LogConfig(segment_bytes=300, segment_ms=1000))
    append_set(home, [b"v" * 100], timestamps=[NOW])
    append_set(home, [b"v" * 50] * 2, timestamps=[NOW, NOW])
    append_set(home, [b"v"], timestamps=[NOW + 1000])
    append_set(home, [b"v"], timestamps=[NOW + 1001])
    assert [segment.base_offset for segment in home.log.segments] == [0, 1, 4]
    with pytest.raises(RecordBatchTooLargeError):
        append_set(home, [b"v" * 150] * 2)
    assert append_set(home, [b"w"]) == 5


def test_old_messages_have_no_leader_epoch_and_the_log_forgets_the_ones_before(home: Home) -> None:
    home.append(a_batch(), leader_epoch=3)
    assert home.log.epochs.latest_epoch == 3
    append_set(home, [b"v"])
    assert home.log.epochs.latest_epoch == -1
    assert home.file("leader-epoch-checkpoint").read_text() == "0\n0\n"
    append_set(home, [b"v"])
    home.append(a_batch(), leader_epoch=3)
    assert home.log.epochs.entries == ((3, 3),)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_set_that_cannot_be_written_is_undone(home: Home, magic: int) -> None:
    home.append(a_batch(), leader_epoch=3)
    before = contents(home.path)
    with refusing("pwrite"), pytest.raises(StorageError, match="No space left"):
        append_set(home, [b"v" * 200], magic=magic)
    assert home.log.next_offset == 1
    assert home.log.epochs.entries == ((3, 0),)
    assert contents(home.path) == before
    assert append_set(home, [b"w"], magic=magic) == 1


# Timestamps


def test_times_are_found_in_messages_that_have_them(home: Home) -> None:
    append_set(home, [b"a" * 50] * 3, timestamps=[100, 300, 200])
    append_set(home, [b"b" * 50] * 3, magic=0, timestamps=[999, 999, 999])
    append_set(home, [b"c" * 50] * 4, timestamps=[310, 500, 400, 500], codec=CompressionCodec.GZIP)
    append_set(home, [b"d" * 50] * 2, timestamps=[450, 600])
    answers = {0: 0, 100: 0, 101: 1, 300: 1, 301: 6, 311: 7, 500: 7, 501: 11, 600: 11}
    for last_stop in LastStop:
        for time, offset in answers.items():
            assert offset_of_time(home.log, time) == offset
        assert find_by_timestamp(home.log, 601) is None
        assert find_max_timestamp(home.log) == TimestampOffset(600, 11, -1)
        home.reopen(last_stop)


def test_a_log_of_v0_has_no_times(home: Home) -> None:
    for _ in range(30):
        append_set(home, [b"v" * 100] * 2, magic=0)
    for last_stop in LastStop:
        assert find_by_timestamp(home.log, 0) is None
        assert find_max_timestamp(home.log) is None
        assert {segment.largest_timestamp.timestamp for segment in home.log.segments} == {-1}
        home.reopen(last_stop)


# Recovery


@pytest.mark.parametrize("last_stop", LastStop)
def test_a_log_of_all_formats_is_the_same_after_a_stop(tmp_path: Path, last_stop: LastStop) -> None:
    home = mixed(tmp_path)
    before = records_of(home.log)
    end = home.log.log_end_offset
    newest = find_max_timestamp(home.log)
    home.stop(last_stop)
    for suffix in (".log", ".index", ".timeindex"):
        assert len(home.names(suffix)) > 3
    log = home.open(last_stop=last_stop)
    assert log.log_end_offset == end
    assert records_of(log) == before
    assert find_max_timestamp(log) == newest
    assert append_set(home, [b"more"]) == end
    assert [record.value for record in records_of(log, end)] == [b"more"]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [CompressionCodec.NONE, CompressionCodec.GZIP])
@linux_only
def test_after_a_kill_flushed_old_messages_are_not_read(tmp_path: Path, magic: int, codec: CompressionCodec) -> None:
    home = Home(tmp_path / "orders-0", LogConfig())
    for _ in range(600):
        append_set(home, [os.urandom(1500) for _ in range(3)], magic=magic, codec=codec)
    home.log.take_producer_snapshot()
    home.crash()
    before = home.file(TIME_INDEX).read_bytes()
    with counted() as reads:
        log = home.open(last_stop=LastStop.KILLED, recovery_point=1800)
    assert log.log_end_offset == 1800
    assert reads.total("") < 70_000 < log.size // 30
    assert home.file(TIME_INDEX).read_bytes().startswith(before.rstrip(b"\0"))


@pytest.mark.parametrize("last_stop", [LastStop.KILLED, LastStop.CRASHED])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("interval", [0, 4096])
def test_a_set_torn_at_any_byte_keeps_its_whole_messages(
    tmp_path: Path, last_stop: LastStop, magic: int, interval: int
) -> None:
    config = LogConfig(index_interval_bytes=interval, segment_index_bytes=1200)
    home = Home(tmp_path / "orders-0", config)
    append_set(home, [b"a", b"bb", b"ccc"], magic=magic)
    append_set(home, [b"0123456789" * 3] * 4, magic=magic, codec=CompressionCodec.GZIP)
    before = home.log.size
    base = home.log.log_end_offset
    home.crash()
    data = build_message_set([NewRecord(b"k", b"v" * by, NOW + by) for by in (3, 0, 7)], magic=magic, base_offset=base)
    sizes = [batch.header.size_in_bytes for batch in iter_batches(data)]
    original = home.file(LOG).read_bytes()
    for torn in range(len(data) + 1):
        home.file(LOG).write_bytes(original + data[:torn])
        log = home.open(last_stop=last_stop)
        intact = sum(torn >= sum(sizes[: number + 1]) for number in range(3))
        assert log.log_end_offset == base + intact
        assert log.size == home.file(LOG).stat().st_size == before + sum(sizes[:intact])
        assert [record.offset for record in records_of(log)] == list(range(base + intact))
        home.crash()


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("byte", range(8, 43))
def test_a_flipped_bit_in_the_last_message_cuts_it(home: Home, magic: int, byte: int) -> None:
    append_set(home, [b"first"], magic=magic)
    append_set(home, [b"the last one"], magic=magic)
    home.crash()
    data = bytearray(home.file(LOG).read_bytes())
    last = len(data) - len(b"the last one") - (26 if magic == 0 else 34)
    if byte >= len(data) - last:
        byte = len(data) - last - 1
    data[last + byte] ^= 0x20
    home.file(LOG).write_bytes(data)
    for last_stop in (LastStop.KILLED, LastStop.CRASHED):
        log = home.open(last_stop=last_stop)
        assert [record.value for record in records_of(log)] == [b"first"]
        home.crash()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("last_stop", LastStop)
def test_lost_indexes_of_old_messages_are_made_anew(tmp_path: Path, suffix: str, last_stop: LastStop) -> None:
    home = mixed(tmp_path)
    before = records_of(home.log)
    home.log.close()
    for name in home.names(suffix):
        home.file(name).unlink()
    log = home.open(last_stop=last_stop)
    assert records_of(log) == before
    for segment in log.segments[:-1]:
        assert segment.offset_index.entries > 2
    for record in before:
        if record.timestamp >= 0:
            assert offset_of_time(log, record.timestamp) == record.offset


def test_a_message_of_an_unknown_format_ends_the_log(home: Home) -> None:
    append_set(home, [b"v"])
    home.crash()
    original = home.file(LOG).read_bytes()
    for magic in (3, 0x7F, 0xFF):
        strange = bytearray(encode_message(1, None, b"v" * 100, magic=1))
        strange[16] = magic
        home.file(LOG).write_bytes(original + strange)
        for last_stop in (LastStop.KILLED, LastStop.CRASHED):
            assert home.open(last_stop=last_stop).log_end_offset == 1
            home.crash()


def test_a_wrapper_is_known_by_its_last_offset(home: Home) -> None:
    append_set(home, [b"v"] * 5, codec=CompressionCodec.GZIP)
    append_set(home, [b"v"] * 5, codec=CompressionCodec.GZIP)
    segment = home.log.segments[0]
    assert [header.base_offset for _, header in segment.headers_from(0)] == [4, 9]
    for offset, base in ((0, 4), (4, 4), (5, 9), (7, 9), (9, 9)):
        entry = segment.translate(offset)
        assert entry is not None
        assert entry.base_offset == base
        batch = LegacyRecordBatch(segment.batch_at(entry.position))
        assert offset in {record.offset for record in batch}


def test_a_time_within_a_set_behind_sets_that_are_not_indexed_is_found(tmp_path: Path) -> None:
    home = Home(tmp_path / "orders-0", LogConfig(index_interval_bytes=300))
    first = 0
    for count in (1, 3, 1, 9, 2, 16, 1, 5):
        append_set(home, [b"v" * 30] * count, timestamps=[NOW + number for number in range(first, first + count)])
        first += count
    for last_stop in LastStop:
        for number in range(first):
            assert find_by_timestamp(home.log, NOW + number) == (NOW + number, number, -1)
        home.reopen(last_stop)
