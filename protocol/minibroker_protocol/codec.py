"""Decoding and encoding of messages: one flat decoder and one flat encoder per (message class, version).

They are generated on first use. What a version needs is known before the first byte arrives, so the generated functions
hold no decisions about versions: runs of fixed-size fields, together with the length that follows them, become one
`struct` call, nested structures become nested loops in the same function. `source()` shows what was generated.

The rules of the generated code stand in `compiler`.
"""

import struct
from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

from minibroker_protocol.compiler import compile_decoder, compile_encoder, compile_response_encoder, generated_source
from minibroker_protocol.errors import DecodeError, EncodeError, ProtocolError, TooManyElementsError
from minibroker_protocol.schema import Splice, schema_of

T = TypeVar("T")

Splices = list[tuple[int, Splice]]
"""Holes to fill when the message is sent: (position in the encoded bytes, what belongs there), in order."""


Decoder = Callable[[memoryview, int, int, int], tuple[Any, int]]
Encoder = Callable[[Any, bytearray, Splices], None]
ResponseEncoder = Callable[[Any, int, bytearray, Splices], None]
_SlicedDecoder = Callable[[memoryview, int, int, int], Generator[None, None, tuple[Any, int]]]
_SlicedEncoder = Callable[[Any, bytearray, Splices], Generator[None, None, None]]
_Version = tuple[type[Any], int]

NO_LIMIT: Final = 1 << 62
"""More elements than any buffer holds."""


# A broker decodes requests and encodes responses. So each direction is compiled by itself: the first request of an API
# waits for two of four functions.
_DECODERS: dict[_Version, Decoder] = {}
_ENCODERS: dict[_Version, Encoder] = {}
_RESPONSE_ENCODERS: dict[_Version, ResponseEncoder] = {}
_SLICED_DECODERS: dict[_Version, _SlicedDecoder] = {}
_SLICED_ENCODERS: dict[_Version, _SlicedEncoder] = {}


def decoder_for(cls: type[Any], version: int) -> Decoder:
    """The decoder behind `decode`, compiled on first use. ValueError for a version that the message does not have."""
    decoder = _DECODERS.get((cls, version))
    if decoder is None:
        decoder = _DECODERS[cls, version] = compile_decoder(_checked(cls, version), version)
    return decoder


def encoder_for(cls: type[Any], version: int) -> Encoder:
    """The encoder behind `encode`, compiled on first use. ValueError for a version that the message does not have."""
    encoder = _ENCODERS.get((cls, version))
    if encoder is None:
        encoder = _ENCODERS[cls, version] = compile_encoder(_checked(cls, version), version)
    return encoder


def response_encoder_for(cls: type[Any], version: int, *, flexible_header: bool) -> ResponseEncoder:
    """Return the encoder of whole response frames, compiled on first use.

    Raises:
        ValueError: The response has no such version.
    """
    encoder = _RESPONSE_ENCODERS.get((cls, version))
    if encoder is None:
        encoder = compile_response_encoder(_checked(cls, version), version, flexible_header=flexible_header)
        _RESPONSE_ENCODERS[cls, version] = encoder
    return encoder


def encode_response(
    response: object, version: int, correlation_id: int, out: bytearray, splices: Splices, *, flexible_header: bool
) -> None:
    """Append the frame of a response to `out`.

    Raises:
        EncodeError: The response has no form in this version; the message names it, its version and the fault.
    """
    cls = type(response)
    try:
        response_encoder_for(cls, version, flexible_header=flexible_header)(response, correlation_id, out, splices)
    except _UNENCODABLE as error:
        raise EncodeError(f"{cls.__name__} v{version}: {error}") from error


def decode(
    cls: type[T], buffer: memoryview, version: int, position: int = 0, most_elements: int = NO_LIMIT
) -> tuple[T, int]:
    """Decode one message.

    Returns (message, position after it). DecodeError names the message, the version and the fault;
    TooManyElementsError when the arrays of the message hold more than `most_elements` elements in all.
    """
    try:
        return decoder_for(cls, version)(buffer, position, len(buffer), most_elements)
    except _UNDECODABLE as error:
        raise _decode_error(cls, version, error, len(buffer) - position) from None


def decode_in_slices(
    cls: type[T], buffer: memoryview, version: int, position: int, most_elements: int
) -> Generator[None, None, tuple[T, int]]:
    """Decode one message as `decode` does, yielding now and then; `buffer` must outlive the last step."""
    sliced = _sliced_decoder_for(cls, version)
    try:
        return (yield from sliced(buffer, position, len(buffer), most_elements))
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
        encoder_for(cls, version)(value, out, splices)
    except _UNENCODABLE as error:
        raise EncodeError(f"{cls.__name__} v{version}: {error}") from error


def encode_in_slices(value: object, version: int, out: bytearray, splices: Splices) -> Generator[None, None, None]:
    """Append one message to `out` as `encode` does, yielding now and then."""
    cls = type(value)
    sliced = _sliced_encoder_for(cls, version)
    try:
        yield from sliced(value, out, splices)
    except _UNENCODABLE as error:
        raise EncodeError(f"{cls.__name__} v{version}: {error}") from error


_UNENCODABLE: Final = (ProtocolError, struct.error, TypeError, AttributeError, UnicodeEncodeError)


def source(cls: type[Any], version: int, *, sliced: bool = False) -> str:
    """The generated Python source of both functions, or of their sliced forms, for readers and tests."""
    return generated_source(cls, version, sliced=sliced)


def _sliced_decoder_for(cls: type[Any], version: int) -> _SlicedDecoder:
    decoder = _SLICED_DECODERS.get((cls, version))
    if decoder is None:
        decoder = compile_decoder(_checked(cls, version), version, sliced=True)
        _SLICED_DECODERS[cls, version] = decoder
    return decoder


def _sliced_encoder_for(cls: type[Any], version: int) -> _SlicedEncoder:
    encoder = _SLICED_ENCODERS.get((cls, version))
    if encoder is None:
        encoder = compile_encoder(_checked(cls, version), version, sliced=True)
        _SLICED_ENCODERS[cls, version] = encoder
    return encoder


def _checked(cls: type[Any], version: int) -> type[Any]:
    if version not in schema_of(cls).versions:
        raise ValueError(f"{cls.__name__} has no version {version}")
    return cls
