"""The segments and small files of jobs are identical to those that the broker's log writes for the same entries."""

import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from minibroker_pipeline.decode import scan_headers
from minibroker_pipeline.log_directories.segment_writer import LogOrderError, PartitionWriter, write_partition_files
from minibroker_protocol.records.header import HEADER, CompressionCodec, make_header
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from minibroker_protocol.records.varint import INT64_MAX
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.producer_snapshot import decode_snapshot
from minibroker_storage.producer_state import ProducerStateManager
from minibroker_storage.transaction_index import AbortedTxn, decode_all
from tests.storage.helpers import NOW, SMALL, TOPIC_ID, Batch, Home, a_batch, contents, marker, sequenced

SETTINGS = LogConfig(
    segment_bytes=SMALL.segment_bytes,
    index_interval_bytes=SMALL.index_interval_bytes,
    segment_index_bytes=SMALL.segment_index_bytes,
)


def left_by_the_log(path: Path, batches: Sequence[Batch], config: LogConfig = SMALL) -> Path:
    """Write a partition's directory with the storage package, and return it."""
    home = Home(path, config)
    for number, batch in enumerate(batches):
        home.append(batch, leader_epoch=number // 50)
    home.log.close()
    return path


def log_bytes(directory: Path) -> bytes:
    """Return the bytes of all entries."""
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def rewritten(
    source: Path, target: Path, *, pieces: int = 1, settings: LogConfig = SETTINGS, base_offset: int = 0
) -> PartitionWriter:
    """Write the same entries with `PartitionWriter`, in this number of calls."""
    target.mkdir()
    data = log_bytes(source)
    headers = scan_headers(data)
    step = -(-len(headers) // pieces)
    producers = ProducerStateManager("", INT64_MAX)
    with closing(PartitionWriter(str(target), settings, base_offset=base_offset)) as writer:
        for first in range(0, len(headers), step):
            writer.append(data, headers[first : first + step])
            for position, size in headers[first : first + step][["position", "size"]].tolist():
                header = make_header(HEADER.unpack_from(data, position))
                entry = memoryview(data)[position : position + size]
                aborted = producers.update(header, header.base_offset, entry) if header.producer_id >= 0 else None
                producers.commit()
                writer.add_aborted([aborted] if aborted else [])
    state = dict(producers.active)
    write_partition_files(str(target), writer.log_end_offset, epochs=writer.epochs, producers=state, topic_id=TOPIC_ID)
    return writer


def many_batches(count: int = 200) -> list[Batch]:
    """Return batches of different sizes, with timestamps that are not in order."""
    chance = random.Random(6)
    return [
        a_batch(chance.randint(1, 4), value=bytes(chance.randint(0, 300)), timestamps=())
        if chance.random() < 0.3
        else a_batch(2, timestamps=[NOW + chance.randint(0, 5000) for _ in range(2)])
        for _ in range(count)
    ]


def transactions() -> list[Batch]:
    """Return batches of three producers. One of them leaves its last transaction open."""
    batches: list[Batch] = []
    for number in range(40):
        first, second = 2 * number, 3 * number
        batches += [
            sequenced(first, 2, producer_id=1, is_transactional=True),
            sequenced(second, 3, producer_id=2, is_transactional=True),
            marker(producer_id=1, commit=number % 3 > 0),
            a_batch(2),
            marker(producer_id=2, commit=number % 2 > 0),
            sequenced(number, producer_id=4, epoch=2),
        ]
    return [*batches, sequenced(0, producer_id=3, is_transactional=True), a_batch()]


@pytest.mark.parametrize(
    ("made", "pieces"), [(many_batches, 1), (many_batches, 7), (many_batches, 200), (transactions, 1000)]
)
def test_every_file_is_what_the_log_itself_would_have_written(tmp_path: Path, made: type, pieces: int) -> None:
    source = left_by_the_log(tmp_path / "orders-0", made())
    rewritten(source, tmp_path / "ours", pieces=pieces)
    ours, theirs = contents(tmp_path / "ours"), contents(source)
    end = max(name for name in ours if name.endswith(".snapshot"))
    theirs = {name: data for name, data in theirs.items() if not name.endswith(".snapshot") or name == end}
    assert decode_snapshot(ours.pop(end)) == decode_snapshot(theirs.pop(end))
    assert ours == theirs
    assert len([name for name in ours if name.endswith(".log")]) > 10


def test_entries_that_are_left_out_do_not_reach_the_file(tmp_path: Path) -> None:
    data = log_bytes(left_by_the_log(tmp_path / "orders-0", many_batches(60)))
    headers = scan_headers(data)
    kept_headers = headers[[line for line in range(60) if line % 7 not in {2, 3}]]
    (tmp_path / "ours").mkdir()
    with closing(PartitionWriter(str(tmp_path / "ours"), SETTINGS)) as writer:
        writer.append(data, kept_headers)
    written = log_bytes(tmp_path / "ours")
    assert scan_headers(written)["base_offset"].tolist() == kept_headers["base_offset"].tolist()
    assert len(written) == kept_headers["size"].sum()
    assert writer.log_end_offset == kept_headers["last_offset"][-1] + 1


def test_a_directory_of_ours_opens_as_a_cleanly_closed_log_and_goes_on(tmp_path: Path) -> None:
    source = left_by_the_log(tmp_path / "orders-0", transactions())
    home = Home(tmp_path / "again-0", SMALL)
    home.log.close()
    for path in home.path.iterdir():
        path.unlink()
    home.path.rmdir()
    writer = rewritten(source, home.path, pieces=1000)
    log = home.open(last_stop=LastStop.CLEAN)
    assert log.log_end_offset == writer.log_end_offset
    assert log.last_stable_offset == writer.log_end_offset - 2  # The transaction of producer 3 is still open.
    assert home.append(sequenced(40, producer_id=4, epoch=2)) == [writer.log_end_offset]


def test_a_segment_ends_before_an_offset_that_is_too_far_from_its_base(tmp_path: Path) -> None:
    far = 3 << 31
    data = bytes(a_batch(base_offset=5).view) + bytes(a_batch(base_offset=far).view)
    with closing(PartitionWriter(str(tmp_path), base_offset=3)) as writer:
        writer.append(data, scan_headers(data))
    assert [segment.base_offset for segment in writer.close()] == [3, far]


def test_an_entry_larger_than_a_segment_has_one_of_its_own(tmp_path: Path) -> None:
    batches = [a_batch(), a_batch(1, value=bytes(4000), base_offset=1), a_batch(base_offset=2)]
    data = b"".join(batch.view for batch in batches)
    with closing(PartitionWriter(str(tmp_path), SETTINGS)) as writer:
        writer.append(data, scan_headers(data))
    assert [segment.base_offset for segment in writer.close()] == [0, 1, 2]


def test_jobs_choose_where_segments_begin_and_empty_ones_in_between_are_left_out(tmp_path: Path) -> None:
    with closing(PartitionWriter(str(tmp_path))) as writer:
        for base in (0, 10, 20, 30):
            if base:
                writer.roll(base)
            if base in {0, 20}:
                batch = bytes(a_batch(base_offset=base + 1).view)
                writer.modified_ns = 10**18 + base
                writer.append(batch, scan_headers(batch))
    assert [(segment.base_offset, segment.last_offset) for segment in writer.close()] == [(0, 1), (20, 21), (30, -1)]
    assert (tmp_path / f"{20:020d}.index").stat().st_mtime_ns == 10**18 + 20
    assert writer.log_end_offset == 30


def test_a_partition_without_records_has_an_empty_segment(tmp_path: Path) -> None:
    with closing(PartitionWriter(str(tmp_path), base_offset=7)) as writer:
        pass
    write_partition_files(str(tmp_path), writer.log_end_offset, epochs=writer.epochs, producers={})
    assert writer.log_end_offset == 7
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir() if path.suffix != ".snapshot"} == {
        f"{7:020d}.log": 0,
        f"{7:020d}.index": 0,
        f"{7:020d}.timeindex": 0,
        "leader-epoch-checkpoint": 4,
    }


def test_messages_of_old_formats_are_indexed_one_by_one(tmp_path: Path) -> None:
    records = [NewRecord(b"k", bytes(50), NOW + index) for index in range(20)]
    plain = bytes(build_message_set(records, magic=1))
    wrapper = bytes(build_message_set(records, magic=1, codec=CompressionCodec.GZIP, base_offset=20))
    data = plain + wrapper
    headers = scan_headers(data)
    with closing(PartitionWriter(str(tmp_path), SETTINGS)) as writer:
        writer.append(data, headers)
    assert writer.log_end_offset == 40
    assert len((tmp_path / f"{0:020d}.index").read_bytes()) > 8


def test_who_knows_the_aborted_transactions_tells_them(tmp_path: Path) -> None:
    batch = bytes(marker(commit=False).view)
    aborted = AbortedTxn(7, 0, 0, 1)
    with closing(PartitionWriter(str(tmp_path))) as writer:
        writer.append(batch, scan_headers(batch))
        writer.add_aborted([aborted])
    assert decode_all((tmp_path / f"{0:020d}.txnindex").read_bytes()) == [aborted]


@pytest.mark.parametrize("offsets", [(5, 5), (5, 4), (2,)])
def test_offsets_that_do_not_rise_are_refused(tmp_path: Path, offsets: tuple[int, ...]) -> None:
    data = b"".join(a_batch(base_offset=offset).view for offset in offsets)
    writer = PartitionWriter(str(tmp_path), base_offset=3)
    with pytest.raises(LogOrderError, match="offset"):
        writer.append(data, scan_headers(data))
    assert list(tmp_path.iterdir()) == []
