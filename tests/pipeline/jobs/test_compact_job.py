"""The job `compact`: its settings, its tasks, its errors and its report."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

import fsspec
import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from minibroker import Broker
from minibroker_pipeline.cli import main
from minibroker_pipeline.decode import DamagedLogError, numpy_engine
from minibroker_pipeline.jobs.compact import CompactSettings, LogChangedError, compact
from minibroker_pipeline.jobs.verify import verify
from minibroker_pipeline.log_directories.directory_commit import DirectoryStateError, check_target_apart
from minibroker_pipeline.log_directories.partition_logs import LogNameError
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.data_directory.offset_checkpoints import read_offset_checkpoint, write_offset_checkpoint
from tests.kafka.writers import create
from tests.patience import PATIENCE_S
from tests.pipeline.jobs.directories import flip, put_log
from tests.pipeline.jobs.lives import CLEANER_OFFSETS, files_of
from tests.storage.cleaning import Entry, batch, entries_in, pairs_of
from tests.storage.helpers import NOW
from tests.storage.histories import History

Pairs = list[tuple[int, bytes | None, bytes | None]]


def put_users(data: Path, segments: int = 4, entries: int = 12, *, magic: int = 2, seed: int = 5) -> Path:
    """Write a data directory with a log of random entries, and return it."""
    history = History(Random(seed))
    logs: dict[int, bytes] = {}
    for _ in range(segments):
        base_offset = history.next_offset
        logs[base_offset] = b"".join(one.data for one in history.entries(entries, magic))
    put_log(data, "users-0", logs)
    return data


def contents(data: Path) -> dict[str, bytes]:
    """Return the contents of all files by name."""
    return {str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()}


def records_in(data: Path, topic: str = "users") -> Pairs:
    return pairs_of(entries_in(data / f"{topic}-0"))


def put_keys(data: Path, segments: Sequence[Sequence[Entry]]) -> Path:
    logs = {one[0].header.base_offset: b"".join(entry.data for entry in one) for one in segments}
    put_log(data, "users-0", logs)
    return data


OVERWRITTEN = [
    [batch(0, (b"a", b"1"), (b"b", b"1"))],
    [batch(2, (b"a", b"2"), (b"c", None))],
    [batch(4, (b"b", b"2"), (None, b"without a key"))],
]


def test_of_each_key_the_newest_record_stays_and_the_active_segment_is_left_alone(tmp_path: Path) -> None:
    data = put_keys(tmp_path / "data", OVERWRITTEN)
    report = compact([str(data)], str(tmp_path / "out"), CompactSettings(now_ms=NOW))
    assert records_in(tmp_path / "out") == [
        (1, b"b", b"1"),
        (2, b"a", b"2"),
        (3, b"c", None),
        (4, b"b", b"2"),
        (5, None, b"without a key"),
    ]
    (log,) = report.logs
    assert (log.topic, log.partition, log.cleaned_offset) == ("users", 0, 4)
    assert (log.segments_before, log.segments_after) == (3, 2)
    assert (log.tally.records_before, log.tally.records_after, log.tally.tombstones_after) == (4, 3, 1)
    assert verify([str(tmp_path / "out")]).is_sound


def test_with_roll_the_active_segment_is_compacted_and_an_empty_one_follows(tmp_path: Path) -> None:
    data = put_keys(tmp_path / "data", OVERWRITTEN)
    report = compact([str(data)], str(tmp_path / "out"), CompactSettings(now_ms=NOW, roll=True))
    assert records_in(tmp_path / "out") == [(2, b"a", b"2"), (3, b"c", None), (4, b"b", b"2")]
    assert report.total.without_key == 1
    assert (tmp_path / "out" / "users-0" / f"{6:020d}.log").read_bytes() == b""
    assert read_offset_checkpoint(str(tmp_path / "out" / CLEANER_OFFSETS)) == {("users", 0): 6}
    again = compact([str(tmp_path / "out")], str(tmp_path / "again"), CompactSettings(now_ms=NOW, roll=True))
    assert files_of(tmp_path / "again") == files_of(tmp_path / "out")  # A second compaction has nothing to clean.
    assert again.total.bytes_before == 0


def test_tombstones_go_in_a_pass_behind_their_horizon(tmp_path: Path) -> None:
    data = put_keys(tmp_path / "data", OVERWRITTEN)
    day = CompactSettings().delete_retention_ms
    first = CompactSettings(now_ms=NOW, roll=True)
    compact([str(data)], str(tmp_path / "first"), first)
    for name, now_ms in (("early", NOW + day - 1), ("late", NOW + day)):
        settings = CompactSettings(now_ms=now_ms, from_start=True)
        compact([str(tmp_path / "first")], str(tmp_path / name), settings)
    assert (3, b"c", None) in records_in(tmp_path / "early")
    assert records_in(tmp_path / "late") == [(2, b"a", b"2"), (4, b"b", b"2")]


def test_what_was_compacted_before_is_clean_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    duplicates = [[batch(0, (b"a", b"1"), (b"a", b"2"))], [batch(2, (b"b", b"1"))], [batch(3, (b"b", b"2"))]]
    data = put_keys(tmp_path / "data", duplicates)
    write_offset_checkpoint(str(data / CLEANER_OFFSETS), {("users", 0): 2})
    compact([str(data)], str(tmp_path / "out"), CompactSettings(now_ms=NOW))
    assert (0, b"a", b"1") in records_in(tmp_path / "out")
    compact([str(data)], str(tmp_path / "all"), CompactSettings(now_ms=NOW, from_start=True))
    assert (0, b"a", b"1") not in records_in(tmp_path / "all")


@pytest.mark.torture
def test_processes_spark_and_the_engine_without_numba_write_the_same(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    for magic, topic in enumerate(("old", "newer", "newest")):
        put_users(tmp_path / topic, magic=magic)
        os.makedirs(data, exist_ok=True)
        (tmp_path / topic / "users-0").rename(data / f"{topic}-0")
    settings = CompactSettings(now_ms=NOW, roll=True)

    compact([str(data)], str(tmp_path / "here"), settings, processes=1)
    compact([str(data)], str(tmp_path / "processes"), settings, processes=2)
    compact([str(data)], str(tmp_path / "tasks"), settings, spark=spark)
    monkeypatch.setattr("minibroker_pipeline.jobs.compact.load_engine", lambda: numpy_engine.ENGINE)
    compact([str(data)], str(tmp_path / "numpy"), settings, processes=1)
    here = contents(tmp_path / "here")
    assert len(here) > 20
    assert contents(tmp_path / "processes") == here
    assert contents(tmp_path / "tasks") == here
    assert contents(tmp_path / "numpy") == here


def test_however_little_memory_there_is_the_same_stays(tmp_path: Path) -> None:
    chance = Random(3)
    offset = 0
    segments: dict[int, bytes] = {}
    for _ in range(3):
        base, data = offset, b""
        for _ in range(10):
            records = [
                NewRecord(b"%d" % chance.randrange(4000), None if number % 9 else b"x", NOW) for number in range(400)
            ]
            data += build_batch(records, base_offset=offset, codec=CompressionCodec.ZSTD)
            offset += len(records)
        segments[base] = data
    put_log(tmp_path / "data", "users-0", segments)
    little, much = (CompactSettings(now_ms=NOW, roll=True, memory_bytes=size) for size in (64 << 10, 256 << 20))
    compact([str(tmp_path / "data")], str(tmp_path / "little"), little)
    compact([str(tmp_path / "data")], str(tmp_path / "much"), much)
    assert records_in(tmp_path / "little") == records_in(tmp_path / "much")
    assert len(records_in(tmp_path / "much")) < 4001


def test_damage_ends_the_job_and_nothing_is_written(tmp_path: Path) -> None:
    data = put_users(tmp_path / "data")
    log = min(data.glob("*/*.log"))
    flip(log, 70)
    with pytest.raises(DamagedLogError, match=r"users-0/00000000000000000000\.log: byte 0, offset 0: wrong checksum"):
        compact([str(data)], str(tmp_path / "out"))
    log.write_bytes(log.read_bytes()[:90])
    with pytest.raises(DamagedLogError, match="cut short"):
        compact([str(data)], str(tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize(
    "rest",
    [b"\0" * 500, bytes(build_batch([NewRecord(b"k", b"v", NOW)], base_offset=1000))[:-1]],
    ids=["zeros", "a torn batch"],
)
def test_what_a_broker_was_writing_when_it_died_is_left_out(tmp_path: Path, rest: bytes) -> None:
    data = put_users(tmp_path / "data")
    log = max(data.glob("*/*.log"))
    content = log.read_bytes()
    log.write_bytes(content + rest)
    compact([str(data)], str(tmp_path / "out"))
    assert (tmp_path / "out" / "users-0" / log.name).read_bytes() == content


def test_a_segment_that_is_replaced_meanwhile_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = put_users(tmp_path / "data")
    log = min(data.glob("*/*.log"))

    def replaced(paths: Sequence[str], target: str) -> None:
        log.with_suffix(".new").write_bytes(log.read_bytes())
        log.with_suffix(".new").rename(log)
        check_target_apart(paths, target)

    monkeypatch.setattr("minibroker_pipeline.jobs.compact.check_target_apart", replaced)
    with pytest.raises(LogChangedError, match="a broker works in the directory"):
        compact([str(data)], str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_directories_in_object_storage_can_be_compacted(tmp_path: Path) -> None:
    put_users(tmp_path / "data", magic=1)
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "data"), "/compact-data", recursive=True)
    compact([str(tmp_path / "data")], str(tmp_path / "here"), CompactSettings(now_ms=NOW), processes=1)
    compact(["memory://compact-data"], str(tmp_path / "there"), CompactSettings(now_ms=NOW), processes=1)
    assert records_in(tmp_path / "there") == records_in(tmp_path / "here")


def test_topics_are_chosen_and_missing_ones_named(tmp_path: Path) -> None:
    data = put_users(tmp_path / "data")
    put_log(data, "orders-0", bytes(build_batch([NewRecord(None, b"order", NOW)])))
    compact([str(data)], str(tmp_path / "out"), CompactSettings(topics=("users",)))
    assert not (tmp_path / "out" / "orders-0").exists()
    with pytest.raises(LogNameError, match="payments"):
        compact([str(data)], str(tmp_path / "none"), CompactSettings(topics=("payments",)))


def test_topics_stay_compacted_ones_where_the_broker_goes_on(tmp_path: Path) -> None:
    config = {"cleanup.policy": "compact", "segment.bytes": "3000"}
    with Broker(data_dir=str(tmp_path / "data")) as broker:
        create(broker.bootstrap_servers, {"users": config, "orders": {}})
    compact([str(tmp_path / "data")], str(tmp_path / "out"), CompactSettings(topics=("users",)))
    metadata = json.loads((tmp_path / "out" / "minibroker-topics.json").read_text())["topics"]
    assert list(metadata) == ["users"]
    assert (
        metadata["users"] == json.loads((tmp_path / "data" / "minibroker-topics.json").read_text())["topics"]["users"]
    )
    meta = (tmp_path / "data" / "meta.properties").read_bytes()
    assert (tmp_path / "out" / "meta.properties").read_bytes() == meta
    with Broker(data_dir=str(tmp_path / "out")) as broker:
        (topic,) = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=PATIENCE_S).topics
    assert topic == "users"


def test_a_target_within_what_is_read_is_refused(tmp_path: Path) -> None:
    data = put_users(tmp_path / "data")
    with pytest.raises(DirectoryStateError, match="name a directory elsewhere"):
        compact([str(data)], str(data / "compacted"))
    assert [path.name for path in data.iterdir()] == ["users-0"]


def test_settings_that_cannot_be_are_refused() -> None:
    for settings in ({"segment_bytes": 1}, {"memory_bytes": 1000}, {"delete_retention_ms": -1}):
        with pytest.raises(ValueError, match=r"segment\.bytes|memory|delete\.retention\.ms"):
            CompactSettings(**settings)  # type: ignore[arg-type]  # each of them is an int


def test_wrappers_of_old_formats_lose_single_messages(tmp_path: Path) -> None:
    records = [NewRecord(key, b"value", NOW) for key in (b"a", b"b", b"c")]
    sets = {
        base: bytes(build_message_set(records[:count], magic=1, base_offset=base, codec=CompressionCodec.GZIP))
        for base, count in ((0, 3), (3, 2))
    }
    sets[6] = bytes(build_message_set(records[:1], magic=1, base_offset=6))
    put_log(tmp_path / "data", "users-0", sets)
    compact([str(tmp_path / "data")], str(tmp_path / "out"), CompactSettings(now_ms=NOW))
    data = b"".join(path.read_bytes() for path in sorted((tmp_path / "out" / "users-0").glob("*.log")))
    first, second, last = iter_batches(data)
    assert [record.offset for record in (*first, *second, *last)] == [2, 3, 4, 6]


def test_the_command_prints_a_table_and_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = put_keys(tmp_path / "data", OVERWRITTEN)
    arguments = ["compact", str(data), "--to", str(tmp_path / "out"), "--roll", "--from-start", "--now", f"{NOW}"]
    arguments += ["--delete-retention-ms", "0", "--min-compaction-lag-ms", "0", "--segment-bytes", "1000"]
    arguments += ["--index-interval-bytes", "0", "--memory", "1", "--processes", "1"]
    assert main([*arguments, "--json", str(tmp_path / "report.json")]) == 0
    assert "of 6 records in segments that could be compacted 3 stay" in capsys.readouterr().out
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["total"]["withoutKey"] == 1
    assert report["logs"][0]["cleanedOffset"] == 6
    assert main(arguments) == 2
    assert "is there already and not empty" in capsys.readouterr().err
