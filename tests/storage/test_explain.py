"""Explanations cover every byte of a file at its correct position."""

import io
import re
from pathlib import Path
from struct import Struct

import pytest

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec, stamp
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.dump.files import DumpOptions, FileKind, expand
from minibroker_storage.explain import Page, Rows, explain_message_07
from tests.storage.dumping import KAFKAS, ORDERS, as_text, explained, log_file
from tests.storage.helpers import NOW, Home, a_batch

ROW = re.compile(r"^ *(\+?)(\d+)  ((?:[0-9a-f]{2} ?)+(?:\.\.)?) +")
SOUND_FILES = [
    *sorted(path for path in ORDERS.iterdir() if path.stat().st_size),
    *sorted(path for case in ("v0", "v1", "v2", "mixed", "control") for path in (KAFKAS / case).iterdir()),
]


def rows(page: str) -> list[tuple[str, int, str]]:
    """Return the mark, position and bytes of each row."""
    return [(match[1], int(match[2]), match[3].strip()) for line in page.splitlines() if (match := ROW.match(line))]


@pytest.mark.parametrize("path", SOUND_FILES, ids=lambda path: f"{path.parent.name}-{path.name.lstrip('0')}")
def test_every_byte_of_a_file_has_a_row_with_its_position(path: Path) -> None:
    data = path.read_bytes()
    at = 0
    page = explained(path)
    for mark, position, hex_bytes in rows(page.out):
        if mark:
            continue  # This row is within decompressed bytes.
        assert position == at
        first = bytes.fromhex(hex_bytes.removesuffix(" .."))
        assert data[at : at + len(first)] == first
        at += len(first)
        if hex_bytes.endswith(".."):
            at = next((following for sign, following, _ in rows(page.out) if not sign and following >= at), len(data))
    assert at == len(data)
    assert page.sound


@pytest.mark.parametrize("path", SOUND_FILES, ids=lambda path: f"{path.parent.name}-{path.name.lstrip('0')}")
def test_a_page_is_at_most_100_columns_wide_but_for_long_paths(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    assert max(map(len, explained(path.name).lines)) <= 100


def test_a_batch_of_one_record_is_explained_to_the_last_byte(tmp_path: Path) -> None:
    batch = build_batch([NewRecord(b"key", b"value", NOW, (("h", b"x"),))], base_offset=7, producer_id=3)
    lines = explained(log_file(tmp_path, [batch], 7)).out.partition("\n\n")[2].splitlines()
    assert lines[0] == "batch at byte 0: format v2, offsets 7 to 7, 80 bytes"
    assert lines[1] == "         0  00 00 00 00 00 00 00 07  base offset             7 (set by the broker)"
    names = [line[37:59].strip() for line in lines if ROW.match(line)]
    assert ", ".join(names) == (
        "base offset, batch length, partition leader epoch, magic, crc, attributes, last offset delta, "
        "base timestamp, max timestamp, producer id, producer epoch, base sequence, record count, "
        "length, attributes, timestamp delta, offset delta, key length, key, value length, value, "
        "header count, header key length, header key, header value length, header value"
    )
    assert lines[-2] == "        79  78                       header value            1 byte, 'x'"
    assert "        61  24                       length                  18 (zig-zag 36; bytes that follow)" in lines


@pytest.mark.parametrize("codec", [codec for codec in CompressionCodec if codec])
def test_positions_in_a_compressed_batch_count_from_the_first_decompressed_byte(
    tmp_path: Path, codec: CompressionCodec
) -> None:
    records = [NewRecord(None, b"value %d" % number, NOW + number) for number in range(3)]
    plain = rows(explained(log_file(tmp_path, [build_batch(records)])).out)
    compressed = rows(explained(log_file(tmp_path, [build_batch(records, codec=codec)])).out)
    inner = [(position, hex_bytes) for mark, position, hex_bytes in compressed if mark]
    assert inner == [(position - 61, hex_bytes) for _, position, hex_bytes in plain if position >= 61]


@pytest.mark.parametrize("case", ["v0", "v1"])
def test_messages_in_a_wrapper_have_their_absolute_offsets(case: str) -> None:
    (path,) = (KAFKAS / case).iterdir()
    page = explained(path).out
    assert page.count("wrapper: messages compressed together, at byte ") == (3 if case == "v0" else 6)
    assert ("1 (relative: 13 in the" in page) == (case == "v1")
    assert ("13 (absolute, as always in v0)" in page) == (case == "v0")
    assert ("(not in force" in page) == (case == "v1")


def test_markers_are_opened() -> None:
    page = explained(KAFKAS / "control" / "00000000000000000000.log").out
    assert "type                    0 (ABORT)" in page
    assert "type                    1 (COMMIT)" in page
    assert page.count("coordinator epoch       5 (") == 2


def test_every_kind_of_file_is_explained_as_what_it_is() -> None:
    page = " ".join(explained(ORDERS).out.split())  # The length of the path affects line breaks.
    files = list(expand([str(ORDERS)]))
    assert {file.kind for file in files} == set(FileKind) - {
        FileKind.LOG_07,
        FileKind.OFFSET_CHECKPOINT,
        FileKind.UNKNOWN,
    }
    for heading in ("offset index", "time index", "transaction index", "producer snapshot", "leader epochs"):
        assert f"{heading}:" in page
    assert "topic" in page


def test_the_free_slots_of_an_index_are_counted(home: Home) -> None:
    for _ in range(8):
        home.append(a_batch(3))
    index = home.file("00000000000000000000.index")
    entries = index.read_bytes().rstrip(b"\0")
    used = -(-len(entries) // 8)
    page = explained(index)
    assert f"from byte {8 * used}: zeros, room for {1200 // 8 - used} entries more" in page.lines
    home.log.close()


def test_what_is_damaged_is_explained_as_far_as_it_goes(tmp_path: Path) -> None:
    batch = build_batch([NewRecord(b"key", b"value", NOW)])
    batch[70] ^= 0x40
    page = explained(log_file(tmp_path, [batch, b"\0\0\0"]))
    assert not page.sound
    assert any(line.startswith("!! crc: stored ") for line in page.lines)
    assert page.lines[-2] == f"!! 3 bytes at byte {len(batch)} are not a whole batch: it is cut short"


def test_any_changed_byte_is_explained_without_a_crash(tmp_path: Path) -> None:
    for case in ("v0", "v1", "v2"):
        (path,) = (KAFKAS / case).iterdir()
        data = path.read_bytes()[:600]
        for at in range(0, len(data), 3):
            changed = bytearray(data)
            changed[at] ^= 0xFF
            copy = tmp_path / path.name
            copy.write_bytes(changed)
            assert explained(copy, options=DumpOptions(max_bytes=600)).out


def test_a_field_that_is_cut_short_is_refused() -> None:
    page = Page(io.StringIO())
    rows_of_abc = Rows(page, b"abc", 7)
    with pytest.raises(DecodeError, match="size: 4 bytes at 7, where 3 are left"):
        rows_of_abc.read_number("size", Struct(">i"))
    with pytest.raises(DecodeError, match="name: -1 bytes at 7"):
        rows_of_abc.read_blob("name", -1)
    with pytest.raises(DecodeError, match="no whole message"):
        explain_message_07(page, memoryview(b"\0\0\0\x09"), 0, 0)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    page = explained(tmp_path / "00000000000000000000.log")
    assert page.lines[0].startswith("!! ")
    assert not page.sound


def test_the_page_about_it_shows_what_it_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = build_batch([NewRecord(b"key", b"value", NOW)])
    stamp(batch, 0, 0)
    partition = tmp_path / "data" / "orders-0"
    partition.mkdir(parents=True)
    log_file(partition, [batch])
    monkeypatch.chdir(tmp_path)
    name = "data/orders-0/00000000000000000000.log"
    page = (Path(__file__).parents[2] / "docs" / "dump.md").read_text()
    for command, dump in (("--print-data-log", as_text(name)), ("--explain", explained(name))):
        expected = page.partition(f"$ minibroker dump {command} {name}\n")[2].partition("```")[0].splitlines()
        assert len(expected) > 3
        assert [line for line in expected if line not in dump.lines and line != "        ..."] == []


def test_a_long_line_of_a_text_file_is_cut(tmp_path: Path) -> None:
    """Wrapping the whole line would take time quadratic in its length."""
    path = tmp_path / "partition.metadata"
    path.write_bytes(b"0" * (4 << 20))
    page = explained(path)
    assert len(page.out) < 100_000
    assert "characters)" in page.out
