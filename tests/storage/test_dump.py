"""Dumps as text, compared with the output of Kafka 3.9.1's DumpLogSegments for the same files."""

import io
import os
import shutil
import struct
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.checkpoints import partition_metadata
from minibroker_storage.data_directory.offset_checkpoints import write_offset_checkpoint
from minibroker_storage.dump import find
from minibroker_storage.dump import text as dump_text
from minibroker_storage.dump.events import is_fault
from minibroker_storage.dump.files import DumpOptions, expand
from tests.storage.dumping import DEEP, KAFKAS, ORDERS, as_text, log_file
from tests.storage.helpers import NOW, TOPIC_ID, Home, a_batch, filled

CASES = sorted(path.stem for path in KAFKAS.iterdir() if path.is_dir())
SEGMENT_FILES = sorted(path.name for path in ORDERS.iterdir() if path.stem.isdecimal())
INDEXES = ["00000000000000000010.index", "00000000000000000010.timeindex"]
SMALL = DumpOptions(max_bytes=1000, deep_iteration=True)


@pytest.fixture
def in_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ORDERS)


def kafkas(name: str, kind: str = "out") -> str:
    return (KAFKAS / f"{name}.{kind}").read_text()


def complaints(directory: Path, errors: str) -> str:
    """Return the errors without the directory, which depends on the location of the checkout."""
    return errors.replace(f"{directory}/", "")


@pytest.mark.parametrize("case", CASES)
def test_each_format_is_printed_as_kafkas_tool_prints_it(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(KAFKAS / case)
    dump = as_text(*sorted(os.listdir()))
    assert dump.out == kafkas(case)
    assert complaints(KAFKAS / case, dump.errors) == kafkas(case, "err")


def test_there_are_cases_for_every_format_and_kind_of_damage() -> None:
    assert {"v0", "v1", "v2", "mixed", "control", "horizon", "indexes", "wrong-indexes", "v2-torn"} <= set(CASES)
    assert {f"v{magic}-badcrc" for magic in range(3)} <= set(CASES)


@pytest.mark.usefixtures("in_orders")
def test_a_partition_is_printed_as_kafkas_tool_prints_it() -> None:
    assert as_text(*SEGMENT_FILES, options=DumpOptions(), print_data_log=False) == (kafkas("orders-0"), "", True)
    assert as_text(*SEGMENT_FILES) == (kafkas("orders-0.records"), "", True)


@pytest.mark.usefixtures("in_orders")
def test_keys_and_values_alone_and_the_first_bytes_alone_are_printed_as_kafkas_tool_does() -> None:
    logs = ["00000000000000000000.log", "00000000000000000221.log"]
    dump = as_text(*logs, options=SMALL, skip_record_metadata=True)
    assert dump == (kafkas("orders-0.data-only"), "", True)


@pytest.mark.usefixtures("in_orders")
def test_indexes_pass_the_sanity_check_as_they_do_in_kafka() -> None:
    indexes = [name for name in SEGMENT_FILES if name.endswith((".index", ".timeindex"))]
    dump = as_text(*indexes, options=DumpOptions(index_sanity_check=True))
    assert dump == (kafkas("orders-0.sanity"), "", True)


def test_verifying_indexes_prints_what_is_wrong_and_no_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(KAFKAS / "wrong-indexes")
    dump = as_text(*INDEXES, options=DumpOptions(verify_index_only=True))
    assert dump.out == kafkas("wrong-indexes.verify")
    assert complaints(KAFKAS / "wrong-indexes", dump.errors) == kafkas("wrong-indexes.verify", "err")
    assert not dump.sound


@pytest.mark.parametrize("case", CASES)
def test_what_is_damaged_is_told_from_what_is_sound(case: str) -> None:
    sound = as_text(*sorted((KAFKAS / case).iterdir())).sound
    # The batch with a delete horizon has a flag that its checksum does not include.
    assert sound == (not case.endswith(("badcrc", "torn")) and case not in {"wrong-indexes", "horizon"})


def test_a_directory_stands_for_its_files_segment_by_segment() -> None:
    names = [os.path.basename(file.path) for file in expand([str(ORDERS)])]
    assert names[:3] == [f"00000000000000000000{suffix}" for suffix in (".log", ".index", ".timeindex")]
    assert names[3:7] == [f"00000000000000000042{suffix}" for suffix in (".log", ".index", ".timeindex", ".snapshot")]
    assert names[-3:] == ["00000000000000000224.snapshot", "leader-epoch-checkpoint", "partition.metadata"]
    assert sorted(names) == sorted(os.listdir(ORDERS))


def test_a_data_directory_stands_for_its_checkpoints_and_then_its_partitions(tmp_path: Path) -> None:
    write_offset_checkpoint(str(tmp_path / "recovery-point-offset-checkpoint"), {("a", 10): 7, ("a", 2): 5})
    (tmp_path / "meta.properties").write_text("version=1\n")
    for name in ("b-0", "a-10", "a-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "partition.metadata").write_bytes(partition_metadata(TOPIC_ID))
    output = as_text(tmp_path).out.replace(f"{tmp_path}/", "")
    metadata = "version: 0 topicId: AAECAwQFBgcICQoLDA0ODw\n"
    assert output == (
        "Dumping recovery-point-offset-checkpoint\n"
        "topic: a partition: 10 offset: 7\n"
        "topic: a partition: 2 offset: 5\n"
        f"Dumping a-2/partition.metadata\n{metadata}"
        f"Dumping a-10/partition.metadata\n{metadata}"
        f"Dumping b-0/partition.metadata\n{metadata}"
    )


def test_leader_epochs_are_printed(home: Home) -> None:
    home.append(a_batch(3), leader_epoch=0)
    home.append(a_batch(3), leader_epoch=4)
    home.log.close()
    dump = as_text(home.file("leader-epoch-checkpoint"))
    assert dump.lines[1:] == ["epoch: 0 startOffset: 0", "epoch: 4 startOffset: 3"]


def test_a_partition_that_is_being_written_is_sound(tmp_path: Path) -> None:
    home = filled(tmp_path)
    assert home.file(home.names(".index")[-1]).stat().st_size == home.config.segment_index_bytes
    dump = as_text(home.path)
    assert (dump.errors, dump.sound) == ("", True)
    assert sum(line.startswith("| offset: ") for line in dump.lines) == 180
    assert as_text(home.path, options=DumpOptions(index_sanity_check=True)).sound
    home.log.close()


def test_the_free_slots_of_a_preallocated_index_are_no_entries(home: Home) -> None:
    home.append(a_batch(3))
    index, time_index = home.file("00000000000000000000.index"), home.file("00000000000000000000.timeindex")
    assert index.stat().st_size > 0 < time_index.stat().st_size
    assert as_text(index).lines == [f"Dumping {index}", f"{index} is empty."]
    assert as_text(time_index).lines == [f"Dumping {time_index}"]
    home.log.close()


def test_half_a_batch_at_the_end_is_read_again_once_it_is_whole(tmp_path: Path) -> None:
    batches = [build_batch([NewRecord(None, b"v", NOW)], base_offset=offset) for offset in range(3)]
    path = log_file(tmp_path, [batches[0], batches[1][:30]])
    events = find([str(path)], DumpOptions())
    yielded = [next(events), next(events), next(events)]
    log_file(tmp_path, [*batches[:2], batches[2][:5]])
    yielded += events
    assert [event.__class__.__name__ for event in yielded[2:]] == ["BatchFound", "BatchFound", "TrailingBytes"]
    assert yielded[-1][-1] == 5


def test_entries_that_are_written_during_the_dump_are_held_against_the_log_as_it_is_by_then(tmp_path: Path) -> None:
    batches = [build_batch([NewRecord(None, b"v", NOW + offset)], base_offset=offset) for offset in range(9)]
    path = log_file(tmp_path, batches[:2])
    positions = [offset * len(batches[0]) for offset in range(9)]
    for suffix, layout in ((".index", ">ii"), (".timeindex", ">qi")):
        log_file(tmp_path, batches[:2])
        index = path.with_suffix(suffix)
        values = [(offset, positions[offset]) if suffix == ".index" else (NOW + offset, offset) for offset in range(9)]
        index.write_bytes(struct.pack(layout, *values[1]))
        events = find([str(index)], DEEP)
        yielded = [next(events), next(events)]
        log_file(tmp_path, batches)
        with index.open("ab") as file:
            file.write(b"".join(struct.pack(layout, *value) for value in values[2:]))
        yielded += events
        assert len(yielded) == 1 + 8
        assert not any(is_fault(event) for event in yielded)


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".swap"])
def test_files_on_their_way_in_or_out_are_dumped_with_their_siblings(tmp_path: Path, suffix: str) -> None:
    for path in (KAFKAS / "indexes").iterdir():
        shutil.copy(path, tmp_path / (path.name + suffix))
    dump = as_text(*(tmp_path / (name + suffix) for name in INDEXES))
    assert dump.sound
    assert dump.out.count("offset: ") == 14


def test_a_damaged_batch_does_not_hide_those_behind_it(tmp_path: Path) -> None:
    record = NewRecord(b"k", b"value", NOW)
    batches = [build_batch([record], base_offset=offset, codec=CompressionCodec.ZSTD) for offset in range(5)]
    batches[1][16] = 9  # This is the magic.
    batches[2][22] = 7  # No codec has this number.
    batches[3][61] ^= 0xFF  # This byte is in the compressed records.
    dump = as_text(log_file(tmp_path, batches))
    size = len(batches[0])
    fields = f"CreateTime: {NOW} keySize: 1 valueSize: 5 sequence: -1 headerKeys: [] key: k payload: value"
    records = [line for line in dump.lines if line.startswith("| ")]
    assert records == [f"| offset: {offset} {fields}" for offset in (0, 4)]
    assert "compresscodec: unknown(7)" in dump.out
    complaints = [line.partition(".log: ")[2] for line in dump.errors.splitlines()[:3]]
    assert complaints[0] == f"byte {size}: magic: 9, which no message format has"
    assert complaints[1] == f"byte {2 * size}: attributes: unknown compression codec 7"
    assert complaints[2].startswith(f"byte {3 * size}: zstd: ")
    assert not dump.sound


@pytest.mark.parametrize("zeros", [1, 11, 12, 40, 3_000_000])
def test_zeros_behind_the_last_batch_are_counted(tmp_path: Path, zeros: int) -> None:
    batch = build_batch([NewRecord(None, b"v", NOW)])
    path = log_file(tmp_path, [batch, bytes(zeros)])
    dump = as_text(path)
    assert dump.lines[-1] == f"Found {zeros} invalid bytes at the end of {path.name}"
    reason = f"{path}: byte {len(batch)}: size: 0, less than the smallest message takes\n" if zeros >= 12 else ""
    assert (dump.errors, dump.sound) == (reason, False)


def test_a_log_cut_at_any_byte_is_dumped_without_a_crash(tmp_path: Path) -> None:
    record = [NewRecord(b"k", b"v", NOW)]
    parts = [build_message_set(record, magic=0), build_message_set(record, magic=1), build_batch(record, base_offset=1)]
    data = b"".join(parts)
    ends = [0, len(parts[0]), len(parts[0]) + len(parts[1]), len(data)]
    for size in range(len(data) + 1):
        dump = as_text(log_file(tmp_path, [data[:size]]))
        last = max(end for end in ends if end <= size)
        assert dump.sound == (size == last), size
        assert ("Found " not in dump.out) == (size == last)
        if size > last:
            assert dump.lines[-1].startswith(f"Found {size - last} invalid bytes")


@pytest.mark.parametrize("case", ["v0", "v1", "v2"])
def test_any_changed_byte_is_dumped_without_a_crash_and_seldom_overlooked(tmp_path: Path, case: str) -> None:
    (path,) = (KAFKAS / case).iterdir()
    data = path.read_bytes()[:600]
    dumps = []
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0xFF
        copy = tmp_path / path.name
        copy.write_bytes(changed)
        dumps.append(as_text(copy, options=DumpOptions(max_bytes=600, deep_iteration=True)))
    # The checksum does not cover offsets, sizes and leader epochs.
    assert sum(not dump.sound for dump in dumps) > 0.5 * len(data)


@pytest.mark.parametrize(
    ("kind", "sizes", "index_sanity_check"),
    [
        *((kind, (1, 7, 8, 12, 34, 100), False) for kind in ("index", "timeindex", "txnindex", "snapshot")),
        ("index", (8, 9, 16), True),
        ("timeindex", (12, 13, 24), True),
    ],
)
def test_garbage_in_any_file_is_a_problem_and_no_crash(
    tmp_path: Path, kind: str, sizes: Sequence[int], *, index_sanity_check: bool
) -> None:
    shutil.copy(KAFKAS / "indexes" / "00000000000000000010.log", tmp_path)
    path = tmp_path / f"00000000000000000010.{kind}"
    for size in sizes:
        path.write_bytes(b"\xff" * size)
        dump = as_text(path, options=DumpOptions(index_sanity_check=True) if index_sanity_check else DEEP)
        assert not dump.sound, size
        assert dump.errors.startswith(f"{path}: ") or (kind == "timeindex" and not index_sanity_check)


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "cleaner-offset-checkpoint", "partition.metadata"])
def test_garbage_in_a_checkpoint_is_told_with_its_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"0\n\xff\n")
    dump = as_text(tmp_path / name)
    assert not dump.sound
    assert dump.errors.startswith(f"{tmp_path / name}: ")


@pytest.mark.parametrize(("slot", "offset", "position"), [(2, 20, 10**6), (0, 3, 1), (0, 3, 5), (0, 3, 100)])
def test_an_index_entry_that_points_to_no_batch_is_told_with_its_byte(
    tmp_path: Path, slot: int, offset: int, position: int
) -> None:
    for path in (KAFKAS / "indexes").iterdir():
        shutil.copy(path, tmp_path)
    index = tmp_path / INDEXES[0]
    index.write_bytes(index.read_bytes()[: 8 * slot] + struct.pack(">ii", offset, position))
    dump = as_text(index)
    assert f"{index}: byte {8 * slot}: the entry of offset {10 + offset} points to position {position}" in dump.errors
    assert not dump.sound


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_an_index_without_its_log_says_which_file_is_missing(tmp_path: Path, kind: str) -> None:
    shutil.copy(KAFKAS / "indexes" / f"00000000000000000010.{kind}", tmp_path)
    dump = as_text(tmp_path / f"00000000000000000010.{kind}")
    assert not dump.sound
    assert f"{tmp_path}/00000000000000000010.log: No such file" in dump.errors
    assert sorted(os.listdir(tmp_path)) == [f"00000000000000000010.{kind}"]


def test_a_time_index_without_an_offset_index_is_checked_all_the_same(tmp_path: Path) -> None:
    for name in ("00000000000000000010.log", INDEXES[1]):
        shutil.copy(KAFKAS / "indexes" / name, tmp_path)
    dump = as_text(tmp_path / INDEXES[1])
    assert (dump.errors, dump.sound) == ("", True)
    assert sorted(os.listdir(tmp_path)) == ["00000000000000000010.log", INDEXES[1]]


def test_a_missing_file_is_a_problem_and_the_next_is_dumped(tmp_path: Path) -> None:
    path = log_file(tmp_path, [])
    for missing in (tmp_path / "00000000000000000007.log", tmp_path / "anything"):
        dump = as_text(missing, path)
        assert dump.errors == f"{missing}: No such file or directory\n"
        assert dump.lines[-1] == "Log starting offset: 0"
        assert not dump.sound


def test_a_file_that_goes_while_its_directory_is_dumped_is_passed_over(tmp_path: Path) -> None:
    paths = [log_file(tmp_path, [], base_offset) for base_offset in (0, 5, 9)]
    events = find([str(tmp_path)], DEEP)
    yielded = [next(events)]
    for path in paths[1:]:
        path.unlink()
    yielded += events
    assert [event.__class__.__name__ for event in yielded] == ["FileBegins", "LogBegins", "FileBegins", "FileBegins"]


def test_a_file_of_an_unknown_kind_is_ignored_aloud(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    assert as_text(path) == (f"Dumping {path}\n", f"Ignoring unknown file {path}\n", True)


def test_a_log_comes_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    data = (ORDERS / "00000000000000000221.log").read_bytes()

    class Pipe:
        buffer = io.BytesIO(data + b"xyz")

    monkeypatch.setattr(sys, "stdin", Pipe)
    dump = as_text("-")
    beside = as_text(ORDERS / "00000000000000000221.log")
    assert dump.lines == ["Dumping -", *beside.lines[2:], "Found 3 invalid bytes at the end of -"]
    assert not dump.sound


class Dribble:
    """A stream that returns a few bytes per read."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self._data.read(min(size, 100))


def test_a_pipe_may_give_its_bytes_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe:
        buffer = Dribble((ORDERS / "00000000000000000042.log").read_bytes())

    monkeypatch.setattr(sys, "stdin", Pipe)
    assert as_text("-").lines[1:] == as_text(ORDERS / "00000000000000000042.log").lines[2:]


def many_batches(count: int, codec: CompressionCodec = CompressionCodec.NONE) -> Sequence[bytearray]:
    records = [NewRecord(None, bytes(100), NOW)] * 100
    return [build_batch(records, base_offset=100 * number, codec=codec) for number in range(count)]


def test_batches_that_straddle_the_pieces_read_are_whole(tmp_path: Path) -> None:
    path = log_file(tmp_path, many_batches(250))  # The log has 2.7 MB and is read a megabyte at a time.
    lines = as_text(path, options=DumpOptions(), print_data_log=False).lines[2:]
    assert len(lines) == 250
    assert all(line.endswith("isvalid: true") for line in lines)


def test_a_batch_larger_than_a_piece_is_read_whole(tmp_path: Path) -> None:
    batches = [build_batch([NewRecord(None, bytes(3_000_000), NOW)], base_offset=number) for number in range(2)]
    lines = as_text(log_file(tmp_path, batches), options=DumpOptions(), print_data_log=False).lines[2:]
    assert [line.endswith("isvalid: true") for line in lines] == [True, True]


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    path = log_file(tmp_path, many_batches(2000))  # The log has 22 MB.
    tracemalloc.start()
    try:
        count = sum(1 for _ in find([str(path)], DumpOptions()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 2002
    assert peak < 6 << 20


def test_a_size_beyond_the_end_of_the_file_takes_no_memory(tmp_path: Path) -> None:
    batch = many_batches(1)[0]
    batch[8:12] = (2**31 - 1).to_bytes(4, "big")
    path = log_file(tmp_path, [batch, bytes(20_000_000)])
    tracemalloc.start()
    try:
        dump = as_text(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert dump.lines[-1].startswith(f"Found {20_000_000 + len(batch)} invalid bytes")
    assert peak < 6 << 20


def test_findings_for_the_end_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_text, "MAX_FINDINGS", 3)
    batches = [build_batch([NewRecord(None, b"v", NOW)], base_offset=10 * number) for number in range(6)]
    dump = as_text(log_file(tmp_path, batches))
    assert dump.errors.splitlines()[1:] == [
        "  40 is followed by 50",
        "  30 is followed by 40",
        "  20 is followed by 30",
        "  and 2 before these",
    ]
    assert dump.sound, "compaction leaves such gaps"
