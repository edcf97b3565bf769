"""Log entries of any message format as Arrow batches, and back, without a Python object for each record.

    report = DecodeReport()
    request = DecodeRequest(topic="orders", partition=0, columns=(*RECORD_COLUMNS, "headers"))
    for batch in decode(memoryview_of_whole_entries, request, report):   # pyarrow.RecordBatch, some 4 MB each
        ...
    torn = len(data) - report.consumed                                   # bytes of an entry that is cut short

Two engines give the same rows. "auto" takes the first that works:

- `numba` is a compiled kernel, and the fast one.
- `numpy` steps through all batches of a chunk side by side. It serves where numba is missing, or has no folder to keep
  its machine code in.

`scan_headers(data)` reads what stands before the records only: a numpy array of `HEADER_DTYPE`.
`encode(batch, codec=...)` is the way back, to entries of any format.
"""

from minibroker_pipeline.decode.decoder import coalesce, decode, load_engine, prepare, settle
from minibroker_pipeline.decode.encoder import EncodedBatches, EncodeError, Producer, encode
from minibroker_pipeline.decode.headers import HEADER_DTYPE, scan_headers, wrong_crcs
from minibroker_pipeline.decode.request import (
    BATCH_COLUMNS,
    CHUNK_BYTES,
    END_OF_OFFSETS,
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
    "CHUNK_BYTES",
    "END_OF_OFFSETS",
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
    "Producer",
    "coalesce",
    "decode",
    "encode",
    "load_engine",
    "prepare",
    "scan_headers",
    "schema_of",
    "settle",
    "wrong_crcs",
]
