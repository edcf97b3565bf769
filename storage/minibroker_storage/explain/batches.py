"""Explaining v2 record batches."""

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.fields.batches import add_header, record_nodes
from minibroker_protocol.fields.tree import BATCH, COMPRESSED, ERROR, Node
from minibroker_protocol.records import CompressionCodec, RecordBatch
from minibroker_protocol.records.names import codec_name
from minibroker_storage.explain.page import Page
from minibroker_storage.explain.rows import Rows, cursor_over


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
