"""Reading v2 record batches (KIP-98; Kafka's `DefaultRecordBatch`), and record sets of any message format.

The records (see `record`) follow the header of a batch. In a compressed batch, they form one compressed block.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from minibroker_protocol.errors import CorruptRecordError, DecodeError, InvalidRecordError, UnsupportedMagicError
from minibroker_protocol.records.compression import MAX_DECOMPRESSED_SIZE, decompress_in_chunks
from minibroker_protocol.records.header import (
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    MIN_MESSAGE_LENGTH,
    RECORD_BATCH_OVERHEAD,
    CompressionCodec,
    compute_crc,
    read_header,
)
from minibroker_protocol.records.legacy import LegacyRecordBatch
from minibroker_protocol.records.record import Record, read_records


class RecordBatch:
    """A lazy view of one v2 batch. Only the header is read at first.

    `buffer` starts with the batch and can extend beyond it. Nothing is copied until the records are read. Iteration
    decompresses the records if needed, and yields each one as a `Record`. Only `check_crc` checks the CRC.

    Raises:
        UnsupportedCodecError: during iteration, if the codec does not exist.
        InvalidRecordError: during iteration, if a length, the record count or the end of the batch contradicts the
            bytes.
    """

    __slots__ = ("buffer", "header", "max_decompressed_size")

    def __init__(self, buffer: memoryview, *, max_decompressed_size: int = MAX_DECOMPRESSED_SIZE) -> None:
        """Read the header of the batch.

        Raises:
            CorruptRecordError: the batch is truncated or has an invalid size.
            UnsupportedMagicError: the batch is not of format v2.
        """
        try:
            header = read_header(buffer)
        except DecodeError as error:
            raise CorruptRecordError(str(error)) from None
        if header.magic != MAGIC_V2:
            raise UnsupportedMagicError(f"magic: {header.magic} instead of {MAGIC_V2}")
        size = header.size_in_bytes
        if size < RECORD_BATCH_OVERHEAD:
            raise CorruptRecordError(f"batch length: {header.batch_length}, less than a batch's header takes")
        if size > len(buffer):
            raise CorruptRecordError(f"batch length: {header.batch_length}, but only {len(buffer)} bytes are there")
        self.header: Final = header
        self.buffer: Final = buffer[:size]
        self.max_decompressed_size: Final = max_decompressed_size

    def check_crc(self) -> None:
        """Check the CRC of the batch.

        Raises:
            CorruptRecordError: the stored CRC does not match the bytes.
        """
        computed = compute_crc(self.buffer)
        if computed != self.header.crc:
            raise CorruptRecordError(f"crc: stored {self.header.crc}, computed {computed}")

    def records_data(self) -> bytes:
        """Return the encoded records, decompressed if needed. Raises the same errors as `decompress`."""
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        """Like `records_data`, but return the data in chunks, each decompressed in a few milliseconds."""
        codec = self.header.codec
        data = self.buffer[RECORD_BATCH_OVERHEAD:]
        if codec is CompressionCodec.NONE:
            return iter((bytes(data),))
        if self.header.record_count <= 0:
            return iter(())
        return decompress_in_chunks(codec, data, max_size=self.max_decompressed_size)

    def __iter__(self) -> Iterator[Record]:
        return self.read(self.records_data())

    def read(self, data: bytes) -> Iterator[Record]:
        """Return the records of the batch, given its `records_data`."""
        count = self.header.record_count
        if count < 0:
            raise InvalidRecordError(f"record count: {count}")
        # Compaction can leave a batch without records, to preserve its sequence numbers.
        return read_records(data, self.header) if count else iter(())


_INT32: Final = Struct(">i")

Batch = RecordBatch | LegacyRecordBatch
"""A log entry in any message format: a v2 batch, or a v0 or v1 message, possibly a wrapper."""


def iter_batches(
    buffer: bytes | bytearray | memoryview, *, max_decompressed_size: int = MAX_DECOMPRESSED_SIZE
) -> Iterator[Batch]:
    """Yield each entry of a record set, such as one in a Fetch response or a segment file. The formats can be mixed.

    A truncated last entry ends the iteration without an error, because a fetch can end within an entry.

    Raises:
        CorruptRecordError: the size of an entry is invalid in its format.
        UnsupportedMagicError: an entry has a magic above 2.
    """
    view = memoryview(buffer)
    end = len(view)
    position = 0
    while end - position >= LOG_OVERHEAD:
        (batch_length,) = _INT32.unpack_from(view, position + LENGTH_AT)
        if batch_length < MIN_MESSAGE_LENGTH:
            raise CorruptRecordError(f"batch length: {batch_length} at byte {position}")
        size = LOG_OVERHEAD + batch_length
        if size > end - position:
            return
        magic = view[position + MAGIC_AT]
        if magic > MAGIC_V2:
            raise UnsupportedMagicError(f"magic: {magic} at byte {position}")
        batch_class = RecordBatch if magic == MAGIC_V2 else LegacyRecordBatch
        yield batch_class(view[position : position + size], max_decompressed_size=max_decompressed_size)
        position += size
