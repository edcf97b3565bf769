"""Explains the small files of a log: indexes, producer snapshots and checkpoints."""

import os
from functools import partial
from itertools import accumulate
from struct import Struct
from typing import Final

from minibroker_protocol.fields.notes import format_time
from minibroker_protocol.fields.tree import INT16, INT32, INT64, UINT32, Note
from minibroker_protocol.records.header import crc32c
from minibroker_storage.dump.files import DumpFile
from minibroker_storage.explain.page import Page, Rows
from minibroker_storage.files import read_file

_Row = tuple[str, Struct, Note]

_PRODUCER: Final[tuple[_Row, ...]] = (
    ("producer id", INT64, ""),
    ("producer epoch", INT16, "its epoch"),
    ("last sequence", INT32, "-1: none"),
    ("last offset", INT64, "-1: none"),
    ("offset delta", INT32, "from its last batch's first"),
    ("timestamp", INT64, format_time),
    ("coordinator epoch", INT32, "of its last marker; -1: none"),
    ("current txn first", INT64, "of its open transaction; -1: none"),
)
_SNAPSHOT_CRC_FROM: Final = INT16.size + UINT32.size


def explain_offset_index(page: Page, file: DumpFile) -> None:
    """Write two rows for each entry of an offset index.

    Raises:
        OSError: the file cannot be read.
    """
    base = file.base_offset or 0
    _explain_entries(
        page,
        file,
        ("relative offset", INT32, lambda value: f"offset {base + value}, the last one of a batch"),
        ("position", INT32, "of that batch in the log"),
    )


def explain_time_index(page: Page, file: DumpFile) -> None:
    """Write two rows for each entry of a time index.

    Raises:
        OSError: the file cannot be read.
    """
    base = file.base_offset or 0
    _explain_entries(
        page,
        file,
        ("timestamp", INT64, format_time),
        ("relative offset", INT32, lambda value: f"offset {base + value}: later ones lie behind"),
    )


def explain_txn_index(page: Page, file: DumpFile) -> None:
    """Write five rows for each entry of a transaction index.

    Raises:
        OSError: the file cannot be read.
    """
    _explain_entries(
        page,
        file,
        ("version", INT16, "of this entry"),
        ("producer id", INT64, "whose transaction was aborted"),
        ("first offset", INT64, "of the transaction"),
        ("last offset", INT64, "of the transaction: its abort marker's"),
        ("last stable offset", INT64, "below it, when the marker came, all was decided"),
    )


def _explain_entries(page: Page, file: DumpFile, *rows: _Row) -> None:
    page.write_table_head()
    size_of_one = sum(layout.size for _, layout, _ in rows)
    with open(file.path, "rb") as index:
        size = os.fstat(index.fileno()).st_size
        position = 0
        while len(data := index.read(size_of_one)) == size_of_one:
            if not any(data) and (position or size > size_of_one):
                free = (size - position) // size_of_one
                page.write_heading(f"from byte {position}: zeros, room for {free} entries more")
                return
            _explain_rows(Rows(page, data, position), rows)
            position += len(data)
    if data:
        page.write_fault(f"{len(data)} bytes at byte {position}, of an entry's {size_of_one}")


def _explain_rows(fields: Rows, rows: tuple[_Row, ...]) -> None:
    for name, layout, meaning in rows:
        fields.read_number(name, layout, meaning)


def explain_snapshot(page: Page, file: DumpFile) -> None:
    """Write a row for each field of a producer snapshot.

    Raises:
        OSError: the file cannot be read.
        DecodeError: the file is truncated.
    """
    data = read_file(file.path)
    fields = Rows(page, data)
    page.write_table_head()
    fields.read_number("version", INT16, "of this format")
    crc = fields.read_number("crc", UINT32, "CRC-32C of what follows")
    computed = crc32c(memoryview(data)[_SNAPSHOT_CRC_FROM:])
    if computed != crc:
        page.write_fault(f"crc: stored {crc}, but the bytes have {computed}")
    for index in range(fields.read_number("count", INT32, "producers that follow")):
        page.write_heading(f"producer {index} at {fields.position_text(fields.at)}", level=1)
        _explain_rows(fields, _PRODUCER)
    if fields.left:
        page.write_fault(f"{fields.left} bytes are left at byte {fields.position_text(fields.at)}")


def _explain_lines(page: Page, file: DumpFile, name: str, meaning: str) -> None:
    page.write_table_head()
    heads = [("version", "of this format"), ("count", "lines that follow")]
    for index, (position, line) in enumerate(_split_lines(file)):
        row_name, row_meaning = heads[index] if index < len(heads) else (name, meaning)
        page.write_row(str(position), line, row_name, _decode_line(line), row_meaning)


explain_leader_epochs: Final = partial(
    _explain_lines, name="epoch and start offset", meaning="the leader's epoch, and the offset of its first record"
)
explain_offset_checkpoint: Final = partial(
    _explain_lines, name="partition and offset", meaning="topic, partition, offset"
)


def explain_metadata(page: Page, file: DumpFile) -> None:
    """Write a row for each line of a `partition.metadata` file.

    Raises:
        OSError: the file cannot be read.
    """
    meanings = {"version": "of this format", "topic_id": "the topic's uuid in URL-safe base 64"}
    page.write_table_head()
    for position, line in _split_lines(file):
        name = _decode_line(line).partition(":")[0]
        page.write_row(str(position), line, name, _decode_line(line), meanings.get(name, ""))


def _split_lines(file: DumpFile) -> list[tuple[int, bytes]]:
    """Return each line of a text file with its position."""
    lines = read_file(file.path).splitlines(keepends=True)
    return list(zip(accumulate(map(len, lines), initial=0), lines, strict=False))


def _decode_line(line: bytes) -> str:
    return line.decode(errors="backslashreplace").strip()
