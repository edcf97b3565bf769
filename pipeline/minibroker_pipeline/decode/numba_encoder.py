"""The numba encoder: writes batches by the compiled kernel."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from minibroker_pipeline.decode import encode_kernel as kernel
from minibroker_pipeline.decode.checksums import crc_tables
from minibroker_pipeline.decode.encoder_arrays import BATCH_WIDTH, POSITION, SIZE, PlainBatches, Rows
from minibroker_protocol.errors import EncodeError
from minibroker_protocol.records import MAGIC_V2
from minibroker_protocol.records.varint import INT32_MAX

_CRC_TABLES: Final = crc_tables()


def write(rows: Rows, groups: NDArray[np.int64], magic: int) -> PlainBatches:
    """See `assemble.encode_rows`."""
    count = len(rows.offsets)
    headers_size = np.ones(count, np.int32)
    if len(rows.header_keys.size):
        kernel.measure_headers(
            rows.headers_first, rows.headers_count, rows.header_keys.size, rows.header_values.size, headers_size
        )
    batches = np.empty((count, BATCH_WIDTH), np.int64)
    sizes = (rows.keys.size, rows.values.size, headers_size)
    batches = batches[: kernel.plan(rows.offsets, rows.timestamps, *sizes, magic, groups, batches)]
    if not len(batches):
        return PlainBatches(bytearray(), batches)
    largest = int(batches[:, SIZE].max())
    if largest > INT32_MAX:
        raise EncodeError(f"record: a batch of {largest} bytes")
    out = bytearray(int(batches[-1, POSITION] + batches[-1, SIZE]))
    target = np.frombuffer(out, np.uint8)
    both = (rows.offsets, rows.timestamps, *rows.keys, *rows.values)
    if magic == MAGIC_V2:
        headers = (rows.headers_first, rows.headers_count, *rows.header_keys, *rows.header_values)
        kernel.write(*both[:8], headers_size, *headers, groups, batches, target)
    else:
        kernel.write_messages(*both, magic, groups, batches, _CRC_TABLES, target)
    return PlainBatches(out, batches)
