"""Protobuf descriptors as elements of schemas, for clients that register descriptors."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as ProtobufMessage

from minibroker_registry.protobuf_elements import Element, File, Option, Range, Value, Word
from minibroker_registry.protobuf_tokens import unescape
from minibroker_registry.schema import InvalidSchemaError

MAX_ELEMENTS: Final = 20_000
"""Fields, types, imports and other elements of lists in a descriptor."""

_OPTION_ORDER: Final = {
    "java_multiple_files": 8.1,
    "java_generate_equals_and_hash": 8.2,
    "java_string_check_utf8": 8.3,
    "jstype": 2.5,
}
"""Where Confluent's registry prints options. All others are in the order of their numbers."""


def read_descriptor(proto: pb.FileDescriptorProto) -> File:
    """Return the elements of a descriptor, as Confluent's registry reads it.

    Type names are full, maps have their entry messages, and a file of an edition has no syntax.

    Raises:
        InvalidSchemaError: the descriptor is too large.
    """
    _check_size(proto)
    reader = _Reader(is_proto3=proto.syntax == "proto3")
    kinds = dict.fromkeys(proto.weak_dependency, "weak") | dict.fromkeys(proto.public_dependency, "public")
    return File(
        name=proto.package,
        syntax=proto.syntax if proto.syntax in ("proto2", "proto3") else "",
        imports=[(kinds.get(index, ""), path) for index, path in enumerate(proto.dependency)],
        options=_options_of(proto),
        members=[
            *(reader.message(message) for message in proto.message_type),
            *(_read_enum(enum) for enum in proto.enum_type),
            *reader.extends(proto.extension),
            *(_read_service(service) for service in proto.service),
        ],
    )


def _check_size(proto: ProtobufMessage) -> None:
    """Raise an InvalidSchemaError if the lists in a descriptor have too many elements, before they are read."""
    count = 0
    messages = [proto]
    while messages:
        for field, value in messages.pop().ListFields():
            count += len(value) if field.is_repeated else 0
            if count > MAX_ELEMENTS:
                raise InvalidSchemaError(f"The descriptor has more than {MAX_ELEMENTS} elements.")
            if field.message_type is not None and not _map_entry(field):
                messages.extend(value if field.is_repeated else [value])


def _map_entry(field: FieldDescriptor) -> Descriptor | None:
    """Return the type of a map's entries, or None for a field that is no map."""
    entry = field.message_type
    return entry if entry is not None and entry.GetOptions().map_entry else None


class _Reader:
    """The state of one read_descriptor() call."""

    def __init__(self, *, is_proto3: bool) -> None:
        self.is_proto3 = is_proto3

    def message(self, proto: pb.DescriptorProto) -> Element:
        one_ofs = [Element("oneof", one_of.name, options=_options_of(one_of)) for one_of in proto.oneof_decl]
        fields: list[Element] = []
        nested = {message.name: message for message in proto.nested_type}
        for field in proto.field:
            in_one_of = field.HasField("oneof_index") and not field.proto3_optional
            element = self.field(field, is_in_one_of=in_one_of)
            group = field.type_name.rpartition(".")[2]
            if field.type == pb.FieldDescriptorProto.TYPE_GROUP and group in nested:
                element.kind, element.type, element.name = "group", "group", group
                element.members = [self.message(nested.pop(group))]
            (one_ofs[field.oneof_index].members if in_one_of else fields).append(element)
        members = [
            *fields,
            *(one_of for one_of in one_ofs if one_of.members),
            *self.extends(proto.extension),
            *(self.message(message) for message in nested.values()),
            *(_read_enum(enum) for enum in proto.enum_type),
            *_read_reserved(proto, beyond=1),
            *(
                Element("extensions", ranges=[_read_range(values.start, values.end - 1)], options=_options_of(values))
                for values in proto.extension_range
            ),
        ]
        return Element("message", proto.name, members=members, options=_options_of(proto))

    def field(self, proto: pb.FieldDescriptorProto, *, is_in_one_of: bool) -> Element:
        label = pb.FieldDescriptorProto.Label.Name(proto.label)[len("LABEL_") :].lower()
        if is_in_one_of or (self.is_proto3 and label != "repeated" and not proto.proto3_optional):
            label = ""
        written = proto.type_name or pb.FieldDescriptorProto.Type.Name(proto.type)[len("TYPE_") :].lower()
        options = _options_of(proto)
        if proto.HasField("default_value") and not self.is_proto3:
            default = proto.default_value if written == "string" else Word(proto.default_value)
            options.append(Option("default", unescape(default) if written == "bytes" else default))
        if proto.HasField("json_name"):
            options.append(Option("json_name", proto.json_name))
        return Element("field", proto.name, written, proto.number, label, options)

    def extends(self, fields: Iterable[pb.FieldDescriptorProto]) -> Iterable[Element]:
        extends: dict[str, Element] = {}
        for field in fields:
            extend = extends.setdefault(field.extendee, Element("extend", field.extendee))
            extend.members.append(self.field(field, is_in_one_of=False))
        return extends.values()


def _read_enum(proto: pb.EnumDescriptorProto) -> Element:
    members = [
        Element("constant", value.name, number=value.number, options=_options_of(value)) for value in proto.value
    ]
    members += _read_reserved(proto, beyond=0)
    return Element("enum", proto.name, members=members, options=_options_of(proto))


def _read_service(proto: pb.ServiceDescriptorProto) -> Element:
    rpcs = [
        Element(
            "rpc",
            method.name,
            f"stream {method.input_type}" if method.client_streaming else method.input_type,
            returns=f"stream {method.output_type}" if method.server_streaming else method.output_type,
            options=_options_of(method),
        )
        for method in proto.method
    ]
    return Element("service", proto.name, members=rpcs, options=_options_of(proto))


def _read_reserved(proto: pb.DescriptorProto | pb.EnumDescriptorProto, beyond: int) -> list[Element]:
    ranges: list[Range | str] = [_read_range(r.start, r.end - beyond) for r in proto.reserved_range]
    return [Element("reserved", ranges=[value]) for value in (*ranges, *proto.reserved_name)]


def _read_range(first: int, last: int) -> Range:
    return (first,) if first == last else (first, last)


def _options_of(proto: Any) -> list[Option]:
    """Return the options of an element of a descriptor. Unknown extensions are left out."""
    options: list[Option] = []
    for field, value in sorted(proto.options.ListFields(), key=_option_order):
        name = field.full_name if field.is_extension else field.name
        values = value if field.is_repeated else [value]
        options.extend(Option(name, _read_value(field, element), field.is_extension) for element in values)
    return options


def _option_order(field_and_value: tuple[FieldDescriptor, object]) -> tuple[bool, float]:
    field = field_and_value[0]
    return field.is_extension, _OPTION_ORDER.get(field.name, field.number)


def _read_value(field: FieldDescriptor, value: Any) -> Value:
    if field.message_type is not None:
        return dict(_read_fields(value))
    if field.enum_type is not None:
        constant = field.enum_type.values_by_number.get(value)
        return Word(constant.name if constant else value)
    if isinstance(value, bool):
        return Word("true" if value else "false")
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value if isinstance(value, str) else Word(value)


def _read_fields(message: ProtobufMessage) -> Iterator[tuple[str, Value]]:
    """Yield the fields of a message in an option. The entries of a map are sorted."""
    for field, value in message.ListFields():
        name = f"[{field.full_name}]" if field.is_extension else field.name
        if entry := _map_entry(field):
            pairs: list[Value] = []
            for key in sorted(value):
                pair: dict[str, Value] = {
                    "key": _read_value(entry.fields_by_name["key"], key),
                    "value": _read_value(entry.fields_by_name["value"], value[key]),
                }
                # Confluent's registry begins with the values of these two.
                pairs.append(dict(reversed(pair.items())) if key in ("precision", "scale") else pair)
            yield name, pairs
        elif field.is_repeated:
            yield name, [_read_value(field, element) for element in value]
        else:
            yield name, _read_value(field, value)
