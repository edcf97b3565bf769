"""Batches by the compiled kernel."""

from typing import TYPE_CHECKING

import numpy as np

from minibroker_pipeline.decode import encode_kernel as kernel
from minibroker_protocol.errors import EncodeError
from minibroker_protocol.records.varint import INT32_MAX

if TYPE_CHECKING:
    from minibroker_pipeline.decode.encoder import Rows


def write(rows: "Rows", batch_bytes: int, leader_epoch: int) -> bytearray:
    """See `encoder.encode`."""
    count = len(rows.offsets)
    headers_size = np.ones(count, np.int32)
    if len(rows.header_keys.size):
        kernel.measure_headers(
            rows.headers_first, rows.headers_count, rows.header_keys.size, rows.header_values.size, headers_size
        )
    batches = np.empty((count, kernel.WIDTH), np.int64)
    sizes = (rows.keys.size, rows.values.size, headers_size)
    batches = batches[: kernel.plan(rows.offsets, rows.timestamps, *sizes, batch_bytes, batches)]
    if not len(batches):
        return bytearray()
    largest = int(batches[:, kernel.SIZE].max())
    if largest > INT32_MAX:
        raise EncodeError(f"record: a batch of {largest} bytes")
    out = bytearray(int(batches[-1, kernel.POSITION] + batches[-1, kernel.SIZE]))
    kernel.write(
        rows.offsets,
        rows.timestamps,
        *rows.keys,
        *rows.values,
        headers_size,
        rows.headers_first,
        rows.headers_count,
        *rows.header_keys,
        *rows.header_values,
        batches,
        leader_epoch,
        np.frombuffer(out, np.uint8),
    )
    return out
