"""The records inside compressed entries."""

from typing import Any

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records import (
    MAGIC_V2,
    RECORD_BATCH_OVERHEAD,
    CompressionCodec,
    LegacyRecordBatch,
    decompress,
)

_CODECS = tuple(CompressionCodec)


def inflate(entry: memoryview, header: Any, max_size: int) -> bytes:
    """The contents of one compressed entry (a line of `HEADER_DTYPE`): records, or a wrapper's message set.

    `DecodeError` for what is malformed, too large, or of a codec that does not exist.
    """
    if header["magic"] != MAGIC_V2:
        return LegacyRecordBatch(entry, max_decompressed_size=max_size).records_data()
    codec_id = int(header["codec"])
    if codec_id >= len(_CODECS):
        raise DecodeError(f"attributes: unknown compression codec {codec_id}")
    if header["record_count"] == 0:
        return b""  # the payload of a batch without records is not read
    return decompress(_CODECS[codec_id], entry[RECORD_BATCH_OVERHEAD:], max_size=max_size)
