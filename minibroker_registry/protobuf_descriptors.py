"""Protobuf schemas as descriptors, which the runtime decodes with and which clients register, and back."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from google.protobuf import descriptor_pb2 as pb
from google.protobuf import message_factory, text_encoding, text_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message as ProtobufMessage

from minibroker_registry.protobuf_elements import (
    Element,
    File,
    Option,
    Range,
    Value,
    Word,
    join_name,
    map_types,
    value_text,
)
from minibroker_registry.protobuf_names import SCALARS, Names, decimal
from minibroker_registry.protobuf_text import unescape
from minibroker_registry.schema import InvalidSchemaError

_LABELS: Final = {
    "": pb.FieldDescriptorProto.LABEL_OPTIONAL,
    "optional": pb.FieldDescriptorProto.LABEL_OPTIONAL,
    "required": pb.FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": pb.FieldDescriptorProto.LABEL_REPEATED,
}


class _Builder:
    """The state of one build_descriptor() call. The argument `scope` is the full name of what contains an element."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.is_proto3 = names.own.syntax == "proto3"
        self.custom: list[tuple[ProtobufMessage, Option, str]] = []

    def file(self, proto: pb.FileDescriptorProto, paths: Iterable[str]) -> None:
        own = self.names.own
        if own.syntax == "proto3":
            proto.syntax = own.syntax
        if own.name:
            proto.package = own.name
        for kind, path in own.imports:
            if path not in paths or path in proto.dependency:
                continue
            if kind == "public":
                proto.public_dependency.append(len(proto.dependency))
            elif kind == "weak":
                proto.weak_dependency.append(len(proto.dependency))
            proto.dependency.append(path)
        self.members(own, proto, own.name)

    def block(self, block: Element, proto: Any, scope: str) -> None:
        """Set the descriptor of a message, an enum or a service."""
        proto.name = block.name
        self.members(block, proto, join_name(scope, block.name) if block.kind == "message" else scope)
        if block.kind == "message":
            _add_own_one_ofs(proto)

    def members(self, block: Element, proto: Any, scope: str) -> None:
        """Add the members and the options of a file, a message, an enum or a service to its descriptor."""
        nested: Any = getattr(proto, "message_type" if block.kind == "file" else "nested_type", None)
        for member in block.members:
            match member.kind:
                case "message":
                    self.block(member, nested.add(), scope)
                case "enum":
                    self.block(member, proto.enum_type.add(), scope)
                case "service":
                    self.block(member, proto.service.add(), scope)
                case "extend":
                    extendee = self.names.full_name(member.name, scope, f"extend {member.name}")
                    for field in member.members:
                        self.field(field, proto.extension.add(extendee=extendee), nested, scope)
                case "oneof":
                    index = len(proto.oneof_decl)
                    self.options(proto.oneof_decl.add(name=member.name), member.options, scope)
                    for field in member.members:
                        self.field(field, proto.field.add(oneof_index=index), nested, scope)
                case "constant":
                    self.options(proto.value.add(name=member.name, number=member.number), member.options, scope)
                case "rpc":
                    self.rpc(member, proto.method.add(name=member.name), scope, join_name(scope, block.name))
                case "reserved" | "extensions":
                    self.ranges(member, proto, scope, beyond=block.kind == "message")
                case _:
                    self.field(member, proto.field.add(), nested, scope)
        self.options(proto, block.options, scope)

    def ranges(self, element: Element, proto: Any, scope: str, *, beyond: int) -> None:
        """Add reserved names and numbers, or ranges of extensions. In a message they end one number beyond the last."""
        ranges = proto.reserved_range if element.kind == "reserved" else proto.extension_range
        for values in element.ranges:
            if isinstance(values, str):
                proto.reserved_name.append(values)
            else:
                self.options(ranges.add(start=values[0], end=values[-1] + beyond), element.options, scope)

    def rpc(self, rpc: Element, proto: pb.MethodDescriptorProto, scope: str, user: str) -> None:
        proto.input_type = self.names.full_name(rpc.type.removeprefix("stream "), scope, user)
        proto.output_type = self.names.full_name(rpc.returns.removeprefix("stream "), scope, user)
        if rpc.type.startswith("stream "):
            proto.client_streaming = True
        if rpc.returns.startswith("stream "):
            proto.server_streaming = True
        self.options(proto, rpc.options, scope)

    def field(self, field: Element, proto: pb.FieldDescriptorProto, nested: Any, scope: str) -> None:
        proto.name, proto.number, proto.label = field.name, field.number, _LABELS[field.label]
        if self.is_proto3 and field.label == "optional":
            proto.proto3_optional = True
        types = map_types(field.type)
        if field.kind == "group":
            proto.name = field.name.lower()
            proto.type, proto.type_name = pb.FieldDescriptorProto.TYPE_GROUP, "." + join_name(scope, field.name)
            self.block(field.members[0], nested.add(), scope)
        elif types is not None:
            entry = nested.add()
            entry.name, entry.options.map_entry = _map_entry_name(field.name), True
            proto.label = pb.FieldDescriptorProto.LABEL_REPEATED
            proto.type, proto.type_name = pb.FieldDescriptorProto.TYPE_MESSAGE, "." + join_name(scope, entry.name)
            for number, name in enumerate(("key", "value"), 1):
                part = entry.field.add(name=name, number=number, label=_LABELS["optional"])
                self.field_type(types[number - 1], part, scope)
        else:
            self.field_type(field.type, proto, scope)
        for option in field.options:
            value = option.special()
            if value is not None and option.name == "default":
                proto.default_value = _default_text(value, field.type)
            elif value is not None:
                proto.json_name = value
        self.options(proto, [option for option in field.options if option.special() is None], scope)

    def field_type(self, written: str, proto: pb.FieldDescriptorProto, scope: str) -> None:
        if written in SCALARS:
            proto.type = pb.FieldDescriptorProto.Type.Value(f"TYPE_{written.upper()}")
            return
        found = self.names.resolve(written, scope, join_name(scope, proto.name))
        is_enum = found.element.kind == "enum"
        proto.type = pb.FieldDescriptorProto.TYPE_ENUM if is_enum else pb.FieldDescriptorProto.TYPE_MESSAGE
        proto.type_name = "." + found.name

    def options(self, proto: Any, options: Iterable[Option], scope: str) -> None:
        """Set the options of an element. Custom ones wait until all elements are there."""
        for option in options:
            if option.parenthesized:
                self.custom.append((proto.options, option, scope))
            else:
                _set_option(proto.options, option.name, option.value, None)


def build_descriptor(
    path: str, names: Names, dependencies: Mapping[str, pb.FileDescriptorProto]
) -> pb.FileDescriptorProto:
    """Return the descriptor of a schema.

    Options that do not exist, or whose values do not fit, are left out, and so are imports of unknown files.

    Args:
        path: The name of the file in the descriptor.
        names: The names that the schema can refer to.
        dependencies: The files that the schema imports, and those that they import, dependencies first.

    Raises:
        InvalidSchemaError: a type is neither defined nor imported.
    """
    proto = pb.FileDescriptorProto(name=path)
    builder = _Builder(names)
    builder.file(proto, list(dependencies))
    if builder.custom:
        pool = build_pool([*dependencies.values(), proto])
        for options, option, scope in builder.custom:
            extension = names.find_extension(option.name, scope)
            if extension is not None:
                _set_option(options, f"[{extension.name}]", option.value, pool)
    return proto


def build_pool(files: Iterable[pb.FileDescriptorProto]) -> DescriptorPool:
    """Return a pool of files.

    Raises:
        ValueError: the files contradict one another, or a field number is used twice.
    """
    pool = DescriptorPool()
    for file in files:
        try:
            pool.AddSerializedFile(file.SerializeToString())  # pyright: ignore[reportUnknownMemberType] - untyped result
        except TypeError as reason:
            raise ValueError(f"The schema contradicts itself: {reason}") from reason
    return pool


def _add_own_one_ofs(proto: pb.DescriptorProto) -> None:
    """Give each optional field of proto3 a oneof of its own, after the oneofs of the text."""
    optional = [field for field in proto.field if field.proto3_optional]
    names = {field.name for field in proto.field} | {one_of.name for one_of in proto.oneof_decl}
    for field in optional:
        name = field.name if field.name.startswith("_") else f"_{field.name}"
        while name in names:
            name = f"X{name}"
        names.add(name)
        field.oneof_index = len(proto.oneof_decl)
        proto.oneof_decl.add(name=name)


def _map_entry_name(field: str) -> str:
    """Return the name of the message that protoc makes for a map's entries."""
    return "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"


def _default_text(default: str, kind: str) -> str:
    """Return a default as descriptors have it: numbers in decimal notation, and bytes with escapes."""
    if not isinstance(default, Word):
        return text_encoding.CEscape(default.encode("utf-8", "surrogateescape"), False) if kind == "bytes" else default
    try:
        return str(float(default)) if kind in ("float", "double") else decimal(default)
    except ValueError:
        return default


def _set_option(options: ProtobufMessage, name: str, value: Value, pool: DescriptorPool | None) -> None:
    """Add an option to those of an element, unless it does not exist or the value does not fit.

    Args:
        options: The options of the element.
        name: The option's name, in brackets if it is an extension.
        value: The value.
        pool: The pool that knows the extension, or None for an option of Protobuf's own.
    """
    *outer, last = name.split(".") if pool is None else [name]
    text = "".join(f"{part} {{" for part in outer) + _text_format(last, value) + "}" * len(outer)
    try:
        if pool is None:
            text_format.Merge(text, options)
        else:
            custom = message_factory.GetMessageClass(pool.FindMessageTypeByName(options.DESCRIPTOR.full_name))()
            text_format.Merge(text, custom, descriptor_pool=pool)
            options.MergeFromString(custom.SerializeToString(deterministic=True))
    except (text_format.ParseError, KeyError, ValueError):
        return


def _text_format(name: str, value: Value) -> str:
    """Return a field in the text format."""
    if isinstance(value, Option):
        inner = f"[{value.name}]" if value.parenthesized else value.name
        return f"{name} {{{_text_format(inner, value.value)}}}"
    return f"{name}: {value_text(value)} "


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
