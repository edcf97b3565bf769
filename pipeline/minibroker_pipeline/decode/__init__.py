"""Decodes log entries of any message format into Arrow batches and encodes them, without a Python object per record.

    report = DecodeReport()
    request = DecodeRequest(topic="orders", partition=0, columns=(*RECORD_COLUMNS, "headers"))
    for batch in decode(memoryview_of_whole_entries, request, report):   # pyarrow.RecordBatch, some 4 MB each
        ...
    incomplete = len(data) - report.consumed                             # bytes of an incomplete entry

Two engines return the same rows. "auto" selects the first that works:

- `numba` is a compiled kernel and the faster engine.
- `numpy` decodes all batches of a chunk side by side. It is for machines where numba is missing, or has no folder for
  its machine code.

`scan_headers(data)` reads only the headers of the entries, into a NumPy array of `HEADER_DTYPE`. `encode(batch,
codec=...)` is the reverse of `decode` and writes entries of any format.
"""

from minibroker_pipeline.decode.decoder import coalesce, decode, load_engine, prepare
from minibroker_pipeline.decode.encoder import EncodedBatches, EncodeError, encode
from minibroker_pipeline.decode.headers import HEADER_DTYPE, find_wrong_crcs, scan_headers
from minibroker_pipeline.decode.request import (
    BATCH_COLUMNS,
    HEADERS_COLUMN,
    RECORD_COLUMNS,
    AbortedRange,
    Damage,
    DamagedLogError,
    DecodeReport,
    DecodeRequest,
    Engine,
    schema_of,
)

__all__ = [
    "BATCH_COLUMNS",
    "HEADERS_COLUMN",
    "HEADER_DTYPE",
    "RECORD_COLUMNS",
    "AbortedRange",
    "Damage",
    "DamagedLogError",
    "DecodeReport",
    "DecodeRequest",
    "EncodeError",
    "EncodedBatches",
    "Engine",
    "coalesce",
    "decode",
    "encode",
    "find_wrong_crcs",
    "load_engine",
    "prepare",
    "scan_headers",
    "schema_of",
]
