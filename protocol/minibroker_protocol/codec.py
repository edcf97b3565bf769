"""Decodes and encodes messages, with one flat decoder and one flat encoder per (message class, version).

The decoders and encoders are generated on first use. The fields of a version are known when the code is generated, so
the code never checks versions. A run of fixed-size fields, together with the length that follows, becomes one `struct`
call. Nested structures become nested loops in the same function.

`compiler` explains the rules of the generated code, and its `generated_source()` returns that code.
"""

import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from minibroker_protocol import compiler
from minibroker_protocol.errors import DecodeError, EncodeError, ProtocolError, TooManyElementsError
from minibroker_protocol.primitives import WireType
from minibroker_protocol.schema import Splice, cached, fields_of, plain_fields

T = TypeVar("T")

Splices = list[tuple[int, Splice]]
"""Data to insert when the message is sent, as (position in the encoded bytes, splice) in ascending order."""


Decoder = Callable[[memoryview, int, int, int], tuple[Any, int]]
Encoder = Callable[[Any, bytearray, Splices], None]
ResponseEncoder = Callable[[Any, int, bytearray, Splices], None]
PlainDecoder = Callable[[memoryview, int, int], tuple[Any, ...] | None]

NO_LIMIT: Final = 1 << 62
"""More elements than any buffer can contain."""


# A broker decodes requests and encodes responses. Each direction is compiled separately, so the first request of an
# API waits for two compilations instead of four.
@cached
def decoder_for(cls: type[Any], version: int) -> Decoder:
    """Return the decoder used by `decode`, compiled on first use.

    Raises:
        ValueError: the message has no such version.
    """
    return compiler.compile_decoder(cls, version)


@cached
def encoder_for(cls: type[Any], version: int) -> Encoder:
    """Return the encoder used by `encode`, compiled on first use.

    Raises:
        ValueError: the message has no such version.
    """
    return compiler.compile_encoder(cls, version)


@cached
def response_encoder_for(cls: type[Any], version: int, *, flexible_header: bool) -> ResponseEncoder:
    """Return the encoder of whole response frames, compiled on first use.

    Raises:
        ValueError: the response has no such version.
    """
    return compiler.compile_encoder(cls, version, flexible_header=flexible_header)


@cached
def plain_codec_for(
    request: type[Any], response: type[Any], version: int, *, flexible_header: bool
) -> tuple[PlainDecoder, ResponseEncoder]:
    """Return a request decoder and a response encoder for the plain shape (see `compiler`)."""
    return compiler.compile_plain_codec(request, response, version, flexible_header=flexible_header)


def decode(
    cls: type[T], buffer: memoryview, version: int, position: int = 0, max_elements: int = NO_LIMIT
) -> tuple[T, int]:
    """Decode one message. Return the message and the position after it.

    Raises:
        DecodeError: the bytes are invalid; the error names the message, the version and the fault.
        TooManyElementsError: the arrays of the message have more than `max_elements` elements in total.
    """
    try:
        return decoder_for(cls, version)(buffer, position, len(buffer), max_elements)
    except UNDECODABLE as error:
        raise decode_error(cls, version, error, len(buffer) - position) from None


UNDECODABLE: Final = (DecodeError, struct.error, IndexError, UnicodeDecodeError)
"""Exceptions that decoders raise; `decode_error` turns them into a DecodeError."""


def decode_error(cls: type[Any], version: int, error: Exception, size: int) -> DecodeError:
    """Return a DecodeError for a message of `size` bytes. Its text names the message and the version."""
    if isinstance(error, UnicodeDecodeError):
        return DecodeError(f"{cls.__name__} v{version}: text that is not UTF-8: {error.reason}")
    if isinstance(error, TooManyElementsError):
        return TooManyElementsError(f"{cls.__name__} v{version}: {error}")
    if isinstance(error, DecodeError):
        return DecodeError(f"{cls.__name__} v{version}: {error}")
    return DecodeError(f"{cls.__name__} v{version}: cut short at {size} bytes")


def encode(value: object, version: int, out: bytearray, splices: Splices) -> None:
    """Append one message to `out`.

    Raises:
        EncodeError: the message cannot be encoded; the error names the message, the version and the fault.
    """
    cls = type(value)
    try:
        encoder_for(cls, version)(value, out, splices)
    except UNENCODABLE as error:
        raise EncodeError(f"{cls.__name__} v{version}: {error}") from error


UNENCODABLE: Final = (ProtocolError, struct.error, TypeError, AttributeError, UnicodeEncodeError)
"""Exceptions that encoders raise."""


def message_from_values(cls: type[T], values: Iterable[Any]) -> T:
    """Return the message with these plain-shape values."""
    values = iter(values)
    arguments: dict[str, Any] = {}
    for field in plain_fields(cls):
        if not field.is_array:
            arguments[field.name] = next(values)
        elif field.required:
            assert not isinstance(field.kind, WireType)
            arguments[field.name] = [message_from_values(field.kind, values)]
    return cls(**arguments)


def shallow_copy(message: T) -> T:
    """Return a copy of a message or structure that shares its lists and nested structures."""
    copy: T = _compile_copier(type(message))(message)
    return copy


@cached
def _compile_copier(cls: type[Any]) -> Callable[[Any], Any]:
    lines = ["def copy(message):", "    clone = new(cls)"]
    lines += [f"    clone.{field.name} = message.{field.name}" for field in fields_of(cls)]
    namespace: dict[str, Any] = {"cls": cls, "new": object.__new__}
    text = "\n".join([*lines, "    return clone"])
    exec(compile(text, f"<copy of {cls.__name__}>", "exec"), namespace)  # noqa: S102 - our own text
    copier: Callable[[Any], Any] = namespace["copy"]
    return copier
