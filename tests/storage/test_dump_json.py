"""Dumps as JSON lines, whose names are a public interface."""

import json
from pathlib import Path

from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.dump.files import DumpOptions
from tests.storage.dumping import KAFKAS, ORDERS, as_json, as_text, log_file
from tests.storage.helpers import NOW

NAMES = {
    "file": "path kind baseOffset",
    "log-start": "offset",
    "batch": (
        "baseOffset lastOffset count baseSequence lastSequence producerId producerEpoch partitionLeaderEpoch"
        " isTransactional isControl deleteHorizonMs position timestampType maxTimestamp size magic compresscodec crc"
        " isvalid"
    ),
    "offset-index-entry": "offset position",
    "time-index-entry": "timestamp offset",
    "index-empty": "path",
    "aborted-transaction": "version producerId firstOffset lastOffset lastStableOffset",
    "leader-epoch": "epoch startOffset",
    "partition-metadata": "version topicId",
}
PRODUCER = (
    "producerId producerEpoch coordinatorEpoch currentTxnFirstOffset lastTimestamp"
    " firstSequence lastSequence lastOffset offsetDelta timestamp"
)
RECORD = "offset timestampType timestamp keySize valueSize sequence headerKeys key value headers"
MARKER = "offset timestampType timestamp keySize valueSize sequence headerKeys controlType controlTypeId"


def test_each_line_has_the_documented_names_in_their_order() -> None:
    outcomes = set()
    for line in as_json(ORDERS):
        kind = line.pop("type")
        outcomes.add(kind)
        names = " ".join(line)
        if kind == "record":
            assert names in {RECORD, f"{MARKER} coordinatorEpoch"}
        elif kind == "producer":
            assert names == PRODUCER
        else:
            assert names == NAMES[kind], kind
    assert outcomes == {*NAMES, "record", "producer"}


def test_messages_of_v0_and_v1_have_an_offset_and_their_own_checksums() -> None:
    for case in ("v0", "v1"):
        lines = as_json(*(KAFKAS / case).iterdir())
        batch = next(line for line in lines if line["type"] == "batch")
        record = next(line for line in lines if line["type"] == "record")
        assert list(batch)[:2] == ["type", "offset"]
        assert record["isValid"] is True
        assert record["crc"] == batch["crc"]
        assert "sequence" not in record


def test_it_says_what_the_text_says() -> None:
    lines = as_json(ORDERS)
    text = as_text(ORDERS).lines
    for kind, start in (("batch", "baseOffset: "), ("record", "| offset: "), ("producer", "producerId: ")):
        assert sum(line["type"] == kind for line in lines) == sum(line.startswith(start) for line in text) > 0
    records = [line for line in lines if line["type"] == "record"]
    assert [record["offset"] for record in records] == list(range(224))
    assert records[209]["value"] == "value 209 " * 12
    assert records[221]["controlType"] == "COMMIT"
    assert {line["compresscodec"] for line in lines if line["type"] == "batch"} == {
        "none",
        "gzip",
        "snappy",
        "lz4",
        "zstd",
    }
    assert [line["path"] for line in lines if line["type"] == "file"] == [
        line.removeprefix("Dumping ") for line in text if line.startswith("Dumping ")
    ]


def test_bytes_that_are_no_text_are_base_64_under_another_name(tmp_path: Path) -> None:
    records = [
        NewRecord(b"\xff", b"\x80a", NOW, (("h", b"\xfe"), ("n", None), ("t", "ü".encode()))),
        NewRecord(None, "日本\n".encode(), NOW),
    ]
    first, second = (line for line in as_json(log_file(tmp_path, [build_batch(records)])) if line["type"] == "record")
    assert (first["keyBase64"], first["valueBase64"]) == ("/w==", "gGE=")
    assert first["headers"] == [
        {"key": "h", "valueBase64": "/g=="},
        {"key": "n", "value": None},
        {"key": "t", "value": "ü"},
    ]
    assert "key" not in first
    assert (second["key"], second["value"]) == (None, "日本\n")


def test_keys_and_values_are_there_when_they_are_asked_for() -> None:
    (path,) = (KAFKAS / "v2").iterdir()
    assert not any("value" in line for line in as_json(path, print_data_log=False))
    assert not any(line["type"] == "record" for line in as_json(path, options=DumpOptions()))


def test_problems_stand_among_the_lines_where_they_are_found(tmp_path: Path) -> None:
    batches = [build_batch([NewRecord(None, b"v", NOW)], base_offset=offset) for offset in range(3)]
    batches[1][16] = 9
    path = log_file(tmp_path, [*batches, b"\xff" * 20])
    lines = as_json(path, options=DumpOptions())
    assert [line["type"] for line in lines] == [
        "file",
        "log-start",
        "batch",
        "problem",
        "batch",
        "problem",
        "trailing-bytes",
    ]
    assert lines[3] == {
        "type": "problem",
        "path": str(path),
        "position": len(batches[0]),
        "message": "magic: 9, which no message format has",
    }
    assert lines[-1] == {"type": "trailing-bytes", "path": str(path), "size": 20}


def test_mismatches_of_indexes_name_both_sides() -> None:
    directory = KAFKAS / "wrong-indexes"
    lines = as_json(*sorted(directory.glob("*index")))
    lines_by_type = {line["type"]: line for line in lines}
    index, time_index = (str(directory / f"00000000000000000010.{kind}") for kind in ("index", "timeindex"))
    assert [line for line in lines if line["type"] == "offset-mismatch"] == [
        {"type": "offset-mismatch", "path": index, "indexOffset": 16, "logOffset": 15},
        {"type": "offset-mismatch", "path": index, "indexOffset": 19, "logOffset": 21},
    ]
    assert lines_by_type["timestamp-out-of-order"] == {
        "type": "timestamp-out-of-order",
        "path": time_index,
        "indexTimestamp": 100,
        "previousTimestamp": 2012,
    }
    assert lines_by_type["indexed-offset-not-found"]["logOffset"] == -1
    assert json.dumps(lines_by_type["timestamp-mismatch"]["logTimestamp"]) == "3005"
