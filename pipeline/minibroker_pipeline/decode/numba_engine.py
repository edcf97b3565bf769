"""The numba engine, which decodes records with the compiled kernel."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from minibroker_pipeline.decode import kernel
from minibroker_pipeline.decode.blocks import RecordTable, max_rows
from minibroker_pipeline.decode.headers import as_bytes, find_wrong_crcs, select_headers, use_chase
from minibroker_pipeline.decode.numpy_engine import RecordEngine

_FIELDS: Final = 6
_SMALL_ENTRY: Final = 1024
"""The size in bytes up to which the kernel's own checksum is faster."""

_CRC32: Final = 0xEDB88320
_CRC32C: Final = 0x82F63B78


def crc_tables() -> NDArray[np.int64]:
    """Return the tables for processing eight bytes of a checksum at a time.

    There are eight tables of 256 numbers for CRC-32, followed by eight for CRC-32C.
    """
    tables = np.zeros((16, 256), np.int64)
    for first, polynomial in ((0, _CRC32), (8, _CRC32C)):
        row = np.arange(256)
        for _ in range(8):
            row = (row >> 1) ^ np.where(row & 1, polynomial, 0)
        tables[first] = row
        for index in range(first + 1, first + 8):
            previous = tables[index - 1]
            tables[index] = (previous >> 8) ^ row[previous & 0xFF]
    return tables


_CRC_TABLES: Final = crc_tables()


def allocate_array(size: int) -> tuple[pa.Buffer, NDArray[np.uint8]]:
    """Allocate memory from Arrow's pool, which reuses freed memory. NumPy would get new pages each time."""
    buffer = pa.allocate_buffer(size)
    return buffer, np.frombuffer(buffer, np.uint8)


class NumbaEngine(RecordEngine):
    """The engine that finds and gathers records with the compiled kernel (see `RecordEngine`)."""

    chunk_factor = 1
    chase = staticmethod(kernel.chase)

    def find_wrong_crcs(self, view: memoryview, headers: NDArray[Any]) -> list[int]:
        """See `RecordEngine.find_wrong_crcs`.

        A library computes checksums faster than the kernel, but calling it takes longer for small entries.
        """
        is_small = headers["size"] <= _SMALL_ENTRY
        small, large = np.flatnonzero(is_small), np.flatnonzero(~is_small)
        wrong: list[int] = large[find_wrong_crcs(view, headers[large])].tolist()
        if len(small):
            entries = select_headers(headers, small)
            fields = np.array([entries[name] for name in ("position", "size", "crc", "magic")], np.int64)
            is_wrong = np.zeros(len(small), np.uint8)
            if kernel.check_crcs(as_bytes(view), fields, _CRC_TABLES, is_wrong):
                wrong = sorted(wrong + small[is_wrong != 0].tolist())
        return wrong

    def walk(self, data: NDArray[np.uint8], blocks: NDArray[np.int64], first: int, limit: int) -> RecordTable:
        """See `RecordEngine.walk`."""
        capacity = max_rows(blocks)
        offsets, timestamps = allocate_array(2 * 8 * capacity)[1].view(np.int64).reshape(2, capacity)
        field_arrays = allocate_array(_FIELDS * 4 * capacity)[1].view(np.int32).reshape(_FIELDS, capacity)
        rows = kernel.walk(data, blocks, first, limit, (offsets, timestamps), tuple(field_arrays))
        return RecordTable(data, rows, offsets, timestamps, *field_arrays)

    def binary(
        self, data: NDArray[np.uint8], at: NDArray[np.int32], size: NDArray[np.int32], rows: int
    ) -> pa.BinaryArray:
        """See `RecordEngine.binary`."""
        total, nulls = kernel.measure(size, rows)
        values, values_array = allocate_array(total)
        offsets, offsets_array = allocate_array(4 * (rows + 1))
        validity, validity_array = None, np.empty(0, np.uint8)
        if nulls:
            validity, validity_array = allocate_array((rows + 7) // 8)
            validity_array[:] = 0
        kernel.gather(data, at, size, rows, values_array, offsets_array.view(np.int32), validity_array)
        return pa.BinaryArray.from_buffers(pa.binary(), rows, [validity, offsets, values], nulls)

    def headers(self, table: RecordTable) -> tuple[pa.Buffer, pa.Buffer, pa.BinaryArray, pa.BinaryArray]:
        """See `RecordEngine.headers`."""
        rows = table.rows
        number, _ = kernel.measure(table.header_count, rows)
        lists, lists_array = allocate_array(4 * (rows + 1))
        validity, validity_array = allocate_array((rows + 7) // 8)
        validity_array[:] = 0
        field_arrays = np.empty((4, number), np.int32)
        kernel.find_headers(
            table.data,
            table.headers_at,
            table.header_count,
            rows,
            lists_array.view(np.int32),
            validity_array,
            *field_arrays,
        )
        keys = self.binary(table.data, field_arrays[0], field_arrays[1], number)
        values = self.binary(table.data, field_arrays[2], field_arrays[3], number)
        return validity, lists, keys, values


ENGINE: Final = NumbaEngine()
use_chase(kernel.chase)
