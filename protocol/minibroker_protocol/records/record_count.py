"""Whether a compressed batch can hold as many records as its header declares.

Kafka unpacks every batch and counts. Here larger batches are trusted, but their record count moves the end of a log, so
it must at least be possible.
"""

from typing import Final

from minibroker_protocol.errors import InvalidRecordError
from minibroker_protocol.records.compression import MAX_DECOMPRESSED_SIZE, decompress_within
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.record import MIN_RECORD_SIZE

MEASURED_SIZE: Final = 8 * 1024 * 1024
"""Unpacking for a measurement ends at so many bytes: some milliseconds."""
_LARGEST_GROWTH: Final = {CompressionCodec.SNAPPY: 64, CompressionCodec.LZ4: 255, CompressionCodec.GZIP: 1_032}
"""The most bytes that one compressed byte becomes. zstd is measured instead: 4 of its bytes become up to 128 KB."""


def check_record_count(codec: CompressionCodec, data: memoryview, count: int) -> None:
    """`InvalidRecordError` when `data` cannot hold `count` records, by the smallest size that a record has.

    It is unpacked up to `MEASURED_SIZE`. What is larger may have as many records as a reader would unpack
    (`MAX_DECOMPRESSED_SIZE`). Also `InvalidRecordError` for broken data.
    """
    needed = count * MIN_RECORD_SIZE
    most = min(len(data) * _LARGEST_GROWTH.get(codec, needed), MAX_DECOMPRESSED_SIZE)
    if needed <= most:
        records = decompress_within(codec, data, MEASURED_SIZE)
        most = most if records is None else len(records)
    if needed > most:
        raise InvalidRecordError(f"record count: {count} in {len(data)} bytes under {codec.name.lower()}")
