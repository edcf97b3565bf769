"""Message formats v0 and v1 (KIP-31, KIP-32; Kafka's `LegacyRecord` and `AbstractLegacyRecordBatch`).

A message set is a sequence of entries without a header or a count. Each entry consists of an offset, a size and one
message (see `header` for the layout). To compress a message set, the whole set is compressed and stored as the value
of another message, the wrapper. In these formats, a log entry is therefore either a plain message or a wrapper with
all its messages, where v2 has a batch:

- In v0, the messages in a wrapper have absolute offsets, so a wrapper must be compressed again to assign offsets.
- In v1, inner offsets start at 0, and the wrapper has the absolute offset of its last message. The absolute offset of
  an inner message is the wrapper's offset, minus the last inner offset, plus the message's inner offset. A wrapper
  with offset 0 has not been assigned an offset.
- A v1 wrapper with CREATE_TIME has the highest of the inner timestamps. With LOG_APPEND_TIME, it has the broker's
  time, and the timestamps and timestamp types of the inner messages are ignored.
"""

from binascii import crc32
from collections.abc import Iterable, Iterator
from itertools import count as count_from
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Final

from minibroker_protocol.errors import (
    CorruptRecordError,
    DecodeError,
    EncodeError,
    InvalidRecordError,
    UnsupportedMagicError,
)
from minibroker_protocol.records.compression import MAX_DECOMPRESSED_SIZE, compress, decompress_in_chunks
from minibroker_protocol.records.header import (
    CODEC_MASK,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V1,
    MIN_MESSAGE_LENGTH,
    MIN_MESSAGE_LENGTH_V1,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    CompressionCodec,
    TimestampType,
    read_entry_header,
)
from minibroker_protocol.records.record import NewRecord, Record, make_record
from minibroker_protocol.records.varint import INT32_MAX, INT64_MAX, INT64_MIN

_OFFSET_AND_SIZE: Final = Struct(">qi")
_ENTRY_HEAD: Final = Struct(">qiI")
"""Offset, size and CRC."""
_ENTRY_V0: Final = Struct(">qi4xBBi")
"""Offset, size, magic, attributes and key length."""
_ENTRY_V1: Final = Struct(">qi4xBBqi")
"""Offset, size, magic, attributes, timestamp and key length."""
_MESSAGE_V0: Final = Struct(">BBi")
"""The first fields covered by the CRC of a v0 message: magic, attributes and key length."""
_MESSAGE_V1: Final = Struct(">BBqi")
_LENGTH: Final = Struct(">i")
_KEY_AT: Final = (_ENTRY_V0.size - _LENGTH.size, _ENTRY_V1.size - _LENGTH.size)
"""The position of the key length in an entry, indexed by magic."""
_CRC_SIZE: Final = 4
_NULL: Final = -1


class LegacyRecordBatch:
    """A lazy view of one entry of a v0 or v1 message set: a plain message, or a wrapper that is not yet opened.

    The class has the same interface as `RecordBatch`. Iteration yields each `Record` with its absolute offset. v0
    records have the timestamp `NO_TIMESTAMP` and the type `NO_TIMESTAMP_TYPE`. A truncated message at the end of a
    wrapper ends the iteration without an error. Neither the constructor nor iteration verifies a CRC; `check_crc`
    does.

    Raises:
        InvalidRecordError: a wrapper has no value, no messages, messages of another magic, nested wrappers or an
            impossible offset; or a field extends past the end of its message.
        CorruptRecordError: the size of an inner message is invalid.
        UnsupportedCodecError: the codec does not exist.
    """

    __slots__ = ("buffer", "header", "max_decompressed_size")

    def __init__(self, buffer: memoryview, *, max_decompressed_size: int = MAX_DECOMPRESSED_SIZE) -> None:
        """Read the header of the entry.

        Raises:
            CorruptRecordError: the entry is truncated or has an invalid size.
            UnsupportedMagicError: the magic is above 1.
        """
        try:
            header = read_entry_header(buffer)
        except UnsupportedMagicError:
            raise
        except DecodeError as error:
            raise CorruptRecordError(str(error)) from None
        magic, length = header.magic, header.batch_length
        if magic > MAGIC_V1:
            raise UnsupportedMagicError(f"magic: {magic} instead of 0 or 1")
        if length < (MIN_MESSAGE_LENGTH_V1 if magic else MIN_MESSAGE_LENGTH):
            raise CorruptRecordError(f"message size: {length}, less than a message of format v{magic} takes")
        if length > len(buffer) - LOG_OVERHEAD:
            raise CorruptRecordError(f"message size: {length}, but only {len(buffer) - LOG_OVERHEAD} bytes are there")
        self.header: Final = header
        size = LOG_OVERHEAD + length
        self.buffer: Final = buffer if len(buffer) == size else buffer[:size]
        self.max_decompressed_size: Final = max_decompressed_size

    @property
    def is_compressed(self) -> bool:
        """Whether the entry is a wrapper."""
        return self.header.attributes & CODEC_MASK != 0

    def check_crc(self) -> None:
        """Verify the entry's own CRC. For the messages in a wrapper, see `check_inner_crcs`.

        Raises:
            CorruptRecordError: the stored CRC does not match the entry's bytes.
        """
        computed = crc32(self.buffer[MAGIC_AT:])
        if computed != self.header.crc:
            raise CorruptRecordError(f"crc: stored {self.header.crc}, computed {computed}")

    def records_data(self) -> bytes:
        """Return the decompressed message set of a wrapper, or the entry itself if it is a plain message.

        The errors of `decompress` are raised as well.

        Raises:
            InvalidRecordError: the wrapper has no value, or uses zstd. These formats do not support zstd.
        """
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        """Like `records_data`, but return the data in chunks, each decompressed in a few milliseconds."""
        if not self.is_compressed:
            return iter((bytes(self.buffer),))
        header = self.header
        return decompress_in_chunks(
            header.codec, self._compressed_messages(), max_size=self.max_decompressed_size, magic=header.magic
        )

    def _compressed_messages(self) -> memoryview:
        """Return the compressed message set in a wrapper."""
        if self.header.codec is CompressionCodec.ZSTD:
            raise InvalidRecordError(f"attributes: a wrapper of format v{self.header.magic} cannot be under zstd")
        _, value = _find_key_and_value(self.buffer, _KEY_AT[self.header.magic])
        if value is None:
            raise InvalidRecordError("value: null, in a compressed message")
        return value

    def __iter__(self) -> Iterator[Record]:
        return self.read(self.records_data() if self.is_compressed else b"")

    def read(self, data: bytes, *, max_messages: int = INT32_MAX, verifies_crcs: bool = False) -> Iterator[Record]:
        """Return the records of the entry, given its `records_data`.

        A wrapper with more than `max_messages` messages is rejected. If `verifies_crcs` is true, the CRCs of the inner
        messages are verified.
        """
        if self.is_compressed:
            message_count, last_inner_offset = _check_messages(data, self.header.magic, max_messages)
            base = _absolute_base(self.header, last_inner_offset)
            return _read_messages(data, message_count, base, self.header, verifies_crcs=verifies_crcs)
        header = self.header
        key, value = _find_key_and_value(self.buffer, _KEY_AT[header.magic])
        record = make_record(
            (
                header.base_offset,
                header.max_timestamp,
                header.timestamp_type,
                None if key is None else bytes(key),
                None if value is None else bytes(value),
                (),
            )
        )
        return iter((record,))


def check_inner_crcs(data: bytes, magic: int) -> None:
    """Verify the CRC of each message in `data`, a wrapper's decompressed message set.

    Invalid sizes and magics raise the same errors as in iteration.

    Raises:
        CorruptRecordError: a CRC is wrong.
    """
    view = memoryview(data)
    position = 0
    for index in range(_check_messages(data, magic)[0]):
        position = _check_crc(view, position, index)


def _check_crc(messages: memoryview, position: int, index: int) -> int:
    """Verify the CRC of the message at `position`, and return the position after it. Errors name its `index`."""
    _, size, crc = _ENTRY_HEAD.unpack_from(messages, position)
    end: int = position + LOG_OVERHEAD + size
    computed = crc32(messages[position + MAGIC_AT : end])
    if computed != crc:
        raise CorruptRecordError(f"inner message {index}: crc: stored {crc}, computed {computed}")
    return end


def _check_messages(data: bytes, magic: int, max_messages: int = INT32_MAX) -> tuple[int, int]:
    """Check the sizes and magics of a wrapper's inner messages, and that there are at most `max_messages`.

    Returns:
        The number of complete messages, and the offset field of the last one.
    """
    smallest = MIN_MESSAGE_LENGTH_V1 if magic else MIN_MESSAGE_LENGTH
    unpack = _OFFSET_AND_SIZE.unpack_from
    last = len(data) - LOG_OVERHEAD
    position = number = offset = 0
    while position <= last:
        next_offset, size = unpack(data, position)
        if size < MIN_MESSAGE_LENGTH:
            raise CorruptRecordError(f"inner message {number}: size {size}, less than any message takes")
        if size > last - position:
            break
        if data[position + MAGIC_AT] != magic:
            raise InvalidRecordError(f"inner message {number}: magic {data[position + MAGIC_AT]} in one of {magic}")
        if size < smallest:
            raise CorruptRecordError(f"inner message {number}: size {size}, less than format v{magic} takes")
        offset = next_offset
        position += LOG_OVERHEAD + size
        number += 1
        if number > max_messages:
            raise InvalidRecordError(f"wrapper: more than {max_messages} messages")
    if not number:
        raise InvalidRecordError("value: no message in a compressed message set")
    return number, offset


def _absolute_base(wrapper: BatchHeader, last_inner_offset: int) -> int:
    """Return the number to add to each inner offset to get the absolute offset."""
    if wrapper.magic != MAGIC_V1 or not wrapper.base_offset:
        return 0
    base = wrapper.base_offset - last_inner_offset
    if base < 0:
        raise InvalidRecordError(f"offset: {wrapper.base_offset}, less than the last inner one, {last_inner_offset}")
    return base


def _read_messages(
    data: bytes, number: int, absolute_base: int, wrapper: BatchHeader, *, verifies_crcs: bool
) -> Iterator[Record]:
    """Yield the first `number` messages of `data`. `_check_messages` has already checked their sizes and magics."""
    timestamp_type = wrapper.timestamp_type
    fixed_timestamp = wrapper.max_timestamp if timestamp_type is not TimestampType.CREATE_TIME else None
    unpack = (_ENTRY_V1 if wrapper.magic else _ENTRY_V0).unpack_from
    unpack_length = _LENGTH.unpack_from
    key_at = _KEY_AT[wrapper.magic] + _LENGTH.size
    timestamp = NO_TIMESTAMP
    position = 0
    view = memoryview(data)
    for index in range(number):
        if verifies_crcs:
            _check_crc(view, position, index)
        if wrapper.magic:
            offset, size, _, attributes, timestamp, length = unpack(data, position)
        else:
            offset, size, _, attributes, length = unpack(data, position)
        if attributes & CODEC_MASK:
            raise InvalidRecordError(f"inner message {index}: it is compressed itself")
        offset += absolute_base
        if not INT64_MIN <= offset <= INT64_MAX:
            raise InvalidRecordError(f"inner message {index}: offset {offset} is not an int64")
        end = position + LOG_OVERHEAD + size
        position += key_at
        key = value = None
        if length >= 0:
            start = position
            position += length
            key = data[start:position]
        value_at = position + _LENGTH.size
        if value_at > end:
            raise InvalidRecordError(f"inner message {index}: key length {length} in {size} bytes")
        (length,) = unpack_length(data, position)
        if length >= 0:
            if length > end - value_at:
                raise InvalidRecordError(f"inner message {index}: value length {length} in {size} bytes")
            value = data[value_at : value_at + length]
        position = end
        yield make_record(
            (offset, timestamp if fixed_timestamp is None else fixed_timestamp, timestamp_type, key, value, ())
        )


def _find_key_and_value(entry: memoryview, position: int) -> tuple[memoryview | None, memoryview | None]:
    """Return the key and the value of an entry that has at least its format's minimum size.

    Bytes after the value are ignored.
    """
    key = value = None
    (length,) = _LENGTH.unpack_from(entry, position)
    position += _LENGTH.size
    remaining = len(entry) - position - _LENGTH.size
    if length >= 0:
        if length > remaining:
            raise InvalidRecordError(f"key length: {length}, but {remaining} bytes are left for it")
        key = entry[position : position + length]
        position += length
        remaining -= length
    (length,) = _LENGTH.unpack_from(entry, position)
    position += _LENGTH.size
    if length >= 0:
        if length > remaining:
            raise InvalidRecordError(f"value length: {length}, but {remaining} bytes are left for it")
        value = entry[position : position + length]
    return key, value


def encode_message(
    offset: int,
    key: bytes | None,
    value: bytes | bytearray | memoryview | None,
    *,
    magic: int,
    timestamp: int = NO_TIMESTAMP,
    attributes: int = 0,
) -> bytes:
    """Encode one entry of format v0 or v1 with its CRC, as in a message set. v0 omits the timestamp.

    Raises:
        EncodeError: a value does not fit its field.
    """
    key_length = _NULL if key is None else len(key)
    value_length = _NULL if value is None else len(value)
    try:
        if magic == MAGIC_V1:
            head = _MESSAGE_V1.pack(magic, attributes, timestamp, key_length)
        elif not magic:
            head = _MESSAGE_V0.pack(magic, attributes, key_length)
        else:
            raise EncodeError(f"magic: {magic} instead of 0 or 1")
        message = b"".join((head, key or b"", _LENGTH.pack(value_length), value or b""))
        return _ENTRY_HEAD.pack(offset, len(message) + _CRC_SIZE, crc32(message)) + message
    except StructError as error:
        raise EncodeError(f"message of format v{magic}: {error}") from None


def build_message_set(
    records: Iterable[NewRecord],
    *,
    magic: int,
    base_offset: int = 0,
    offsets: Iterable[int] | None = None,
    codec: CompressionCodec = CompressionCodec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time: int | None = None,
) -> bytearray:
    """Encode a message set of format v0 or v1, producing the same bytes as Kafka's `MemoryRecordsBuilder`.

    Only compressed data can differ. A plain set has one entry per record, and a compressed set is a single wrapper.
    The records get the absolute `offsets`, which must ascend, or consecutive offsets from `base_offset` on. Inner
    offsets of v1 are relative to `base_offset`. Under LOG_APPEND_TIME, a wrapper and all messages have that timestamp
    type. Their timestamp is then `log_append_time` or, if that is None, the highest timestamp of the records. Without
    records, the set is empty.

    Raises:
        EncodeError: the codec is zstd, a record has headers (which these formats lack), a timestamp is below
            `NO_TIMESTAMP`, or a value does not fit its field.
    """
    if codec is CompressionCodec.ZSTD:
        raise EncodeError(f"codec: zstd, which format v{magic} does not know")
    fixed_timestamp: int | None = None
    if magic and timestamp_type is TimestampType.LOG_APPEND_TIME:
        records = list(records)
        fixed_timestamp = log_append_time
        if fixed_timestamp is None:
            fixed_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    attributes = 0 if fixed_timestamp is None else TIMESTAMP_TYPE_FLAG
    relative_to = base_offset if magic and codec is not CompressionCodec.NONE else 0
    message_set = bytearray()
    offset = base_offset - 1
    max_timestamp = NO_TIMESTAMP
    for record, next_offset in zip(
        records, count_from(base_offset) if offsets is None else offsets, strict=offsets is not None
    ):
        timestamp = record.timestamp
        if record.headers:
            raise EncodeError(f"headers: format v{magic} does not have any")
        if timestamp < NO_TIMESTAMP:
            raise EncodeError(f"timestamp: {timestamp}")
        if not offset < next_offset <= base_offset + INT32_MAX:
            raise EncodeError(f"offset: {next_offset} after {offset}, in a set from {base_offset} on")
        offset = next_offset
        if fixed_timestamp is not None:
            timestamp = fixed_timestamp
        max_timestamp = max(max_timestamp, timestamp)
        message_set += encode_message(
            offset - relative_to, record.key, record.value, magic=magic, timestamp=timestamp, attributes=attributes
        )
    if codec is CompressionCodec.NONE or not message_set:
        return message_set
    value = compress(codec, message_set, magic=magic)
    return encode_wrapper(
        value, codec, magic=magic, last_offset=offset, timestamp=max_timestamp, append_time=fixed_timestamp
    )


def encode_wrapper(
    packed: bytes, codec: CompressionCodec, *, magic: int, last_offset: int, timestamp: int, append_time: int | None
) -> bytearray:
    """Encode the wrapper of a message set compressed with `codec`.

    `timestamp` is the highest timestamp of the messages. Under LOG_APPEND_TIME, `append_time` replaces it.
    """
    attributes: int = codec
    if append_time is not None:
        attributes, timestamp = codec | TIMESTAMP_TYPE_FLAG, append_time
    return bytearray(encode_message(last_offset, None, packed, magic=magic, timestamp=timestamp, attributes=attributes))
