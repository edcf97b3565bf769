"""Explains log files to people who are learning the formats: position, bytes, name, value and meaning of each field.

The fields of batches and messages come from `minibroker_protocol.fields`, which also describes requests. Unlike a
normal dump, an explanation does not check files against each other.

This is one file of more than 500 lines because all kinds of files are explained with the same few helpers.
"""

import os
import textwrap
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from itertools import accumulate
from struct import Struct
from typing import Final, TextIO

from minibroker_protocol.errors import DecodeError, UnsupportedMagicError
from minibroker_protocol.fields.batches import add_header, message_node, record_nodes, wrapped_nodes
from minibroker_protocol.fields.tree import (
    BATCH,
    BYTES,
    COMPRESSED,
    ERROR,
    INT8,
    INT16,
    INT32,
    INT64,
    TEXT,
    UINT32,
    UNKNOWN,
    VARINT,
    VARLONG,
    Budget,
    Cursor,
    Node,
    Note,
    format_time,
)
from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.compression import MAX_DECOMPRESSED_SIZE, decompress
from minibroker_protocol.records.header import MAGIC_AT, MAGIC_V2, CompressionCodec, codec_name, crc32c
from minibroker_protocol.records.kafka07 import Kafka07Message, iter_messages
from minibroker_protocol.records.legacy import LegacyRecordBatch
from minibroker_storage.dump.files import DumpFile, DumpOptions, FileKind, expand
from minibroker_storage.dump.logs import Entry, Tail, open_log
from minibroker_storage.files import read_file

WIDTH: Final = 100
_SHOWN_BYTES: Final = 8
_HEX_WIDTH: Final = 3 * _SHOWN_BYTES - 1
_POSITION_WIDTH: Final = 10
_NAME_WIDTH: Final = 22
_VALUE_COLUMN: Final = _POSITION_WIDTH + 2 + _HEX_WIDTH + 2 + _NAME_WIDTH + 2
_PREVIEW: Final = 60
_SHOWN_CHARACTERS: Final = 2000


class Page:
    """A page of lines of at most 100 columns: position, bytes in hexadecimal, name, value and meaning."""

    def __init__(self, out: TextIO) -> None:
        self._write = out.write
        #: Whether everything explained so far is valid.
        self.sound = True

    def write_heading(self, text: str, *, level: int = 0) -> None:
        """Write a heading, indented by its level."""
        self._write_lines(text, "  " * level)

    def write_gap(self) -> None:
        """Write an empty line."""
        self._write("\n")

    def write_table_head(self) -> None:
        """Write the names of the columns."""
        self._write(f"{'byte':>{_POSITION_WIDTH}}  {'bytes':{_HEX_WIDTH}}  {'field':{_NAME_WIDTH}}  value (meaning)\n")

    def write_fault(self, text: str) -> None:
        """Write a line about a fault, and clear `sound`."""
        self.sound = False
        self._write_lines(f"!! {text}", "")

    def write_row(self, position: str, raw: bytes, name: str, value: str, meaning: str = "") -> None:
        """Write the row of one field."""
        hex_bytes = raw.hex(" ") if len(raw) <= _SHOWN_BYTES else raw[: _SHOWN_BYTES - 1].hex(" ") + " .."
        text = _shorten(f"{value} ({meaning})" if meaning else value)
        width = WIDTH - _VALUE_COLUMN
        first, *more_lines = [text] if len(text) <= width else textwrap.wrap(text, width)
        line = f"{position:>{_POSITION_WIDTH}}  {hex_bytes:{_HEX_WIDTH}}  {_shorten(name):{_NAME_WIDTH}}  {first}"
        self._write(line.rstrip() + "\n")
        for wrapped_line in more_lines:
            self._write(f"{'':{_VALUE_COLUMN}}{wrapped_line}\n")

    def _write_lines(self, text: str, indent: str) -> None:
        text = _shorten(text)
        if len(indent + text) <= WIDTH:
            self._write(f"{indent}{text}\n")
            return
        for line in textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  "):
            self._write(line + "\n")


def _shorten(text: str) -> str:
    """Shorten a long text, because `textwrap` takes quadratic time for a long word."""
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}... ({len(text)} characters)"


def format_preview(data: bytes) -> str:
    """Return the size of `data` and the beginning of its text, or "not text"."""
    count = f"{len(data)} byte" + ("" if len(data) == 1 else "s")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"{count}, not text"
    return f"{count}, {text!r}" if len(text) <= _PREVIEW else f"{count}, {text[:_PREVIEW]!r}..."


_BLOBS: Final = frozenset({BYTES, COMPRESSED, TEXT, UNKNOWN})
_NO_LIMIT: Final = 1 << 62


def create_cursor(data: memoryview) -> Cursor:
    """Return a cursor over all of `data`, with no limit on the number of nodes it creates."""
    return Cursor(data, 0, len(data), Budget(_NO_LIMIT))


class Rows:
    """Writes rows for the fields in `data`.

    `write` takes fields that were read before. `read_number` and `read_blob` read the next field themselves, and raise
    `DecodeError` past the end.

    Args:
        page: the page to write to.
        data: the bytes that contain the fields.
        origin: the position of the first byte in the file.
        mark: a plus sign for decompressed bytes, which have no position in the file.
    """

    def __init__(self, page: Page, data: bytes | memoryview, origin: int = 0, mark: str = "") -> None:
        self.page = page
        #: The position in `data` of the next field to read.
        self.at = 0
        self._data = data
        self._origin = origin
        self._mark = mark

    @property
    def left(self) -> int:
        """The number of unread bytes."""
        return len(self._data) - self.at

    def position_text(self, position: int) -> str:
        """Return a position as its row shows it."""
        return f"{self._mark}{self._origin + position}"

    def read_number(self, name: str, layout: Struct, meaning: Note = "") -> int:
        """Read an integer of fixed size, and write its row."""
        (value,) = layout.unpack(self._read_field(name, layout.size))
        note = meaning if isinstance(meaning, str) else meaning(value)
        self._write_row(self.at - layout.size, self.at, name, value, note)
        return int(value)

    def read_blob(self, name: str, size: int, meaning: str = "") -> None:
        """Read text, or bytes of unknown meaning, and write a row unless the field is empty."""
        raw = self._read_field(name, size)
        if size:
            self._write_row(self.at - size, self.at, name, format_preview(raw), meaning)

    def _read_field(self, name: str, size: int) -> bytes:
        if size < 0 or size > self.left:
            raise DecodeError(f"{name}: {size} bytes at {self.position_text(self.at)}, where {self.left} are left")
        self.at += size
        return bytes(self._data[self.at - size : self.at])

    def write(self, node: Node) -> None:
        """Write a row for each leaf of the tree, then a line for each fault.

        Raises:
            DecodeError: a leaf is an error.
        """
        faults: list[str] = []
        try:
            for leaf in node.leaves():
                if leaf.type == ERROR:
                    raise DecodeError(leaf.value)
                if leaf.fault:
                    faults.append(leaf.fault)
                if leaf.start < leaf.end:
                    self._write_leaf(leaf)
        finally:
            for fault in faults:
                self.page.write_fault(fault)

    def _write_leaf(self, leaf: Node) -> None:
        meaning = leaf.note
        value = format_preview(bytes(self._data[leaf.start : leaf.end])) if leaf.type in _BLOBS else leaf.value
        if leaf.type in {VARINT, VARLONG}:
            zig_zag = f"zig-zag {2 * leaf.value if leaf.value >= 0 else -2 * leaf.value - 1}"
            meaning = f"{zig_zag}; {meaning}" if meaning else zig_zag
        name = (leaf.about.rpartition(".")[2] or leaf.name.strip("()")).replace("_", " ")
        self._write_row(leaf.start, leaf.end, name, value, meaning)

    def _write_row(self, start: int, end: int, name: str, value: object, meaning: str) -> None:
        self.page.write_row(self.position_text(start), bytes(self._data[start:end]), name, str(value), meaning)


def explain_log(page: Page, file: DumpFile, options: DumpOptions) -> None:
    """Explain every entry of a log. An unreadable entry is explained up to the error, followed by the error itself.

    Raises:
        OSError: the file cannot be read.
    """
    with open_log(file, options) as log:
        base = file.base_offset or 0
        page.write_heading(f"{file.path}: log, which begins at {'byte' if log.is_07 else 'offset'} {base}")
        page.write_table_head()
        for entry in log:
            if isinstance(entry, Tail):
                if options.max_bytes is None:
                    page.write_gap()
                    reason = entry.reason or "it is cut short"
                    page.write_fault(f"{entry.size} bytes at byte {entry.position} are not a whole batch: {reason}")
                return
            try:
                if log.is_07:
                    explain_message_07(page, entry.data, entry.position, base)
                else:
                    _explain_entry(page, entry)
            except DecodeError as error:
                page.write_fault(f"cannot be read on: {error}")


def _explain_entry(page: Page, entry: Entry) -> None:
    magic = entry.data[MAGIC_AT]
    if magic > MAGIC_V2:
        raise UnsupportedMagicError(f"at byte {entry.position}: magic {magic}, which no message format has")
    (explain_batch if magic == MAGIC_V2 else explain_message)(page, entry.data, entry.position)


def explain_batch(page: Page, data: memoryview, position: int) -> None:
    """Write a row for each field of the v2 batch at byte `position`.

    Raises:
        DecodeError: the batch cannot be decoded.
    """
    node = Node("batch", BATCH, 0, len(data))
    cursor = create_cursor(data)
    header = add_header(cursor, node)
    page.write_gap()
    page.write_heading(
        f"batch at byte {position}: format v2, offsets {header.base_offset} to {header.last_offset},"
        f" {header.size_in_bytes} bytes"
    )
    rows = Rows(page, data, position)
    rows.write(node)
    if header.codec is not CompressionCodec.NONE:
        payload = cursor.leaf("records", COMPRESSED, cursor.left, None, "RecordBatch.records")
        payload.note = f"compressed with {codec_name(header)}, all together"
        rows.write(payload)
        records = memoryview(RecordBatch(data).records_data())
        rows, cursor = _explain_decompressed(page, records), create_cursor(records)
    for index, record in enumerate(record_nodes(cursor, header)):
        if record.type == ERROR:
            raise DecodeError(record.value)
        page.write_heading(f"record {index} at {rows.position_text(record.start)}", level=1)
        rows.write(record)


def _explain_decompressed(page: Page, data: memoryview) -> Rows:
    page.write_heading(f"decompressed: {len(data)} bytes; positions with a plus sign count from the first", level=1)
    return Rows(page, data, mark="+")


def explain_message(page: Page, data: memoryview, position: int) -> None:
    """Write a row for each field of the v0 or v1 message at byte `position`, and for each field of its inner messages.

    Raises:
        DecodeError: the message cannot be decoded.
    """
    entry = LegacyRecordBatch(data)
    header = entry.header
    kind = "wrapper: messages compressed together" if entry.is_compressed else "message"
    page.write_gap()
    page.write_heading(
        f"{kind}, at byte {position}: format v{header.magic}, offset {header.base_offset}, {len(data)} bytes"
    )
    offset = "of the last message in it" if entry.is_compressed else "set by the broker"
    Rows(page, data, position).write(message_node(create_cursor(data), "message", header, offset, format_time))
    if not entry.is_compressed:
        return
    messages = memoryview(entry.records_data())
    rows = _explain_decompressed(page, messages)
    for index, message in enumerate(wrapped_nodes(create_cursor(messages), header)):
        if message.type == ERROR:
            page.write_fault(message.value)
            break
        page.write_heading(f"message {index} at {rows.position_text(message.start)}", level=1)
        rows.write(message)
    for _ in entry:  # Iterating over the messages also validates their offsets and magic bytes.
        pass


def explain_message_07(page: Page, data: memoryview, position: int, base_position: int) -> None:
    """Explain a message of Kafka 0.7, like explain_message().

    Args:
        page: the page to write to.
        data: the bytes of the message.
        position: the position of the message in the file.
        base_position: the address of the file's first byte in the whole log.
    """
    message = next(iter_messages(data, base_position=base_position + position, deep=False), None)
    if message is None:
        raise DecodeError("no whole message")
    page.write_gap()
    page.write_heading(f"message at byte {position}: Kafka 0.7, address {message.position}, {len(data)} bytes")
    _explain_fields_07(page, Rows(page, data, position), message)
    if not message.codec:
        return
    messages = decompress(message.codec, message.value, max_size=MAX_DECOMPRESSED_SIZE)
    page.write_heading(f"decompressed: {len(messages)} bytes; all in it has the address {message.position}", level=1)
    at = 0
    for index, inner in enumerate(iter_messages(messages, deep=False)):
        page.write_heading(f"message {index} at +{at}", level=1)
        end = at + INT32.size + int.from_bytes(messages[at : at + INT32.size], "big")
        _explain_fields_07(page, Rows(page, messages[at:end], at, "+"), inner)
        at = end
    if at < len(messages):
        page.write_fault(f"{len(messages) - at} bytes after the last message, at +{at}, are not a whole one")


def _explain_fields_07(page: Page, fields: Rows, message: Kafka07Message) -> None:
    fields.read_number("message size", INT32, "bytes that follow")
    fields.read_number("magic", INT8, "with attributes" if message.magic else "without attributes")
    if message.magic:
        fields.read_number("attributes", INT8, f"codec {message.codec.name.lower()}")
    fields.read_number("crc", UINT32, "CRC-32 of the value")
    fields.read_blob("value", fields.left, f"messages under {message.codec.name.lower()}" if message.codec else "")
    if not message.is_valid:
        page.write_fault(f"crc: stored {message.crc}, but the value has {zlib.crc32(message.value)}")


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


_EXPLAINERS: Final[dict[FileKind, tuple[str, Callable[[Page, DumpFile], None]]]] = {
    FileKind.OFFSET_INDEX: ("offset index: where in the log an offset is", explain_offset_index),
    FileKind.TIME_INDEX: ("time index: up to which offset a timestamp is", explain_time_index),
    FileKind.TXN_INDEX: ("transaction index: the aborted transactions", explain_txn_index),
    FileKind.SNAPSHOT: ("producer snapshot: what the log knew of its producers here", explain_snapshot),
    FileKind.LEADER_EPOCHS: ("leader epochs: which leader began at which offset", explain_leader_epochs),
    FileKind.OFFSET_CHECKPOINT: ("offsets of a data directory's partitions", explain_offset_checkpoint),
    FileKind.PARTITION_METADATA: ("which topic this partition belongs to", explain_metadata),
}


def explain(paths: Iterable[str], options: DumpOptions, out: TextIO) -> bool:
    """Write an explanation of the files in `paths` to `out`, and return whether all of these files are valid."""
    page = Page(out)
    for file in expand(paths):
        try:
            _explain_file(page, file, options)
        except OSError as error:
            if not file.listed or os.path.exists(file.path):
                page.write_fault(f"{file.path}: {error.strerror or error}")
        except DecodeError as error:
            page.write_fault(str(error))
        page.write_gap()
    return page.sound


def _explain_file(page: Page, file: DumpFile, options: DumpOptions) -> None:
    if file.kind in {FileKind.LOG, FileKind.LOG_07}:
        explain_log(page, file, options)
    elif file.kind in _EXPLAINERS:
        kind, explainer = _EXPLAINERS[file.kind]
        page.write_heading(f"{file.path}: {kind}")
        explainer(page, file)
    else:
        os.stat(file.path)
        page.write_heading(f"{file.path}: its name tells nothing")
