"""Protobuf schemas: parsing, compatibility, decoding and encoding."""

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Final, cast

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtobufMessage

from minibroker_protocol.errors import DecodeError as VarintError
from minibroker_protocol.records.varint import decode_varint, encode_varint
from minibroker_registry.protobuf_compatibility import find_incompatibilities
from minibroker_registry.protobuf_descriptors import build_descriptor, build_pool, read_descriptor
from minibroker_registry.protobuf_elements import Element, File, file_text, join_name
from minibroker_registry.protobuf_names import Names, normalize
from minibroker_registry.protobuf_text import MAX_TEXT_CHARACTERS, parse_file
from minibroker_registry.schema import InvalidSchemaError, Parsed

_GOOGLE: Final = {
    "protobuf": "any api descriptor duration empty field_mask source_context struct timestamp type wrappers",
    "type": "calendar_period color date datetime dayofweek decimal expr fraction interval latlng money month"
    " phone_number postal_address quaternion timeofday",
}
_META: Final = "confluent/meta.proto"
_CONFLUENT: Final = (_META, "confluent/type/decimal.proto", "confluent/type/variant.proto")
"""Files with what Confluent's clients may use, in the folder `known`."""
_KNOWN_PATHS: Final = dict.fromkeys(
    (*(f"google/{folder}/{name}.proto" for folder, names in _GOOGLE.items() for name in names.split()), *_CONFLUENT)
)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]++={0,2}")
_MAX_INDEXES: Final = 32
_PATH: Final = "default"
"""The name of a schema's own file in descriptors, as Confluent's registry names it."""


def parse(text: str, references: Mapping[str, str], *, is_new: bool = True) -> "ProtobufSchema":  # noqa: ARG001 - no mistakes are refused in new schemas only
    """Parse a schema: text, or a FileDescriptorProto in base64 as some clients register it.

    Raises:
        InvalidSchemaError: the text is not valid, or a type is neither defined nor imported.
    """
    files = {path: parse_file(text) for path, text in references.items()}
    return ProtobufSchema(_parse(text), files)


def _parse(text: str) -> File:
    try:
        return parse_file(text)
    except InvalidSchemaError:
        proto = _decode_descriptor(text)
        if proto is None:
            raise
    try:
        text = file_text(read_descriptor(proto))
    except (IndexError, ValueError) as reason:
        raise InvalidSchemaError(f"The descriptor is not valid: {reason}") from reason
    return parse_file(text)  # A descriptor can hold names that no text can.


def _decode_descriptor(text: str) -> FileDescriptorProto | None:
    """Return the descriptor in a text, or None if the text is none in base64."""
    if len(text) > MAX_TEXT_CHARACTERS or not _BASE64.fullmatch(text):
        return None
    try:
        return _descriptor_class().FromString(b64decode(text))
    except (binascii.Error, DecodeError):
        return None


class ProtobufSchema(Parsed):
    """A parsed Protobuf schema.

    Args:
        file: The schema.
        references: The files that the schema may import, by path.

    Attributes:
        names: The names that the schema can refer to.

    Raises:
        InvalidSchemaError: a type is neither defined nor imported.
    """

    def __init__(self, file: File, references: Mapping[str, File]) -> None:
        self.canonical = _checked_text(file)
        self._file = file
        self._files: dict[str, File] = {}
        self._collect(file.imports, references, set())
        self.names = Names(file, (*references.values(), *self._files.values()))
        try:
            normalized = normalize(self.names)
        except InvalidSchemaError:
            # Confluent's registry finds the types of known files also without an import.
            self._collect([("", path) for path in _KNOWN_PATHS], references, set(self._files))
            self.names = Names(file, (*references.values(), *self._files.values()))
            normalized = normalize(self.names)
        self.normalized = _checked_text(normalized)

    def _collect(self, imports: Iterable[tuple[str, str]], references: Mapping[str, File], seen: set[str]) -> None:
        """Collect the imported files that are known, and those that they import, dependencies first."""
        for _, path in imports:
            if path not in seen and (path in references or path in _KNOWN_PATHS):
                seen.add(path)
                file = references.get(path) or _known_file(path)
                self._collect(file.imports, references, seen)
                self._files[path] = file

    def record_name(self, payload: bytes) -> str | None:
        """Return the full name of a payload's message."""
        indexed = self._split(payload)
        return None if indexed is None else indexed[0]

    def field_names(self) -> set[str]:
        """Return the field names of all top-level messages."""
        return {field.name for message in self._file.only("message") for field, _ in message.fields()}

    def incompatibilities(self, writer: Parsed, *, lenient: bool = False) -> list[str]:  # noqa: ARG002 - for JSON Schema
        """Return why this schema cannot read data of `writer`, with Confluent's names for the kinds of differences."""
        assert isinstance(writer, ProtobufSchema)
        return find_incompatibilities(writer.names, self.names)

    def formatted(self, form: str) -> str:
        """Return the canonical text, or for `serialized` the FileDescriptorProto in base64."""
        return b64encode(self.descriptor.SerializeToString()).decode() if form == "serialized" else self.canonical

    @cached_property
    def dependencies(self) -> dict[str, FileDescriptorProto]:
        """The descriptors of the imported files, dependencies first."""
        built: dict[str, FileDescriptorProto] = {}
        for path, file in self._files.items():
            is_known = path in _KNOWN_PATHS and file is _known_file(path)
            names = Names(file, self._files.values())
            built[path] = _known_descriptor(path) if is_known else build_descriptor(path, names, built)
        return built

    @cached_property
    def descriptor(self) -> FileDescriptorProto:
        """The descriptor of the schema."""
        return build_descriptor(_PATH, self.names, self.dependencies)

    @cached_property
    def _pool(self) -> DescriptorPool:
        return build_pool([*self.dependencies.values(), self.descriptor])

    def decode(self, payload: bytes, *, with_branches: bool = False) -> object:  # noqa: ARG002 - for Avro
        """Return the message of a payload in Protobuf's JSON form, with fields without presence that are not set."""
        message = self.parse_message(payload)
        try:
            return json_format.MessageToDict(
                message, always_print_fields_with_no_presence=True, descriptor_pool=self._pool
            )
        except (json_format.Error, TypeError) as reason:  # A time out of range, or an Any of an unknown type.
            raise ValueError(f"The payload has a value without a JSON form: {reason}") from reason

    def parse_message(self, payload: bytes) -> ProtobufMessage:
        """Return the message of a payload.

        The payload begins with the indexes of the message's type. A payload that has none, such as one of kafkajs, is
        recognized if its bytes are not valid with them.

        Raises:
            ValueError: the payload is not a message of this schema.
        """
        for name, body in (self._split(payload) or (None, payload), (None, payload)):
            message = self.new_message(name)
            try:
                message.ParseFromString(body)
            except DecodeError:
                continue
            return message
        raise ValueError("The payload is not a message of this schema.")

    def encode(self, value: object, message: str | None = None) -> bytes:
        """Return the payload of a message in Protobuf's JSON form.

        Args:
            value: The message.
            message: The name of its type, with or without the package, or None for the first one of the schema.
        """
        indexes, name = self._find_message(message)
        result = self.new_message(name)
        if not isinstance(value, dict):
            raise ValueError(  # noqa: TRY004 - callers get ValueError for all values that do not fit
                f"A message of type {name} is an object with its fields, not {value!r:.80}."
            )
        try:
            json_format.ParseDict(cast("dict[str, object]", value), result, descriptor_pool=self._pool)
            body = result.SerializeToString()
        except Exception as reason:
            raise ValueError(f"The value does not fit {name}: {reason}") from reason
        prefix = b"\0" if indexes == (0,) else b"".join(map(encode_varint, (len(indexes), *indexes)))
        return prefix + body

    def new_message(self, name: str | None = None) -> ProtobufMessage:
        """Return an empty message of the type with a full name, by default of the first type.

        Raises:
            ValueError: the schema has no message, or contradicts itself.
        """
        try:
            descriptor = self._pool.FindMessageTypeByName(name or self._find_message(None)[1])
        except KeyError as reason:
            raise ValueError(f"The schema contradicts itself: {reason}") from reason
        return message_factory.GetMessageClass(descriptor)()

    def _split(self, payload: bytes) -> tuple[str, bytes] | None:
        """Return the full name of a payload's message and its bytes, or None if the indexes are not valid."""
        try:
            count, position = decode_varint(payload, 0)
            indexes = [] if count else [0]
            if not 0 <= count <= _MAX_INDEXES:
                return None
            for _ in range(count):
                index, position = decode_varint(payload, position)
                indexes.append(index)
        except VarintError:
            return None
        name = self._messages.get(tuple(indexes))
        return None if name is None else (name, payload[position:])

    @cached_property
    def _messages(self) -> dict[tuple[int, ...], str]:
        """The full names of the messages by indexes: those of the messages around it, and its own."""
        names: dict[tuple[int, ...], str] = {}
        todo: list[tuple[tuple[int, ...], str, Element]] = [((), self._file.name, self._file)]
        while todo:
            indexes, scope, element = todo.pop()
            for index, message in enumerate(element.only("message")):
                name = names[(*indexes, index)] = join_name(scope, message.name)
                todo.append(((*indexes, index), name, message))
        return names

    def _find_message(self, name: str | None) -> tuple[tuple[int, ...], str]:
        """Return the indexes and the full name of a message, given with or without the package, or of the first one.

        Raises:
            ValueError: the schema has no such message.
        """
        wanted = (name, join_name(self._file.name, name)) if name else (self._messages.get((0,)),)
        for indexes, full_name in self._messages.items():
            if full_name in wanted:
                return indexes, full_name
        raise ValueError(f"The schema has no message{f' {name!r}' if name else ''}.")


def _checked_text(file: File) -> str:
    """Return the text of a schema.

    Raises:
        InvalidSchemaError: the text is too long to be parsed again.
    """
    text = file_text(file)
    if len(text) > MAX_TEXT_CHARACTERS:
        raise InvalidSchemaError(
            f"The schema has {len(text)} characters when it is stored, more than {MAX_TEXT_CHARACTERS}."
        )
    return text


@cache
def _known_file(path: str) -> File:
    """Return a file that needs no reference."""
    if path in _CONFLUENT:
        return parse_file(Path(__file__).with_name("known").joinpath(path).read_text("utf-8"))
    return read_descriptor(_known_descriptor(path))


@cache
def _known_descriptor(path: str) -> FileDescriptorProto:
    """Return the descriptor of a file that needs no reference."""
    if path in _CONFLUENT:
        schema = ProtobufSchema(_known_file(path), {})
        return build_descriptor(path, schema.names, schema.dependencies)
    module = import_module(path.removesuffix(".proto").replace("/", ".") + "_pb2")
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


@cache
def _descriptor_class() -> type[FileDescriptorProto]:
    """Return a class for descriptors that knows the options of Confluent's files."""
    pool = build_pool(map(_known_descriptor, ("google/protobuf/descriptor.proto", _META)))
    descriptor = pool.FindMessageTypeByName(FileDescriptorProto.DESCRIPTOR.full_name)
    return cast("type[FileDescriptorProto]", message_factory.GetMessageClass(descriptor))
