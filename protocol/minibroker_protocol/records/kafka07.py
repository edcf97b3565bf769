"""Messages of Kafka 0.7, which had no offsets. They are read to display old log files, but never served.

A file is a sequence of messages. The address of a message is the position of its first byte, and the file is named
after the address of its first message.

    message size           int32    0   bytes that follow this field
    magic                  int8     4   0 or 1
    attributes             int8     5   bits 0-1 codec: 1 gzip, 2 snappy; in magic 1 only
    crc                    uint32       CRC-32 of the value
    value                  all remaining bytes

There are no keys, timestamps or nulls. The value of a compressed message is a sequence of messages in the same format.
They all have the address of the compressed message. (Kafka 0.7's `Message`, `FileMessageSet` and `CompressionUtils`.)
"""

from binascii import crc32
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from minibroker_protocol.errors import (
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedCodecError,
    UnsupportedMagicError,
)
from minibroker_protocol.records.compression import MAX_DECOMPRESSED_SIZE, decompress
from minibroker_protocol.records.header import CompressionCodec

_SIZE: Final = Struct(">i")
_CRC: Final = Struct(">I")
_HEADER_SIZES: Final = (5, 6)
"""The number of bytes between the size and the value, indexed by magic."""
_CODEC_BITS: Final = 0x03
_CODECS: Final = (CompressionCodec.NONE, CompressionCodec.GZIP, CompressionCodec.SNAPPY)


class Kafka07Message(NamedTuple):
    """A message with its value as stored. The value of a compressed message is compressed.

    `position` is the address of the message, or of the compressed message that contains it. `wrapper_codec` is the
    codec of that compressed message, or NONE.
    """

    position: int
    magic: int
    codec: CompressionCodec
    crc: int
    value: bytes
    wrapper_codec: CompressionCodec = CompressionCodec.NONE

    @property
    def is_valid(self) -> bool:
        """Whether the stored checksum matches the value."""
        return crc32(self.value) == self.crc


def iter_messages(
    buffer: bytes | bytearray | memoryview, *, base_position: int = 0, deep: bool = True
) -> Iterator[Kafka07Message]:
    """Yield each message of a 0.7 log file whose first byte has the address `base_position`.

    If `deep` is true, a compressed message is replaced by the messages inside it. A truncated last message ends the
    iteration without an error. Checksums are not verified.

    Raises:
        CorruptRecordError: a message size is invalid.
        UnsupportedMagicError: the magic is above 1.
        UnsupportedCodecError: the codec does not exist.
        InvalidRecordError: a compressed message cannot be decompressed, is empty, or contains another compressed
            message.
    """
    view = memoryview(buffer)
    end = len(view)
    position = 0
    while end - position >= _SIZE.size:
        (size,) = _SIZE.unpack_from(view, position)
        location = f"byte {base_position + position}"
        if size < _HEADER_SIZES[0]:
            raise CorruptRecordError(f"message size: {size} at {location}")
        if size > end - position - _SIZE.size:
            return
        start = position + _SIZE.size
        message = _read_message(view[start : start + size], base_position + position, location)
        if deep and message.codec is not CompressionCodec.NONE:
            yield from _inner_messages(message, location)
        else:
            yield message
        position = start + size


def _read_message(message: memoryview, position: int, location: str) -> Kafka07Message:
    magic = message[0]
    if magic >= len(_HEADER_SIZES):
        raise UnsupportedMagicError(f"magic: {magic} at {location}, which Kafka 0.7 does not know")
    header_size = _HEADER_SIZES[magic]
    if len(message) < header_size:
        raise CorruptRecordError(f"message size: {len(message)} at {location}, less than magic {magic} takes")
    codec_id = message[1] & _CODEC_BITS if magic else 0
    if codec_id >= len(_CODECS):
        raise UnsupportedCodecError(f"attributes: unknown compression codec {codec_id} at {location}")
    (crc,) = _CRC.unpack_from(message, header_size - _CRC.size)
    return Kafka07Message(position, magic, _CODECS[codec_id], crc, bytes(message[header_size:]))


def _inner_messages(wrapper: Kafka07Message, location: str) -> Iterator[Kafka07Message]:
    data = decompress(wrapper.codec, wrapper.value, max_size=MAX_DECOMPRESSED_SIZE)
    is_empty = True
    for message in iter_messages(data, deep=False):
        if message.codec is not CompressionCodec.NONE:
            raise InvalidRecordError(f"value: a compressed message in the compressed one at {location}")
        is_empty = False
        yield message._replace(position=wrapper.position, wrapper_codec=wrapper.codec)
    if is_empty:
        raise InvalidRecordError(f"value: no message in the compressed one at {location}")
