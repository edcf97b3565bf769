"""Protobuf schemas as descriptors, which the runtime decodes with and which clients register."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from google.protobuf import descriptor_pb2 as pb
from google.protobuf import message_factory, text_encoding, text_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message as ProtobufMessage

from minibroker_registry import protobuf_elements as elements
from minibroker_registry.protobuf_elements import Value, Word, join_name, map_types
from minibroker_registry.protobuf_names import SCALARS, Names, decimal
from minibroker_registry.protobuf_printer import value_text

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

_LABELS: Final = {
    "": pb.FieldDescriptorProto.LABEL_OPTIONAL,
    "optional": pb.FieldDescriptorProto.LABEL_OPTIONAL,
    "required": pb.FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": pb.FieldDescriptorProto.LABEL_REPEATED,
}


_Messages: TypeAlias = "RepeatedCompositeFieldContainer[pb.DescriptorProto]"


class _Builder:
    """The state of one build_descriptor() call."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.is_proto3 = names.own.syntax == "proto3"
        self.custom: list[tuple[ProtobufMessage, elements.Option, str]] = []

    def file(self, proto: pb.FileDescriptorProto, paths: Sequence[str]) -> None:
        own = self.names.own
        if own.syntax == "proto3":
            proto.syntax = own.syntax
        if own.package:
            proto.package = own.package
        for kind, path in own.imports:
            if path not in paths or path in proto.dependency:
                continue
            if kind == "public":
                proto.public_dependency.append(len(proto.dependency))
            elif kind == "weak":
                proto.weak_dependency.append(len(proto.dependency))
            proto.dependency.append(path)
        self.members(own.members, proto, own.package)
        for service in own.services:
            self.service(service, proto.service.add(), own.package)
        self.options(proto, own.options, own.package)

    def members(
        self, members: Iterable[object], proto: pb.FileDescriptorProto | pb.DescriptorProto, scope: str
    ) -> None:
        """Add the members of a file or a message, whose full name is the scope."""
        nested = proto.message_type if isinstance(proto, pb.FileDescriptorProto) else proto.nested_type
        for member in members:
            if isinstance(member, elements.Message):
                self.message(member, nested.add(), scope)
            elif isinstance(member, elements.Enum):
                self.enum(member, proto.enum_type.add(), scope)
            elif isinstance(member, elements.Extend):
                extendee = "." + self.names.resolve(member.name, scope, f"extend {member.name}").name
                for field in member.fields:
                    self.field(field, proto.extension.add(extendee=extendee), nested, scope)
            elif isinstance(proto, pb.DescriptorProto) and isinstance(member, elements.Field):
                self.field(member, proto.field.add(), nested, scope)
            elif isinstance(proto, pb.DescriptorProto) and isinstance(member, elements.OneOf):
                index = len(proto.oneof_decl)
                self.options(proto.oneof_decl.add(name=member.name), member.options, scope)
                for field in member.fields:
                    self.field(field, proto.field.add(oneof_index=index), nested, scope)

    def message(self, message: elements.Message, proto: pb.DescriptorProto, scope: str) -> None:
        scope = join_name(scope, message.name)
        proto.name = message.name
        self.members(message.members, proto, scope)
        _add_own_one_ofs(proto)
        _add_reserved(proto, message.reserved, beyond=1)
        for extensions in message.extensions:
            for values in extensions.ranges:
                self.options(proto.extension_range.add(start=values[0], end=values[-1] + 1), extensions.options, scope)
        self.options(proto, message.options, scope)

    def field(self, field: elements.Field, proto: pb.FieldDescriptorProto, nested: "_Messages", scope: str) -> None:
        proto.name, proto.number, proto.label = field.name, field.tag, _LABELS[field.label]
        if self.is_proto3 and field.label == "optional":
            proto.proto3_optional = True
        types = map_types(field.type)
        if field.group is not None:
            proto.name = field.name.lower()
            proto.type, proto.type_name = pb.FieldDescriptorProto.TYPE_GROUP, "." + join_name(scope, field.group.name)
            self.message(field.group, nested.add(), scope)
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
        is_enum = isinstance(found.element, elements.Enum)
        proto.type = pb.FieldDescriptorProto.TYPE_ENUM if is_enum else pb.FieldDescriptorProto.TYPE_MESSAGE
        proto.type_name = "." + found.name

    def enum(self, enum: elements.Enum, proto: pb.EnumDescriptorProto, scope: str) -> None:
        proto.name = enum.name
        for constant in enum.constants:
            self.options(proto.value.add(name=constant.name, number=constant.number), constant.options, scope)
        _add_reserved(proto, enum.reserved, beyond=0)
        self.options(proto, enum.options, scope)

    def service(self, service: elements.Service, proto: pb.ServiceDescriptorProto, scope: str) -> None:
        proto.name = service.name
        user = join_name(scope, service.name)
        for rpc in service.rpcs:
            method = proto.method.add(name=rpc.name)
            method.input_type = "." + self.names.resolve(rpc.request, scope, user).name
            method.output_type = "." + self.names.resolve(rpc.response, scope, user).name
            if rpc.streams_request:
                method.client_streaming = True
            if rpc.streams_response:
                method.server_streaming = True
            self.options(method, rpc.options, scope)
        self.options(proto, service.options, scope)

    def options(self, proto: Any, options: Iterable[elements.Option], scope: str) -> None:
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


def _add_reserved(
    proto: pb.DescriptorProto | pb.EnumDescriptorProto,
    statements: Iterable[Iterable[elements.Range | str]],
    beyond: int,
) -> None:
    """Add reserved names and numbers. Ranges of messages end one number beyond the last."""
    for statement in statements:
        for values in statement:
            if isinstance(values, str):
                proto.reserved_name.append(values)
            else:
                proto.reserved_range.add(start=values[0], end=values[-1] + beyond)


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
    if isinstance(value, elements.Option):
        inner = f"[{value.name}]" if value.parenthesized else value.name
        return f"{name} {{{_text_format(inner, value.value)}}}"
    return f"{name}: {value_text(value)} "
