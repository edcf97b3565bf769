"""Explaining a log file, whatever the format of its messages."""

from minibroker_protocol.errors import DecodeError, UnsupportedMagicError
from minibroker_protocol.fields.batches import add_header, record_nodes
from minibroker_protocol.fields.tree import BATCH, COMPRESSED, ERROR, Node
from minibroker_protocol.records.batch import RecordBatch
from minibroker_protocol.records.header import MAGIC_AT, MAGIC_V2, CompressionCodec, codec_name
from minibroker_storage.dump.files import DumpFile, DumpOptions
from minibroker_storage.dump.logs import Entry, Tail, open_log
from minibroker_storage.explain.legacy import explain_message, explain_message_07
from minibroker_storage.explain.page import Page
from minibroker_storage.explain.rows import Rows, cursor_over


def explain_log(page: Page, file: DumpFile, options: DumpOptions) -> None:
    """Every entry of the log; of one that cannot be read to its end, how far that goes and why. `OSError`."""
    with open_log(file, options) as log:
        base = file.base_offset or 0
        begins = f"which begins at {'byte' if log.is_07 else 'offset'} {base}"
        page.heading(f"{file.path}: log, {begins}")
        page.table_head()
        for entry in log:
            if isinstance(entry, Tail):
                if options.max_bytes is None:
                    page.gap()
                    page.fault(f"{entry.size} bytes at byte {entry.position} are not a whole batch{_because(entry)}")
                return
            try:
                if log.is_07:
                    explain_message_07(page, entry.data, entry.position, base)
                else:
                    _explain_entry(page, entry)
            except DecodeError as error:
                page.fault(f"cannot be read on: {error}")


def _because(tail: Tail) -> str:
    return f": {tail.reason}" if tail.reason else ": it is cut short"


def _explain_entry(page: Page, entry: Entry) -> None:
    magic = entry.data[MAGIC_AT]
    if magic > MAGIC_V2:
        raise UnsupportedMagicError(f"at byte {entry.position}: magic {magic}, which no message format has")
    (explain_batch if magic == MAGIC_V2 else explain_message)(page, entry.data, entry.position)


def explain_batch(page: Page, data: memoryview, position: int) -> None:
    """A row for each field of the batch that starts at byte `position`. `DecodeError` where it cannot be read."""
    node = Node("batch", BATCH, 0, len(data))
    cursor = cursor_over(data)
    header = add_header(cursor, node)
    page.gap()
    page.heading(
        f"batch at byte {position}: format v2, offsets {header.base_offset} to {header.last_offset},"
        f" {header.size_in_bytes} bytes",
    )
    rows = Rows(page, data, position)
    rows.write(node)
    if header.codec is not CompressionCodec.NONE:
        payload = cursor.leaf("records", COMPRESSED, cursor.left, None, "RecordBatch.records")
        payload.note = f"compressed with {codec_name(header)}, all together"
        rows.write(payload)
        records = memoryview(RecordBatch(data).records_data())
        page.heading(f"decompressed: {len(records)} bytes; positions with a plus sign count from the first", level=1)
        rows, cursor = Rows(page, records, 0, "+"), cursor_over(records)
    for index, record in enumerate(record_nodes(cursor, header)):
        if record.type == ERROR:
            raise DecodeError(record.value)
        page.heading(f"record {index} at {rows.where(record.start)}", level=1)
        rows.write(record)
