"""Messages of Kafka 0.7, from before there were offsets; for showing what an old log file holds, not for serving it.

A file is a row of messages. What addresses one is the byte at which it starts; the file's name is that of its first.

    message size           int32    0   bytes that follow this field
    magic                  int8     4   0 or 1
    attributes             int8     5   bits 0-1 codec: 1 gzip, 2 snappy; in magic 1 only
    crc                    uint32       CRC-32 of the value
    value                  the rest

There is no key, no timestamp and no null. A compressed message holds as its value a row of messages like the file's,
and all of them are addressed by its own position. (Kafka 0.7's `Message`, `FileMessageSet` and `CompressionUtils`.)
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
"""Bytes between size and value, by magic."""
_CODEC_BITS: Final = 0x03
_CODECS: Final = (CompressionCodec.NONE, CompressionCodec.GZIP, CompressionCodec.SNAPPY)


class Kafka07Message(NamedTuple):
    """One message, with its value as it is stored: of a compressed one, compressed.

    `position` is the byte at which it starts, or at which the message that it came out of does. `wrapper_codec` is
    NONE unless it came out of a compressed one.
    """

    position: int
    magic: int
    codec: CompressionCodec
    crc: int
    value: bytes
    wrapper_codec: CompressionCodec = CompressionCodec.NONE

    @property
    def is_valid(self) -> bool:
        """Whether the stored checksum is that of the value."""
        return crc32(self.value) == self.crc


def iter_messages(
    buffer: bytes | bytearray | memoryview, *, base_position: int = 0, deep: bool = True
) -> Iterator[Kafka07Message]:
    """Each message of a 0.7 log file whose first byte has the address `base_position`.

    A `deep` iteration gives the messages in a compressed one in its stead. A last message that is cut short ends the
    iteration without an error. No checksum is looked at. `CorruptRecordError` for a size that no message has,
    `UnsupportedMagicError`, `UnsupportedCodecError`, and `InvalidRecordError` for one that does not decompress or holds
    no message or a compressed one.
    """
    view = memoryview(buffer)
    end = len(view)
    position = 0
    while end - position >= _SIZE.size:
        (size,) = _SIZE.unpack_from(view, position)
        where = f"byte {base_position + position}"
        if size < _HEADER_SIZES[0]:
            raise CorruptRecordError(f"message size: {size} at {where}")
        if size > end - position - _SIZE.size:
            return
        start = position + _SIZE.size
        message = _read(view[start : start + size], base_position + position, where)
        if deep and message.codec is not CompressionCodec.NONE:
            yield from _inner_messages(message, where)
        else:
            yield message
        position = start + size


def _read(message: memoryview, position: int, where: str) -> Kafka07Message:
    magic = message[0]
    if magic >= len(_HEADER_SIZES):
        raise UnsupportedMagicError(f"magic: {magic} at {where}, which Kafka 0.7 does not know")
    header_size = _HEADER_SIZES[magic]
    if len(message) < header_size:
        raise CorruptRecordError(f"message size: {len(message)} at {where}, less than magic {magic} takes")
    codec_id = message[1] & _CODEC_BITS if magic else 0
    if codec_id >= len(_CODECS):
        raise UnsupportedCodecError(f"attributes: unknown compression codec {codec_id} at {where}")
    (crc,) = _CRC.unpack_from(message, header_size - _CRC.size)
    return Kafka07Message(position, magic, _CODECS[codec_id], crc, bytes(message[header_size:]))


def _inner_messages(wrapper: Kafka07Message, where: str) -> Iterator[Kafka07Message]:
    data = decompress(wrapper.codec, wrapper.value, max_size=MAX_DECOMPRESSED_SIZE)
    is_empty = True
    for message in iter_messages(data, deep=False):
        if message.codec is not CompressionCodec.NONE:
            raise InvalidRecordError(f"value: a compressed message in the compressed one at {where}")
        is_empty = False
        yield message._replace(position=wrapper.position, wrapper_codec=wrapper.codec)
    if is_empty:
        raise InvalidRecordError(f"value: no message in the compressed one at {where}")
