"""Message formats v0 and v1 (KIP-31, KIP-32; Kafka's `LegacyRecord` and `AbstractLegacyRecordBatch`).

A message set is a row of entries, each an offset, a size and one message (`header` has the layout). Nothing stands
before the first or counts them. A set is compressed as a whole, as the value of one more message, the wrapper. So one
entry of a log, which in v2 is a batch, is here either a plain message or a wrapper with all that it holds:

- In v0, messages in a wrapper have their absolute offsets, so to assign offsets is to compress again.
- In v1 they count from 0, and the wrapper has the absolute offset of the last of them: an absolute offset is that of
  the wrapper, less the last inner one, plus the message's own. A wrapper's offset of 0 means that it has none yet.
- A v1 wrapper under CREATE_TIME has the highest of the inner timestamps. Under LOG_APPEND_TIME it has the broker's
  time, and whatever timestamps and timestamp types the inner messages carry count for nothing.
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
from minibroker_protocol.records.compression import MAX_DECOMPRESSED_SIZE, compress, decompressed
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
"""Offset, size, magic, attributes and the key's length."""
_ENTRY_V1: Final = Struct(">qi4xBBqi")
"""The same, with a timestamp before the key's length."""
_MESSAGE_V0: Final = Struct(">BBi")
"""The head of a v0 message that its CRC covers: magic, attributes, the key's length."""
_MESSAGE_V1: Final = Struct(">BBqi")
_LENGTH: Final = Struct(">i")
_KEY_AT: Final = (_ENTRY_V0.size - _LENGTH.size, _ENTRY_V1.size - _LENGTH.size)
"""Where an entry's key length stands, by magic."""
_CRC_SIZE: Final = 4
_NULL: Final = -1


class LegacyRecordBatch:
    """A lazy view over one entry of a v0 or v1 message set: a plain message, or a wrapper that is not opened yet.

    It has the face of `RecordBatch`. Iteration yields each `Record` with its absolute offset; v0 records have the
    timestamp `NO_TIMESTAMP` and its type. A message that is cut short at the end of a wrapper ends it without an error.
    Neither the constructor nor iteration looks at any CRC; `check_crc` does.

    Raises:
        InvalidRecordError: a wrapper without a value or messages, with messages of another magic or other wrappers in
            it, or with an impossible offset; a field that goes beyond its message.
        CorruptRecordError: an inner size that no message has.
        UnsupportedCodecError: a codec that does not exist.
    """

    __slots__ = ("buffer", "header", "max_decompressed_size")

    def __init__(self, buffer: memoryview, *, max_decompressed_size: int = MAX_DECOMPRESSED_SIZE) -> None:
        """`CorruptRecordError` when the entry is cut short or has an impossible size, `UnsupportedMagicError`."""
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
        """Whether this is a wrapper."""
        return self.header.attributes & CODEC_MASK != 0

    def check_crc(self) -> None:
        """`CorruptRecordError` when the entry's own checksum is not that of its bytes (see `check_inner_crcs`)."""
        computed = crc32(self.buffer[MAGIC_AT:])
        if computed != self.header.crc:
            raise CorruptRecordError(f"crc: stored {self.header.crc}, computed {computed}")

    def records_data(self) -> bytes:
        """Return the message set that a wrapper holds, decompressed; of a plain message, the entry itself.

        `InvalidRecordError` for a wrapper without a value, or under zstd, which these formats do not know; and what
        `decompress` raises.
        """
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """Like `records_data`, but return pieces, of which each takes some milliseconds."""
        if not self.is_compressed:
            return iter((bytes(self.buffer),))
        header = self.header
        return decompressed(header.codec, self._packed(), max_size=self.max_decompressed_size, magic=header.magic)

    def _packed(self) -> memoryview:
        """The compressed message set of a wrapper."""
        if self.header.codec is CompressionCodec.ZSTD:
            raise InvalidRecordError(f"attributes: a wrapper of format v{self.header.magic} cannot be under zstd")
        _, value = _find_key_and_value(self.buffer, _KEY_AT[self.header.magic])
        if value is None:
            raise InvalidRecordError("value: null, in a compressed message")
        return value

    def __iter__(self) -> Iterator[Record]:
        return self.read(self.records_data() if self.is_compressed else b"")

    def read(self, data: bytes, *, most: int = INT32_MAX, checks_crcs: bool = False) -> Iterator[Record]:
        """Return the records of the entry, given its `records_data`.

        A wrapper of more than `most` records is refused. With `checks_crcs`, so are messages in it with a wrong one.
        """
        if self.is_compressed:
            number, last_inner_offset = _survey(data, self.header.magic, most)
            base = _absolute_base(self.header, last_inner_offset)
            return _read_messages(data, number, base, self.header, checks_crcs=checks_crcs)
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
    """Check the checksum of each message in the decompressed message set `data` of a wrapper.

    `CorruptRecordError` for the first that is wrong; and for sizes and magics what iteration raises.
    """
    view = memoryview(data)
    position = 0
    for index in range(_survey(data, magic)[0]):
        position = _check_crc(view, position, index)


def _check_crc(messages: memoryview, position: int, index: int) -> int:
    """Check the checksum of the message at `position`, number `index`; return the position after it."""
    _, size, crc = _ENTRY_HEAD.unpack_from(messages, position)
    end: int = position + LOG_OVERHEAD + size
    computed = crc32(messages[position + MAGIC_AT : end])
    if computed != crc:
        raise CorruptRecordError(f"inner message {index}: crc: stored {crc}, computed {computed}")
    return end


def _survey(data: bytes, magic: int, most: int = INT32_MAX) -> tuple[int, int]:
    """Check the sizes and the magics of the messages in a wrapper's message set, which are at most `most`.

    Returns the number of whole messages, and the last one's offset field.
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
        if number > most:
            raise InvalidRecordError(f"wrapper: more than {most} messages")
    if not number:
        raise InvalidRecordError("value: no message in a compressed message set")
    return number, offset


def _absolute_base(wrapper: BatchHeader, last_inner_offset: int) -> int:
    """The number to add to the inner offsets."""
    if wrapper.magic != MAGIC_V1 or not wrapper.base_offset:
        return 0
    base = wrapper.base_offset - last_inner_offset
    if base < 0:
        raise InvalidRecordError(f"offset: {wrapper.base_offset}, less than the last inner one, {last_inner_offset}")
    return base


def _read_messages(
    data: bytes, number: int, absolute_base: int, wrapper: BatchHeader, *, checks_crcs: bool
) -> Iterator[Record]:
    """Each of the first `number` messages of `data`, whose sizes and magics `_survey` has looked at."""
    timestamp_type = wrapper.timestamp_type
    fixed_timestamp = wrapper.max_timestamp if timestamp_type is not TimestampType.CREATE_TIME else None
    unpack = (_ENTRY_V1 if wrapper.magic else _ENTRY_V0).unpack_from
    unpack_length = _LENGTH.unpack_from
    key_at = _KEY_AT[wrapper.magic] + _LENGTH.size
    timestamp = NO_TIMESTAMP
    position = 0
    view = memoryview(data)
    for index in range(number):
        if checks_crcs:
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
    """Both, of an entry that has at least its format's smallest size. Bytes behind the value are passed over."""
    key = value = None
    (length,) = _LENGTH.unpack_from(entry, position)
    position += _LENGTH.size
    left = len(entry) - position - _LENGTH.size
    if length >= 0:
        if length > left:
            raise InvalidRecordError(f"key length: {length}, but {left} bytes are left for it")
        key = entry[position : position + length]
        position += length
        left -= length
    (length,) = _LENGTH.unpack_from(entry, position)
    position += _LENGTH.size
    if length >= 0:
        if length > left:
            raise InvalidRecordError(f"value length: {length}, but {left} bytes are left for it")
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
    """One entry of format v0 or v1 with its CRC, as it stands in a message set. v0 has no place for the timestamp.

    `EncodeError` for a value that its field cannot hold.
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
    """A message set of format v0 or v1, byte for byte as Kafka's `MemoryRecordsBuilder` writes it, codecs aside.

    Plain, one entry for each record; compressed, a single wrapper. The records' absolute offsets are `offsets`, which
    must rise, or else follow each other from `base_offset` on; inner offsets of v1 count from `base_offset`. Under
    LOG_APPEND_TIME every message, the inner ones with the wrapper, gets that type and `log_append_time`, or the highest
    of the records' timestamps when that is None.

    No record at all gives an empty set. `EncodeError` for zstd, for headers, which these formats do not have, for a
    timestamp below `NO_TIMESTAMP`, and for a value that its field cannot hold.
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
        value, codec, magic=magic, last_offset=offset, time=max_timestamp, by_append=fixed_timestamp is not None
    )


def encode_wrapper(
    packed: bytes, codec: CompressionCodec, *, magic: int, last_offset: int, time: int, by_append: bool
) -> bytearray:
    """Make the wrapper of a message set that was compressed with `codec`; `by_append` says who set `time`."""
    attributes = codec | (TIMESTAMP_TYPE_FLAG if by_append else 0)
    return bytearray(encode_message(last_offset, None, packed, magic=magic, timestamp=time, attributes=attributes))
