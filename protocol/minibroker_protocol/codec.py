"""Decoding and encoding of messages: one flat decoder and one flat encoder per (message class, version).

They are generated on first use. What a version needs is known before the first byte arrives, so the generated functions
hold no decisions about versions: runs of fixed-size fields, together with the length that follows them, become one
`struct` call, nested structures become nested loops in the same function. `source()` shows what was generated.

The rules of the generated code stand in `compiler`.
"""

import struct
from collections.abc import Callable, Generator
from typing import Any, Final, NamedTuple, TypeVar

from minibroker_protocol.compiler import compile_decoder, compile_encoder, generated_source
from minibroker_protocol.errors import DecodeError, EncodeError, ProtocolError, TooManyElementsError
from minibroker_protocol.schema import Splice, schema_of

T = TypeVar("T")

Splices = list[tuple[int, Splice]]
"""Holes to fill when the message is sent: (position in the encoded bytes, what belongs there), in order."""


class Codec(NamedTuple):
    """The two compiled functions of one message class in one version.

    `decode` and `encode` below are their safe doors.
    """

    decode: Callable[[memoryview, int, int, int], tuple[Any, int]]
    encode: Callable[[Any, bytearray, Splices], None]


class SlicedCodec(NamedTuple):
    """The same two functions as generators."""

    decode: Callable[[memoryview, int, int, int], Generator[None, None, tuple[Any, int]]]
    encode: Callable[[Any, bytearray, Splices], Generator[None, None, None]]


NO_LIMIT: Final = 1 << 62
"""More elements than any buffer holds."""


_CODECS: dict[tuple[type[Any], int], Codec] = {}
_SLICED_CODECS: dict[tuple[type[Any], int], SlicedCodec] = {}


def codec_for(cls: type[Any], version: int) -> Codec:
    """The codec of a message class in one version, compiled on first use. ValueError for a version it does not have."""
    codec = _CODECS.get((cls, version))
    if codec is None:
        codec = _CODECS[cls, version] = _compile(cls, version)
    return codec


def decode(
    cls: type[T], buffer: memoryview, version: int, position: int = 0, most_elements: int = NO_LIMIT
) -> tuple[T, int]:
    """Decode one message.

    Returns (message, position after it). DecodeError names the message, the version and the fault;
    TooManyElementsError when the arrays of the message hold more than `most_elements` elements in all.
    """
    try:
        return codec_for(cls, version).decode(buffer, position, len(buffer), most_elements)
    except _UNDECODABLE as error:
        raise _decode_error(cls, version, error, len(buffer) - position) from None


def decode_in_slices(
    cls: type[T], buffer: memoryview, version: int, position: int, most_elements: int
) -> Generator[None, None, tuple[T, int]]:
    """Decode one message as `decode` does, yielding now and then; `buffer` must outlive the last step."""
    sliced = _sliced_codec_for(cls, version)
    try:
        return (yield from sliced.decode(buffer, position, len(buffer), most_elements))
    except _UNDECODABLE as error:
        raise _decode_error(cls, version, error, len(buffer) - position) from None


_UNDECODABLE: Final = (DecodeError, struct.error, IndexError, UnicodeDecodeError)


def _decode_error(cls: type[Any], version: int, error: Exception, size: int) -> DecodeError:
    if isinstance(error, UnicodeDecodeError):
        return DecodeError(f"{cls.__name__} v{version}: text that is not UTF-8: {error.reason}")
    if isinstance(error, TooManyElementsError):
        return TooManyElementsError(f"{cls.__name__} v{version}: {error}")
    if isinstance(error, DecodeError):
        return DecodeError(f"{cls.__name__} v{version}: {error}")
    return DecodeError(f"{cls.__name__} v{version}: cut short at {size} bytes")


def encode(value: object, version: int, out: bytearray, splices: Splices) -> None:
    """Append one message to `out`. EncodeError names the message, the version and the fault."""
    cls = type(value)
    try:
        codec_for(cls, version).encode(value, out, splices)
    except _UNENCODABLE as error:
        raise EncodeError(f"{cls.__name__} v{version}: {error}") from error


def encode_in_slices(value: object, version: int, out: bytearray, splices: Splices) -> Generator[None, None, None]:
    """Append one message to `out` as `encode` does, yielding now and then."""
    cls = type(value)
    sliced = _sliced_codec_for(cls, version)
    try:
        yield from sliced.encode(value, out, splices)
    except _UNENCODABLE as error:
        raise EncodeError(f"{cls.__name__} v{version}: {error}") from error


_UNENCODABLE: Final = (ProtocolError, struct.error, TypeError, AttributeError, UnicodeEncodeError)


def source(cls: type[Any], version: int, *, sliced: bool = False) -> str:
    """The generated Python source of both functions, or of their sliced forms, for readers and tests."""
    return generated_source(cls, version, sliced=sliced)


def _compile(cls: type[Any], version: int) -> Codec:
    _check_version(cls, version)
    return Codec(compile_decoder(cls, version), compile_encoder(cls, version))


def _sliced_codec_for(cls: type[Any], version: int) -> SlicedCodec:
    codec = _SLICED_CODECS.get((cls, version))
    if codec is None:
        _check_version(cls, version)
        decoder, encoder = compile_decoder(cls, version, sliced=True), compile_encoder(cls, version, sliced=True)
        codec = _SLICED_CODECS[cls, version] = SlicedCodec(decoder, encoder)
    return codec


def _check_version(cls: type[Any], version: int) -> None:
    if version not in schema_of(cls).versions:
        raise ValueError(f"{cls.__name__} has no version {version}")
