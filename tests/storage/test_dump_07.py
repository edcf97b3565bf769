"""Dumps of Kafka 0.7's log files, which later versions of Kafka's tool cannot read."""

import gzip
import struct
import zlib
from pathlib import Path

import pytest

from minibroker_storage.dump.files import DumpOptions
from tests.storage.dumping import KAFKAS, as_json, as_text, explained


def message(value: bytes, magic: int = 0, codec: int = 0) -> bytes:
    """Return a message in the format of Kafka 0.7: size, magic, attributes (magic 1 only), CRC, value."""
    body = bytes([magic, codec][: magic + 1]) + struct.pack(">I", zlib.crc32(value)) + value
    return struct.pack(">i", len(body)) + body


INNER = message(b"inner 1", 1) + message(b"inner 2", 1)
PARTS = [message(b"hello"), message(b"world", 1), message(gzip.compress(INNER, mtime=0), 1, 1)]


@pytest.fixture
def kafka_file(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000050.kafka"
    path.write_bytes(b"".join(PARTS))
    return path


def test_messages_have_the_address_of_their_first_byte_and_inner_ones_that_of_their_wrapper(kafka_file: Path) -> None:
    dump = as_text(kafka_file)
    crc = [zlib.crc32(value) for value in (b"hello", b"world", gzip.compress(INNER, mtime=0), b"inner 1", b"inner 2")]
    size = [len(part) for part in PARTS]
    assert dump.lines[1:] == [
        "Log starting offset: 50",
        f"offset: 50 position: 0 isvalid: true payloadsize: 5 size: 14 magic: 0 compresscodec: none crc: {crc[0]}",
        f"| offset: 50 isvalid: true payloadsize: 5 crc: {crc[0]} payload: hello",
        f"offset: 64 position: 14 isvalid: true payloadsize: 5 size: 15 magic: 1 compresscodec: none crc: {crc[1]}",
        f"| offset: 64 isvalid: true payloadsize: 5 crc: {crc[1]} payload: world",
        (
            f"offset: 79 position: 29 isvalid: true payloadsize: {size[2] - 10} size: {size[2]} magic: 1"
            f" compresscodec: gzip crc: {crc[2]}"
        ),
        f"| offset: 79 isvalid: true payloadsize: 7 crc: {crc[3]} payload: inner 1",
        f"| offset: 79 isvalid: true payloadsize: 7 crc: {crc[4]} payload: inner 2",
    ]
    assert (dump.errors, dump.sound) == ("", True)


def test_json_holds_the_same(kafka_file: Path) -> None:
    lines = as_json(kafka_file)
    assert lines[0]["kind"] == "log-0.7"
    assert [line["type"] for line in lines[2:]] == ["message-0.7", "record"] * 2 + ["message-0.7", "record", "record"]
    assert [line["value"] for line in lines if line["type"] == "record"] == ["hello", "world", "inner 1", "inner 2"]


def test_the_format_is_told_by_its_checksum_whatever_the_files_name(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(PARTS))
    assert "payload: inner 2" in as_text(path).out


@pytest.mark.parametrize("case", ["v0", "v1", "v2", "v0-badcrc"])
def test_no_later_format_is_taken_for_it(case: str) -> None:
    (path,) = (KAFKAS / case).iterdir()
    assert "isvalid: true payloadsize" not in as_text(path).out


def test_a_damaged_first_message_needs_to_be_told_the_format(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(PARTS[0][:-1] + b"X" + PARTS[1])
    assert "payload" not in as_text(path).out
    dump = as_text(path, options=DumpOptions(deep_iteration=True, is_07=True))
    assert "isvalid: false" in dump.lines[2]
    assert "payload: world" in dump.out
    assert not dump.sound


def test_a_torn_tail_and_an_impossible_size_end_the_file(kafka_file: Path) -> None:
    for tail, reason in ((PARTS[0][:-1], ""), (b"\0\0\0\1zzz", "size: 1, less than the smallest message takes")):
        kafka_file.write_bytes(PARTS[0] + tail)
        dump = as_text(kafka_file)
        assert dump.lines[-1] == f"Found {len(tail)} invalid bytes at the end of {kafka_file.name}"
        assert dump.errors == (f"{kafka_file}: byte 14: {reason}\n" if reason else "")


def test_a_wrapper_that_cannot_be_opened_does_not_hide_what_follows(kafka_file: Path) -> None:
    kafka_file.write_bytes(message(b"no gzip", 1, 1) + PARTS[0])
    dump = as_text(kafka_file)
    assert dump.errors.startswith(f"{kafka_file}: byte 0: gzip: ")
    assert "payload: hello" in dump.out


def test_every_field_is_explained(kafka_file: Path) -> None:
    page = explained(kafka_file)
    assert page.sound
    assert "        29  00 00 00" in page.out
    assert "       +10  69 6e 6e 65 72 20 31     value                   7 bytes, 'inner 1'" in page.lines
