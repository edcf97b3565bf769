"""`verify` reports the faults of a directory, and nothing for the normal files of a broker."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from minibroker_pipeline.jobs.verify import Finding, Kind, VerifySettings, verify
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.data_directory.offset_checkpoints import write_offset_checkpoint
from minibroker_storage.producer_snapshot import encode_snapshot
from minibroker_storage.transaction_index import AbortedTxn, encode_aborted_txn
from tests.pipeline.decode.logs import marker, stamped
from tests.pipeline.jobs.directories import flip, put_indexes, put_log

SIZE = len(build_batch([NewRecord(b"key", b"value", 1_000)] * 5))


def batch(number: int, **changes: int) -> bytes:
    """Return a batch with the offsets 5 * number to 5 * number + 4 and ascending timestamps."""
    records = [NewRecord(b"key", b"value", 1_000 * (number + 1))] * 5
    built = build_batch(records, base_offset=5 * number, partition_leader_epoch=0)
    return stamped(built, **changes) if changes else bytes(built)


def sound(directory: Path, *, clean: bool = True) -> Path:
    """Write two segments of four batches, of which every other one is indexed as by a broker. Return the partition."""
    segments = {5 * first: b"".join(map(batch, range(first, first + 4))) for first in (0, 4)}
    partition = put_log(directory, "orders-0", segments)
    for first in (0, 4):
        times = [(1_000 * (first + 2), 9), (1_000 * (first + 4), 19)]
        put_indexes(partition, 5 * first, [(9, SIZE), (19, 3 * SIZE)], times)
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (partition / "partition.metadata").write_text("version: 0\ntopic_id: XD2-6rKIQVaRIHpGXcHwYg")
    (partition / f"{20:020d}.snapshot").write_bytes(encode_snapshot({}))
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        write_offset_checkpoint(str(directory / name), {("orders", 0): 40})
    if clean:
        (directory / ".kafka_cleanshutdown").write_text("")
    return partition


def only(directory: Path, settings: VerifySettings | None = None) -> Finding:
    """Return the only finding."""
    (finding,) = verify([str(directory)], settings).findings
    return finding


def place(finding: Finding) -> tuple[str, int | None, Kind, bool]:
    return Path(finding.path).name, finding.position, finding.what, finding.is_damage


def change(path: Path, do: Callable[[bytearray], object]) -> None:
    data = bytearray(path.read_bytes())
    do(data)
    path.write_bytes(data)


def test_nothing_is_found_in_a_sound_directory(tmp_path: Path) -> None:
    sound(tmp_path)
    report = verify([str(tmp_path)])
    assert report.findings == []
    assert report.is_sound
    assert (report.partitions, report.segments, report.batches, report.records) == (1, 2, 8, 40)
    assert report.as_text() == "1 partitions, 2 segments, 8 batches, 40 records, 1.09 KB: no damage\n"
    assert verify([str(tmp_path / "orders-0")]).findings == []


def test_a_flipped_bit_is_a_wrong_checksum_and_no_gap(tmp_path: Path) -> None:
    partition = sound(tmp_path)
    flip(partition / f"{0:020d}.log", SIZE + 80)
    finding = only(tmp_path)
    assert place(finding) == (f"{0:020d}.log", SIZE, Kind.CHECKSUM, True)
    assert "offset 5" in finding.message
    assert "replica" in finding.remedy


def test_a_record_that_lies_is_found_under_a_right_checksum(tmp_path: Path) -> None:
    partition = sound(tmp_path)
    wrong = bytearray(batch(1))
    wrong[61] ^= 2  # Change the length of the first record.
    (partition / f"{0:020d}.log").write_bytes(batch(0) + stamped(wrong, magic=2) + batch(2) + batch(3))
    assert place(only(tmp_path)) == (f"{0:020d}.log", SIZE, Kind.RECORDS, True)


@pytest.mark.parametrize("count", [4, 6])
def test_a_wrong_record_count_is_found(tmp_path: Path, count: int) -> None:
    partition = sound(tmp_path)
    (partition / f"{0:020d}.log").write_bytes(batch(0) + batch(1, record_count=count) + batch(2) + batch(3))
    finding = only(tmp_path)
    assert place(finding) == (f"{0:020d}.log", SIZE, Kind.RECORDS, True)
    assert "record" in finding.message


def test_bytes_that_are_no_entry_are_told_apart_from_a_torn_end(tmp_path: Path) -> None:
    partition = sound(tmp_path)
    change(partition / f"{0:020d}.log", lambda data: data.__setitem__(slice(SIZE + 8, SIZE + 12), b"\0\0\0\1"))
    report = verify([str(tmp_path)])
    assert place(report.findings[0])[0] == f"{0:020d}.index"
    finding = report.findings[1]
    assert place(finding) == (f"{0:020d}.log", SIZE, Kind.ENTRY, True)
    assert f"{SIZE} bytes are no entry: batch length: 1" in finding.message


@pytest.mark.parametrize(("clean", "is_damage"), [(True, True), (False, False)])
def test_a_torn_end_is_a_brokers_to_mend_unless_it_has_stopped(tmp_path: Path, clean: bool, is_damage: bool) -> None:  # noqa: FBT001 - a parameter of the test
    partition = sound(tmp_path, clean=clean)
    with (partition / f"{20:020d}.log").open("ab") as log:
        log.write(batch(8)[:-10])
    finding = only(tmp_path)
    assert place(finding) == (f"{20:020d}.log", 4 * SIZE, Kind.TORN, is_damage)
    assert verify([str(tmp_path)]).is_sound is not is_damage


def test_room_behind_the_log_is_a_brokers_own(tmp_path: Path) -> None:
    partition = sound(tmp_path, clean=False)
    with (partition / f"{20:020d}.log").open("ab") as log:
        log.write(bytes(5_000))
    assert place(only(tmp_path)) == (f"{20:020d}.log", 4 * SIZE, Kind.TORN, False)


def test_a_closed_segment_may_not_be_torn(tmp_path: Path) -> None:
    partition = sound(tmp_path, clean=False)
    change(partition / f"{0:020d}.log", lambda data: data.__delitem__(slice(-10, None)))
    result = {place(finding) for finding in verify([str(tmp_path)]).damage}
    assert (f"{0:020d}.log", 3 * SIZE, Kind.TORN, True) in result
    assert (f"{0:020d}.index", 8, Kind.OFFSET_INDEX, True) in result


def test_what_was_cut_off_between_two_batches_is_missed_by_the_checkpoints(tmp_path: Path) -> None:
    partition = sound(tmp_path)
    change(partition / f"{20:020d}.log", lambda data: data.__delitem__(slice(3 * SIZE, None)))
    result = {finding.what: finding for finding in verify([str(tmp_path)]).damage}
    assert "ends at offset 35, but the high watermark is 40" in result[Kind.LOST].message
    assert result.keys() == {Kind.LOST, Kind.OFFSET_INDEX, Kind.TIME_INDEX}


def test_a_gap_is_damage_unless_the_topic_is_compacted(tmp_path: Path) -> None:
    partition = sound(tmp_path)
    data = batch(0) + batch(1) + batch(3)
    (partition / f"{0:020d}.log").write_bytes(data)
    put_indexes(partition, 0, [(9, SIZE), (19, 2 * SIZE)], [(2_000, 9), (4_000, 19)])
    finding = only(tmp_path)
    assert place(finding) == (f"{0:020d}.log", 2 * SIZE, Kind.GAP, True)
    assert "offsets 10 to 14 are missing" in finding.message
    assert verify([str(tmp_path)], VerifySettings(compacted=("ord*",))).findings == []
    write_offset_checkpoint(str(tmp_path / "cleaner-offset-checkpoint"), {("orders", 0): 20})
    assert verify([str(tmp_path)]).findings == []


def test_a_missing_segment_is_a_gap(tmp_path: Path) -> None:
    partition = sound(tmp_path)
    for path in partition.glob(f"{20:020d}.*"):
        path.rename(partition / path.name.replace("20.", "25."))
    result = [finding for finding in verify([str(tmp_path)]).damage if finding.what is Kind.GAP]
    assert "offsets 20 to 24 are missing" in result[0].message


def test_segments_that_overlap_are_found(tmp_path: Path) -> None:
    partition = sound(tmp_path)
    with (partition / f"{0:020d}.log").open("ab") as log:
        log.write(batch(4))
    messages = [finding.message for finding in verify([str(tmp_path)]).damage]
    assert "offsets 20 to 24, but the segment has 0 to 19" in messages
    assert "begins at offset 20, but the segment before it ends at 25" in messages


def test_a_base_offset_that_is_not_under_the_checksum_is_found(tmp_path: Path) -> None:
    partition = sound(tmp_path)
    change(partition / f"{0:020d}.log", lambda data: data.__setitem__(SIZE + 7, 9))
    whats = {finding.what for finding in verify([str(tmp_path)]).damage}
    assert {Kind.GAP, Kind.OFFSETS} <= whats


def test_a_largest_timestamp_that_is_not_is_found(tmp_path: Path) -> None:
    partition = sound(tmp_path)
    log = batch(0) + batch(1) + batch(2, max_timestamp=3_500) + batch(3)
    (partition / f"{0:020d}.log").write_bytes(log)
    finding = only(tmp_path)
    assert place(finding) == (f"{0:020d}.log", 2 * SIZE, Kind.TIMESTAMP, True)
    assert "is 3000, the batch says 3500" in finding.message


def test_a_leader_epoch_that_is_not_the_checkpoints_is_found(tmp_path: Path) -> None:
    partition = sound(tmp_path)
    change(partition / f"{0:020d}.log", lambda data: data.__setitem__(SIZE + 15, 7))
    assert place(only(tmp_path)) == (f"{0:020d}.log", SIZE, Kind.EPOCH, True)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_index_is_found(tmp_path: Path, suffix: str) -> None:
    partition = sound(tmp_path)
    (partition / f"{0:020d}{suffix}").unlink()
    assert place(only(tmp_path)) == (f"{0:020d}{suffix}", None, Kind.MISSING, True)


@pytest.mark.parametrize(
    ("entries", "byte", "part"),
    [
        ([(9, SIZE), (19, 3 * SIZE + 1)], 8, "where no entry of the log begins"),
        ([(9, SIZE), (19, 9 * SIZE)], 8, "where no entry of the log begins"),
        ([(9, SIZE), (18, 3 * SIZE)], 8, "whose batch ends at 19"),
        ([(19, 3 * SIZE), (9, SIZE)], 8, "does not follow the entry before it"),
        ([(9, SIZE), (9, SIZE)], 8, "does not follow the entry before it"),
        ([(9, SIZE), (19, 3 * SIZE), (0, 0)], 16, "1 empty entries"),
    ],
)
def test_an_offset_index_that_does_not_fit_the_log_is_found(
    tmp_path: Path, entries: list[tuple[int, int]], byte: int, part: str
) -> None:
    partition = sound(tmp_path)
    put_indexes(partition, 0, entries, [(2_000, 9), (4_000, 19)])
    finding = only(tmp_path)
    assert place(finding) == (f"{0:020d}.index", byte, Kind.OFFSET_INDEX, True)
    assert part in finding.message


def test_an_index_entry_that_is_cut_is_found(tmp_path: Path) -> None:
    partition = sound(tmp_path)
    change(partition / f"{0:020d}.index", lambda data: data.__delitem__(slice(13, None)))
    assert place(only(tmp_path)) == (f"{0:020d}.index", 8, Kind.OFFSET_INDEX, True)


def test_an_index_that_ends_early_is_noted_by_the_interval(tmp_path: Path) -> None:
    partition = sound(tmp_path)
    put_indexes(partition, 0, [], [(2_000, 9), (4_000, 19)])
    assert verify([str(tmp_path)]).findings == []
    finding = only(tmp_path, VerifySettings(index_interval_bytes=SIZE))
    assert place(finding) == (f"{0:020d}.index", 0, Kind.OFFSET_INDEX, False)


def test_a_replicas_index_may_name_the_end_of_a_later_batch(tmp_path: Path) -> None:
    partition = sound(tmp_path)
    put_indexes(partition, 0, [(14, SIZE), (19, 3 * SIZE)], [(2_000, 9), (4_000, 19)])
    assert place(only(tmp_path)) == (f"{0:020d}.index", None, Kind.OFFSET_INDEX, False)


@pytest.mark.parametrize(
    ("entries", "byte", "part"),
    [
        ([(2_000, 9), (4_001, 19)], 12, "whose batch has 4000"),
        ([(2_000, 9), (4_000, 29)], 12, "is in no batch"),
        ([(4_000, 19), (2_000, 9)], 12, "does not follow the entry before it"),
        ([(2_000, 9)], 12, "but 4000 is in the log"),
        ([], 0, "but 4000 is in the log"),
    ],
)
def test_a_time_index_that_does_not_fit_the_log_is_found(
    tmp_path: Path, entries: list[tuple[int, int]], byte: int, part: str
) -> None:
    partition = sound(tmp_path)
    put_indexes(partition, 0, [(9, SIZE), (19, 3 * SIZE)], entries)
    findings = verify([str(tmp_path)]).damage
    assert (f"{0:020d}.timeindex", byte, Kind.TIME_INDEX, True) in {place(finding) for finding in findings}
    assert any(part in finding.message for finding in findings)


def test_a_time_index_that_hides_larger_times_is_found(tmp_path: Path) -> None:
    partition = sound(tmp_path)
    late = [NewRecord(b"key", b"value", 9_000)] * 5
    log = batch(0) + bytes(build_batch(late, base_offset=5, partition_leader_epoch=0)) + batch(2) + batch(3)
    (partition / f"{0:020d}.log").write_bytes(log)
    put_indexes(partition, 0, [(9, SIZE), (19, 3 * SIZE)], [(1_000, 4), (3_000, 14), (9_000, 9)])
    messages = [finding.message for finding in verify([str(tmp_path)]).damage]
    assert "time 3000 at offset 14, but 9000 comes before it" in messages


def test_a_log_that_is_being_written_may_lack_its_last_index_entries(tmp_path: Path) -> None:
    partition = sound(tmp_path, clean=False)
    put_indexes(partition, 20, [(9, SIZE)], [(6_000, 9)])
    for suffix in (".index", ".timeindex"):
        with (partition / f"{20:020d}{suffix}").open("ab") as index:
            index.write(bytes(4_800))
    assert verify([str(tmp_path)]).findings == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("0000000000000000020.log", Kind.NAME),
        ("x0000000000000000020.log", Kind.NAME),
        ("00000000000000000020.log.bak", Kind.NAME),
        ("00000000000000000099.index", Kind.MISSING),
        ("00000000000000000099.txnindex", Kind.MISSING),
    ],
)
def test_wrong_names_in_a_partition_are_found(tmp_path: Path, name: str, kind: Kind) -> None:
    partition = sound(tmp_path)
    (partition / name).write_bytes(b"")
    assert place(only(tmp_path)) == (name, None, kind, True)


@pytest.mark.parametrize("name", ["orders", "orders_0", "orders-01", "or ders-1", "orders-x"])
def test_a_partition_under_a_wrong_name_is_found(tmp_path: Path, name: str) -> None:
    sound(tmp_path)
    put_log(tmp_path, name, b"")
    assert place(only(tmp_path)) == (name, None, Kind.NAME, True)


@pytest.mark.parametrize("name", [f"orders-1.{'0af' * 10}12-delete", "lost+found"])
def test_directories_that_are_nobodys_logs_are_passed_over(tmp_path: Path, name: str) -> None:
    sound(tmp_path)
    put_log(tmp_path, name, b"" if "delete" in name else {})
    assert verify([str(tmp_path)]).findings == []


def test_a_log_file_beside_the_partitions_is_found(tmp_path: Path) -> None:
    sound(tmp_path)
    (tmp_path / f"{0:020d}.log").write_bytes(batch(0))
    assert place(only(tmp_path)) == (f"{0:020d}.log", None, Kind.NAME, True)


def test_files_of_others_and_leftovers_are_noted(tmp_path: Path) -> None:
    partition = sound(tmp_path)
    (partition / "notes.txt").write_text("")
    (partition / f"{0:020d}.log.swap").write_text("")
    (partition / f"{0:020d}.log.deleted").write_text("")
    report = verify([str(tmp_path)])
    assert report.is_sound
    assert {Path(finding.path).name for finding in report.findings} == {"notes.txt", f"{0:020d}.log.swap"}


def test_a_partition_without_a_log_or_without_a_directory_is_found(tmp_path: Path) -> None:
    sound(tmp_path)
    (tmp_path / "empty-0").mkdir()
    write_offset_checkpoint(
        str(tmp_path / "recovery-point-offset-checkpoint"), {("orders", 0): 40, ("empty", 0): 0, ("gone", 3): 7}
    )
    report = verify([str(tmp_path)])
    assert [place(finding) for finding in report.findings] == [
        ("empty-0", None, Kind.MISSING, True),
        ("gone-3", None, Kind.MISSING, True),
    ]


def test_a_partition_that_a_broker_makes_right_now_may_have_no_log_yet(tmp_path: Path) -> None:
    sound(tmp_path, clean=False)
    (tmp_path / "new-0").mkdir()
    assert verify([str(tmp_path)]).findings == []
    (tmp_path / "new-0" / f"{5:020d}.snapshot").write_bytes(encode_snapshot({}))  # This partition has held records.
    assert place(only(tmp_path)) == ("new-0", None, Kind.MISSING, True)


@pytest.mark.parametrize(
    "name", ["leader-epoch-checkpoint", "partition.metadata", f"{20:020d}.snapshot", "../replication-offset-checkpoint"]
)
def test_small_files_that_cannot_be_read_are_found(tmp_path: Path, name: str) -> None:
    partition = sound(tmp_path)
    (partition / name).write_bytes(b"\xff\xfe 7\n")
    assert place(only(tmp_path)) == (Path(name).name, None, Kind.SMALL_FILE, True)


def transaction(number: int, producer: int) -> bytes:
    """Return a batch of five records in a transaction."""
    records = [NewRecord(b"key", b"value", 1_000)] * 5
    return bytes(
        build_batch(records, base_offset=number, producer_id=producer, producer_epoch=0, is_transactional=True)
    )


ABORTED = [AbortedTxn(1, 0, 11, 5), AbortedTxn(2, 5, 12, 13)]
"""Two interleaved transactions: producer 1 has offsets 0 to 4, and producer 2 has 5 to 9.

Marker 10 ends no transaction.
"""


def transactions(tmp_path: Path, entries: list[AbortedTxn], *, clean: bool = True) -> Path:
    data = transaction(0, 1) + transaction(5, 2) + marker(10, 3, 0) + marker(11, 1, 0) + marker(12, 2, 0)
    data += transaction(13, 1) + marker(18, 1, 1)
    partition = put_log(tmp_path, "orders-0", data)
    put_indexes(partition, 0, [], [(1_000, 4)])
    (partition / f"{0:020d}.txnindex").write_bytes(b"".join(map(encode_aborted_txn, entries)))
    if clean:
        (tmp_path / ".kafka_cleanshutdown").write_text("")
    return partition


def test_a_transaction_index_that_fits_the_markers_is_sound(tmp_path: Path) -> None:
    transactions(tmp_path, ABORTED)
    assert verify([str(tmp_path)]).findings == []


@pytest.mark.parametrize(
    ("entries", "byte", "part"),
    [
        (ABORTED[:1], None, "lacks the aborted transaction of producer 2, offsets 5 to 12"),
        ([AbortedTxn(9, 0, 11, 5), ABORTED[1]], 0, "no abort marker of this producer"),
        ([AbortedTxn(1, 2, 11, 5), ABORTED[1]], 0, "it begins at 0"),
        ([AbortedTxn(1, 0, 11, 12), ABORTED[1]], 0, "the last stable offset is 5, the entry has 12"),
        ([*ABORTED, AbortedTxn(1, 13, 18, 19)], 68, "no abort marker of this producer"),
        ([*ABORTED, AbortedTxn(1, 13, 99, 19)], 68, "outside the segment"),
    ],
)
def test_a_transaction_index_that_does_not_fit_the_markers_is_found(
    tmp_path: Path, entries: list[AbortedTxn], byte: int | None, part: str
) -> None:
    transactions(tmp_path, entries)
    finding = only(tmp_path)
    assert place(finding) == (f"{0:020d}.txnindex", byte, Kind.TRANSACTION_INDEX, True)
    assert part in finding.message


def test_a_transaction_index_that_is_cut_is_found(tmp_path: Path) -> None:
    partition = transactions(tmp_path, ABORTED)
    change(partition / f"{0:020d}.txnindex", lambda data: data.__delitem__(slice(-4, None)))
    result = {place(finding)[1] for finding in verify([str(tmp_path)]).damage}
    assert result == {34, None}


def test_a_broker_that_died_finds_the_last_entry_of_a_transaction_index_again(tmp_path: Path) -> None:
    transactions(tmp_path, ABORTED[:1], clean=False)
    assert place(only(tmp_path)) == (f"{0:020d}.txnindex", None, Kind.TRANSACTION_INDEX, False)


@pytest.mark.parametrize("codec", ["NONE", "GZIP", "LZ4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_logs_of_the_older_formats_are_read_to_the_inner_checksums(tmp_path: Path, magic: int, codec: str) -> None:
    records = [NewRecord(b"key", b"value", 1_000)] * 5
    made = [
        bytes(build_message_set(records, magic=magic, base_offset=base_offset, codec=CompressionCodec[codec]))
        for base_offset in (0, 5)
    ]
    partition = put_log(tmp_path, "orders-0", b"".join(made))
    put_indexes(partition, 0, [], [(1_000, 4)] if magic else [])
    assert verify([str(tmp_path)]).findings == []
    assert verify([str(tmp_path)]).records == 10
    flip(partition / f"{0:020d}.log", -3)
    finding = only(tmp_path)
    assert (finding.what, finding.position) == (Kind.CHECKSUM, len(made[0]) if codec != "NONE" else finding.position)


def test_many_findings_of_a_kind_are_counted(tmp_path: Path) -> None:
    log = b"".join(batch(number) for number in range(50))
    partition = put_log(tmp_path, "orders-0", log)
    put_indexes(partition, 0, [], [(50_000, 249)])
    change(partition / f"{0:020d}.log", lambda data: data.__setitem__(slice(70, None, SIZE), bytes([1] * 50)))
    report = verify([str(tmp_path)])
    assert len(report.damage) == 21
    assert "and 30 more of this kind" in [finding.message for finding in report.damage]


def test_topics_can_be_chosen_and_must_be_there(tmp_path: Path) -> None:
    sound(tmp_path)
    put_log(tmp_path, "payments-0", batch(0)[:-1])
    assert verify([str(tmp_path)], VerifySettings(topics=("orders",))).is_sound
    assert not verify([str(tmp_path)], VerifySettings(topics=("payments",))).is_sound
    with pytest.raises(ValueError, match="invoices"):
        verify([str(tmp_path)], VerifySettings(topics=("invoices",)))


@pytest.mark.torture
def test_processes_and_spark_find_the_same(tmp_path: Path, spark: SparkSession) -> None:
    partition = sound(tmp_path)
    flip(partition / f"{0:020d}.log", SIZE + 80)
    change(partition / f"{20:020d}.log", lambda data: data.__delitem__(slice(3 * SIZE, None)))
    report = verify([str(tmp_path)]).as_json()
    assert len(report["findings"]) == 4
    assert verify([str(tmp_path)], processes=2).as_json() == report == verify([str(tmp_path)], spark=spark).as_json()
