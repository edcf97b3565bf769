"""Converting logs to another format, codec or batch size: what is kept, what changes, and what is refused."""

import json
import os
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from minibroker_pipeline.cli import main
from minibroker_pipeline.decode import DamagedLogError, scan_headers
from minibroker_pipeline.jobs.convert import ConvertError, ConvertReport, ConvertSettings, convert
from minibroker_pipeline.jobs.diff import diff
from minibroker_pipeline.jobs.verify import VerifySettings, verify
from minibroker_pipeline.jobs.verify.findings import Kind
from minibroker_pipeline.log_directories.directory_commit import DirectoryStateError
from minibroker_protocol.records.batch import RecordBatch, iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec, TimestampType
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.checkpoints import partition_metadata
from minibroker_storage.data_directory.offset_checkpoints import read_offset_checkpoint, write_offset_checkpoint
from minibroker_storage.layout import file_name
from minibroker_storage.producer_snapshot import decode_snapshot
from minibroker_storage.transaction_index import AbortedTxn, decode_all
from tests.pipeline.decode.logs import logs, marker, read
from tests.pipeline.jobs.directories import flip_a_bit, put_log

PLACE_AND_CONTENT = ("offset", "timestamp", "key", "value")
ALL = ("headers", "timestamps", "transactions")
EVERY_CODEC = [codec.name.lower() for codec in CompressionCodec]
WITHOUT_ZSTD = EVERY_CODEC[:-1]
NOT_OURS = {Kind.EPOCH}
"""Findings to ignore. Generated logs have leader epochs that decrease."""


def some(count: int, first: int = 0, **fields: Any) -> list[NewRecord]:
    return [
        NewRecord(b"key-%d" % n, b"value %d " % n * 9, 1_000 + n)._replace(**fields)
        for n in range(first, first + count)
    ]


def converted(path: Path, segments: Mapping[int, bytes] | bytes, **how: Any) -> tuple[ConvertReport, Path]:
    """Convert a log, and return the report and the new partition's directory, which must not be damaged."""
    source, target = path / "source", path / "target"
    for directory in (source, target):
        shutil.rmtree(directory, ignore_errors=True)
    if isinstance(segments, bytes):
        first = next(iter_batches(segments))
        base = first.header.base_offset if isinstance(first, RecordBatch) else next(iter(first)).offset
        segments = {base: segments}
    put_log(source, "orders-0", segments)
    report = convert([str(source)], str(target), ConvertSettings(**how), processes=1)
    result = verify([str(target)], VerifySettings(compacted=("*",)), processes=1)
    assert [finding for finding in result.damage if finding.what not in NOT_OURS] == []
    return report, target / "orders-0"


def log_of(partition: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(partition.glob("*.log")))


def rows_of(data: bytes, columns: tuple[str, ...] = PLACE_AND_CONTENT, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read(data, "numba", columns, **options).to_pylist()
    return rows


def headers_of(data: bytes) -> list[dict[str, Any]]:
    """Return the headers without the fields that a codec changes."""
    return [
        {**batch.header._asdict(), "batch_length": 0, "crc": 0, "attributes": batch.header.attributes & ~7}
        for batch in iter_batches(data)
    ]


def is_v2(data: bytes) -> bool:
    return bool((scan_headers(data)["magic"] == 2).all())


@given(logs(most=8), st.sampled_from(EVERY_CODEC))
def test_another_codec_changes_nothing_else_of_batches(tmp_path: Path, data: bytes, codec: str) -> None:
    if not data or not is_v2(data):
        return
    _, partition = converted(tmp_path, data, codec=codec)
    result = log_of(partition)
    assert headers_of(result) == headers_of(data)
    assert rows_of(result, include_control=True) == rows_of(data, include_control=True)
    for batch in iter_batches(result):
        if batch.header.record_count and not batch.header.is_control:
            assert batch.header.codec.name.lower() == codec


@given(logs(most=8), st.sampled_from([None, *EVERY_CODEC]), st.sampled_from([None, 1, 300, 1 << 20]))
def test_every_record_is_in_v2_afterwards(
    tmp_path: Path, data: bytes, codec: str | None, batch_bytes: int | None
) -> None:
    if not data:
        return
    _, partition = converted(tmp_path, data, format="v2", codec=codec, batch_bytes=batch_bytes)
    result = log_of(partition)
    assert is_v2(result)
    of_batches = ("producerId", "producerEpoch", "sequence", "isTransactional", "leaderEpoch")
    columns = (*PLACE_AND_CONTENT, "headers", *of_batches)
    assert rows_of(result, columns, include_control=True) == rows_of(data, columns, include_control=True)


@given(logs(most=8), st.integers(0, 1), st.sampled_from(WITHOUT_ZSTD), st.sampled_from([None, 300]))
def test_older_formats_keep_what_was_committed(
    tmp_path: Path, data: bytes, magic: int, codec: str, batch_bytes: int | None
) -> None:
    if not data:
        return
    _, partition = converted(tmp_path, data, format=f"v{magic}", codec=codec, batch_bytes=batch_bytes, drop=ALL)
    result = log_of(partition)
    assert set(scan_headers(result)["magic"].tolist()) <= {magic}
    expected = [row for row in rows_of(data, (*PLACE_AND_CONTENT, "isTransactional")) if not row.pop("isTransactional")]
    if not magic:
        expected = [{**row, "timestamp": NO_TIME} for row in expected]
    kept_offsets = {row["offset"] for row in expected}
    assert [row for row in rows_of(result) if row["offset"] in kept_offsets] == expected


NO_TIME = read(bytes(build_message_set(some(1), magic=0)), "numpy", ("timestamp",)).to_pylist()[0]["timestamp"]


@pytest.mark.parametrize("codec", EVERY_CODEC)
def test_a_level_compresses_anew_what_has_the_codec_already(tmp_path: Path, codec: str) -> None:
    data = bytes(build_batch(some(200), codec=CompressionCodec[codec.upper()]))
    report, _ = converted(tmp_path, data, codec=codec)
    assert (report.total.copied, report.total.recompressed) == (1, 0)
    if codec in {"gzip", "lz4", "zstd"}:
        report, partition = converted(tmp_path, data, codec=codec, level=9)
        assert (report.total.copied, report.total.recompressed) == (0, 1)
        assert rows_of(log_of(partition)) == rows_of(data)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_gets_another_codec_and_keeps_all_else(tmp_path: Path, magic: int) -> None:
    data = bytes(build_message_set(some(5), magic=magic, codec=CompressionCodec.GZIP))
    report, partition = converted(tmp_path, data, codec="snappy")
    assert (report.total.copied, report.total.recompressed) == (0, 1)
    (wrapper,) = scan_headers(log_of(partition))
    assert (wrapper["magic"], wrapper["codec"]) == (magic, CompressionCodec.SNAPPY)
    assert rows_of(log_of(partition)) == rows_of(data)


def test_single_messages_are_joined_to_batches_as_full_as_producers_fill_them(tmp_path: Path) -> None:
    data = bytes(build_message_set(some(2_000), magic=1))
    report, partition = converted(tmp_path, data, format="v2")
    sizes = scan_headers(log_of(partition))["size"].tolist()
    assert len(sizes) == report.total.entries_after
    assert all(15_000 < size <= 16_384 + 61 for size in sizes[:-1])


def test_times_that_a_broker_has_set_are_kept_and_apart(tmp_path: Path) -> None:
    data = b""
    for first, time in ((0, None), (3, 50), (6, 60)):
        kind = TimestampType.CREATE_TIME if time is None else TimestampType.LOG_APPEND_TIME
        times: dict[str, Any] = {"timestamp_type": kind, "log_append_time": time}
        data += build_message_set(some(3, first), magic=1, base_offset=first, **times)
    _, partition = converted(tmp_path, data, format="v2", codec="lz4")
    result = log_of(partition)
    assert [(batch.header.timestamp_type, batch.header.max_timestamp) for batch in iter_batches(result)] == [
        (TimestampType.CREATE_TIME, 1_002),
        (TimestampType.LOG_APPEND_TIME, 50),
        (TimestampType.LOG_APPEND_TIME, 60),
    ]
    columns = (*PLACE_AND_CONTENT, "timestampType")
    assert rows_of(result, columns) == rows_of(data, columns)


def transactional(first: int, count: int, producer: int = 7) -> bytes:
    fields: dict[str, Any] = {"producer_epoch": 0, "base_sequence": first, "is_transactional": True}
    return bytes(build_batch(some(count, first), base_offset=first, producer_id=producer, **fields))


TRANSACTIONS: dict[int, bytes] = {
    0: transactional(0, 3) + bytes(build_batch(some(2, 3), base_offset=3)),
    5: marker(5, 7, 0) + transactional(6, 2) + marker(8, 7, 1),
    9: transactional(9, 2, 8) + transactional(11, 1),
}
"""The first transaction is aborted, the second is committed, and two are open."""


def test_transactions_and_producers_are_what_they_were_under_another_codec(tmp_path: Path) -> None:
    _, partition = converted(tmp_path, TRANSACTIONS, codec="gzip")
    index = partition / f"{5:020d}.txnindex"
    assert decode_all(index.read_bytes()) == [AbortedTxn(7, 0, 5, 6)]
    assert not (partition / f"{0:020d}.txnindex").exists()
    producers = decode_snapshot((partition / file_name(12, ".snapshot")).read_bytes())
    assert {key: entry.current_txn_first_offset for key, entry in producers.items()} == {7: 11, 8: 9}
    assert producers[8].last_sequence == 10


def test_a_transaction_index_that_cannot_be_read_is_made_anew(tmp_path: Path) -> None:
    source = tmp_path / "source"
    partition = put_log(source, "orders-0", TRANSACTIONS)
    (partition / f"{5:020d}.txnindex").write_bytes(b"\0\7" + bytes(32))
    convert([str(source)], str(tmp_path / "target"), ConvertSettings(codec="lz4"))
    index = tmp_path / "target" / "orders-0" / f"{5:020d}.txnindex"
    assert decode_all(index.read_bytes()) == [AbortedTxn(7, 0, 5, 6)]


def test_an_older_format_gets_committed_records_only_and_the_log_ends_where_it_did(tmp_path: Path) -> None:
    report, partition = converted(tmp_path, TRANSACTIONS, format="v1", drop=("transactions",))
    assert [row["offset"] for row in rows_of(log_of(partition))] == [3, 4, 6, 7]
    assert (report.total.markers, report.total.uncommitted, report.total.producers) == (2, 6, 1)
    assert sorted(path.name for path in partition.glob("*.log")) == [f"{base:020d}.log" for base in (0, 5, 12)]
    assert report.lines[0].log_end_offset == 12
    assert not list(partition.glob("*.txnindex"))
    assert "6 records of aborted and open transactions" in report.as_text()


@pytest.mark.parametrize(
    ("data", "how", "message"),
    [
        (transactional(0, 2), {"format": "v1"}, "orders-0, offset 0: transactions, which message format v1"),
        (
            bytes(build_batch(some(2, headers=(("a", b""),)))),
            {"format": "v1"},
            "offset 0: headers, which .* --drop headers",
        ),
        (bytes(build_batch(some(2))), {"format": "v0"}, "offset 0: timestamps"),
        (bytes(build_batch(some(2), codec=CompressionCodec.ZSTD)), {"format": "v1"}, "zstd, which message format v1"),
        (bytes(build_message_set(some(2), magic=1)), {"codec": "zstd"}, "zstd, which message format v1"),
        (bytes(build_message_set(some(2), magic=0, codec=CompressionCodec.GZIP)), {"codec": "zstd"}, "format v0"),
    ],
)
def test_what_the_format_has_no_place_for_ends_the_job_and_leaves_nothing(
    tmp_path: Path, data: bytes, how: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConvertError, match=message):
        converted(tmp_path, data, **how)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "nothing to convert to"),
        ({"format": "v3"}, "format: 'v3'"),
        ({"codec": "brotli"}, "codec: 'brotli'"),
        ({"format": "v1", "codec": "zstd"}, "zstd, which message format v1"),
        ({"codec": "gzip", "level": 10}, "level: 10"),
        ({"format": "v2", "level": 3}, "level: 3"),
        ({"batch_bytes": 0}, "batch bytes: 0"),
        ({"codec": "gzip", "drop": ("keys",)}, "drop: 'keys'"),
        ({"codec": "gzip", "mode": "quietly"}, "mode: 'quietly'"),
        ({"codec": "gzip", "segment_bytes": 3}, "segment"),
    ],
)
def test_settings_that_make_no_sense_are_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ConvertSettings(**how)


def test_a_target_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    put_log(tmp_path / "source", "orders-0", bytes(build_batch(some(1))))
    with pytest.raises(DirectoryStateError, match="not empty"):
        convert([str(tmp_path / "source")], str(tmp_path), ConvertSettings(codec="gzip"))


def test_batches_of_producers_are_neither_joined_nor_split(tmp_path: Path) -> None:
    free = [bytes(build_batch(some(2, first), base_offset=first)) for first in (0, 2, 4)]
    owned = [
        bytes(build_batch(some(2, first), base_offset=first, producer_id=3, producer_epoch=0, base_sequence=first - 6))
        for first in (6, 8)
    ]
    report, partition = converted(tmp_path, b"".join([*free, *owned]), batch_bytes=10_000)
    result = log_of(partition)
    assert scan_headers(result)["record_count"].tolist() == [6, 2, 2]
    assert result.endswith(b"".join(owned))
    assert (report.total.rebuilt, report.total.copied) == (3, 2)


def test_segments_that_grow_too_large_become_several(tmp_path: Path) -> None:
    data = {
        base: b"".join(
            bytes(build_batch(some(20, first), base_offset=first, codec=CompressionCodec.ZSTD))
            for first in range(base, base + 400, 20)
        )
        for base in (0, 400)
    }
    _, partition = converted(tmp_path, data, codec="none", segment_bytes=10_000)
    bases = [int(path.stem) for path in sorted(partition.glob("*.log"))]
    assert {0, 400} < set(bases)
    assert all(path.stat().st_size <= 10_000 for path in partition.glob("*.log"))


def test_what_stands_beside_the_logs_goes_along(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    batch = bytes(build_batch(some(5, 5), base_offset=5, partition_leader_epoch=4))
    partition = put_log(source, "orders-0", {5: batch})
    offsets = put_log(source, "__consumer_offsets-0", bytes(build_batch(some(5))))
    put_log(source, "empty-0", {17: b""})
    (partition / "partition.metadata").write_bytes(partition_metadata(bytes(range(16))))
    (partition / "leader-epoch-checkpoint").write_text("0\n2\n2 1\n4 5\n")
    for name, offset in (("log-start-offset", 6), ("cleaner-offset", 7)):
        write_offset_checkpoint(str(source / f"{name}-checkpoint"), {("orders", 0): offset, ("gone", 1): 3})
    (source / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=3\n")
    topics = {"orders": {"configs": {"cleanup.policy": "compact"}}, "gone": {}}
    (source / "minibroker-topics.json").write_text(json.dumps({"version": 1, "topics": topics}))
    convert([str(source)], str(target), ConvertSettings(codec="zstd"))
    copied = target / "orders-0"
    assert (copied / "partition.metadata").read_bytes() == partition_metadata(bytes(range(16)))
    assert (copied / "leader-epoch-checkpoint").read_text() == "0\n2\n2 1\n4 5\n"
    assert (target / "__consumer_offsets-0" / f"{0:020d}.log").read_bytes() == log_of(offsets)
    assert [path.name for path in (target / "empty-0").glob("*.log")] == [f"{17:020d}.log"]
    checkpoints = {
        name: read_offset_checkpoint(str(target / f"{name}-offset-checkpoint"))
        for name in ("log-start", "cleaner", "recovery-point", "replication")
    }
    ends = {("orders", 0): 10, ("__consumer_offsets", 0): 5, ("empty", 0): 17}
    assert checkpoints["cleaner"] == {("orders", 0): 7}
    assert checkpoints["log-start"][("orders", 0)] == 6
    assert checkpoints["recovery-point"] == checkpoints["replication"] == ends
    assert (target / "meta.properties").read_text().endswith("node.id=3\n")
    assert list(json.loads((target / "minibroker-topics.json").read_text())["topics"]) == ["orders"]
    assert (target / ".kafka_cleanshutdown").exists()


def test_internal_topics_are_converted_only_if_they_are_named(tmp_path: Path) -> None:
    data = bytes(build_batch(some(50)))
    put_log(tmp_path / "source", "__consumer_offsets-0", data)
    put_log(tmp_path / "source", "orders-0", data)
    named = ConvertSettings(codec="gzip", topics=("__consumer_offsets",))
    convert([str(tmp_path / "source")], str(tmp_path / "target"), named)
    assert [path.name for path in tmp_path.glob("target/*-0")] == ["__consumer_offsets-0"]
    assert log_of(tmp_path / "target" / "__consumer_offsets-0") != data


def test_file_times_stay_for_retention_where_records_have_none(tmp_path: Path) -> None:
    partition = put_log(tmp_path / "source", "orders-0", bytes(build_message_set(some(5), magic=0)))
    os.utime(partition / f"{0:020d}.log", ns=(10**18, 10**18))
    convert([str(tmp_path / "source")], str(tmp_path / "target"), ConvertSettings(codec="gzip"))
    assert (tmp_path / "target" / "orders-0" / f"{0:020d}.log").stat().st_mtime_ns == 10**18


@pytest.mark.parametrize("seed", range(3))
def test_no_byte_that_has_flipped_goes_unseen(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytes(build_batch(some(20))) + bytes(build_message_set(some(20, 20), magic=1, base_offset=20))
    source = tmp_path / "source"
    partition = put_log(source, "orders-0", {0: data, 40: bytes(build_batch(some(1, 40), base_offset=40))})
    for case in range(20):
        (partition / f"{0:020d}.log").write_bytes(data)
        flip_a_bit(partition / f"{0:020d}.log", chance)
        target = tmp_path / f"target-{case}"
        try:
            convert([str(source)], str(target), ConvertSettings(format="v2", codec="gzip"))
        except DamagedLogError as error:
            named = str(error)
        else:  # The leader epoch of a batch is not covered by a checksum.
            named = str(partition) if diff(str(source), str(target)).is_equal else ""
        assert str(partition) in named


@pytest.mark.torture
def test_tasks_run_in_processes_and_in_spark_alike(tmp_path: Path, spark: SparkSession) -> None:
    segments = {base: bytes(build_batch(some(50), base_offset=base)) for base in (0, 50, 100)}
    for topic in ("orders", "users"):
        put_log(tmp_path / "source", f"{topic}-0", segments)
    source, how = [str(tmp_path / "source")], ConvertSettings(codec="zstd")
    by_processes = convert(source, str(tmp_path / "here"), how, processes=2)
    by_spark = convert(source, str(tmp_path / "there"), how, spark=spark)
    assert by_processes == by_spark
    assert [line.segments for line in by_processes.lines] == [3, 3]
    for path in sorted((tmp_path / "here").glob("*-0/*")):
        assert path.read_bytes() == (tmp_path / "there" / path.parent.name / path.name).read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "source", "there"]


def test_the_command_line_converts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_log(tmp_path / "source", "orders-0", bytes(build_message_set(some(200), magic=1)))
    arguments = ["convert", str(tmp_path / "source"), "--to", str(tmp_path / "target")]
    how = ["--format", "v2", "--codec", "zstd", "--level", "5", "--batch-bytes", "4000", "--drop", "headers"]
    files = ["--segment-bytes", "100000", "--index-interval-bytes", "100", "--mode", "permissive", "--topic", "orders"]
    assert main([*arguments, *how, *files, "--processes", "1"]) == 0
    assert "rebuilt" in capsys.readouterr().out
    assert main(["diff", str(tmp_path / "source"), str(tmp_path / "target")]) == 0
    assert main(arguments) == 2
    assert "nothing to convert to" in capsys.readouterr().err
    assert main([*arguments, "--codec", "gzip"]) == 2
    assert "is there already and not empty" in capsys.readouterr().err
    assert main([*arguments[:-1], str(tmp_path / "source" / "new"), "--codec", "gzip"]) == 2
    assert "which is read" in capsys.readouterr().err
    assert not (tmp_path / "source" / "new").exists()
    assert main([*arguments[:-1], str(tmp_path / "json"), "--codec", "gzip", "--json", "-"]) == 0
