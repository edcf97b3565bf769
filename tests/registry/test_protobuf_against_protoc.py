"""Descriptors of Protobuf schemas are those that protoc makes."""

import struct
from base64 import b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import google
import grpc_tools
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc
from hypothesis import given
from hypothesis import strategies as st

from minibroker_registry.protobuf import parse

_ROOTS: Final = [Path(grpc_tools.__file__).parent / "_proto", *(Path(path).parent for path in google.__path__)]
_PUBLISHED: Final = {
    path.relative_to(root).as_posix(): path
    for root in _ROOTS
    for path in sorted(root.glob("google/**/*.proto"))
    if not path.name.startswith("unittest")
}


def _compiled(path: str, roots: Iterable[Path], output: Path) -> list[FileDescriptorProto]:
    """Return the descriptors of a file and its imports, dependencies first."""
    places = [f"-I{root}" for root in roots]
    options = ["--include_imports", "--retain_options", f"--descriptor_set_out={output}"]
    assert protoc.main(["protoc", *places, *options, path]) == 0
    return list(FileDescriptorSet.FromString(output.read_bytes()).file)


def _make_comparable(fields: Iterable[FieldDescriptorProto]) -> None:
    """Remove the JSON names, which protoc adds, and write numbers in one way."""
    for field in fields:
        field.ClearField("json_name")
        if field.HasField("default_value") and field.type == field.TYPE_DOUBLE:
            field.default_value = repr(float(field.default_value))
        if field.HasField("default_value") and field.type == field.TYPE_FLOAT:
            field.default_value = struct.pack("f", float(field.default_value)).hex()


def _make_messages_comparable(messages: Iterable[DescriptorProto]) -> None:
    for message in messages:
        _make_comparable((*message.field, *message.extension))
        _make_messages_comparable(message.nested_type)


def _comparable(proto: FileDescriptorProto) -> str:
    """Return a descriptor without what protoc adds: JSON names, and options that are there but empty."""
    copy = FileDescriptorProto.FromString(proto.SerializeToString())
    copy.name = ""
    _make_comparable(copy.extension)
    _make_messages_comparable(copy.message_type)
    for service in copy.service:
        for method in service.method:
            if method.HasField("options") and not method.options.ByteSize():
                method.ClearField("options")
    return str(copy)


def _check(text: str, references: Mapping[str, str], wanted: FileDescriptorProto) -> None:
    schema = parse(text, references)
    assert _comparable(schema.descriptor) == _comparable(wanted)
    assert parse(schema.canonical, references).canonical == schema.canonical
    assert parse(schema.canonical, references).normalized == schema.normalized
    assert parse(schema.normalized, references).normalized == schema.normalized
    if wanted.message_type:
        assert schema.decode(b"\0") is not None


@pytest.mark.parametrize("path", _PUBLISHED)
def test_published_files_have_the_descriptors_of_protoc(path: str, tmp_path: Path) -> None:
    protos = _compiled(path, _ROOTS, tmp_path / "set")
    texts = {proto.name: _PUBLISHED[proto.name].read_text(encoding="utf-8") for proto in protos}
    _check(texts.pop(path), texts, protos[-1])


_SCALARS: Final = (
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
)


def _literal(value: bytes) -> str:
    return "'" + "".join(f"\\{byte:o}" if byte % 2 else f"\\x{byte:02x}" for byte in value) + "'"


_DEFAULTS: Final = {
    "double": st.floats().map(repr),
    "float": st.floats(width=32).map(repr),
    "bool": st.sampled_from(("true", "false")),
    "string": st.text(max_size=5).map(lambda text: _literal(text.encode("utf-8", "replace"))),
    "bytes": st.binary(max_size=5).map(_literal),
    "int32": st.integers(-(2**31), 2**31 - 1).map(str),
    "uint64": st.integers(0, 2**64 - 1).map(hex),
    "sfixed64": st.integers(0, 2**62).map(lambda number: f"0{number:o}"),
}


class _Writer:
    """Draws the elements of a schema. Each name is used once."""

    def __init__(self, draw: st.DrawFn, *, is_proto3: bool) -> None:
        self.draw = draw
        self.is_proto3 = is_proto3
        self.count = 0
        self.types: list[str] = ["google.protobuf.Any", ".google.protobuf.Any"]
        self.enums: list[str] = []

    def name(self, letter: str) -> str:
        self.count += 1
        return self.draw(
            st.sampled_from((f"{letter}{self.count}", f"{letter}_x{self.count}", f"{letter}{self.count}_y"))
        )

    def pick(self, *choices: str) -> str:
        return self.draw(st.sampled_from(choices))

    def options(self, kind: str, label: str) -> str:
        options = ["deprecated = true"] if self.draw(st.booleans()) else []
        if label == "repeated " and kind in ("int32", "bool", "double"):
            options.append("packed = " + self.pick("true", "false"))
        if not self.is_proto3 and label == "optional " and kind in _DEFAULTS and self.draw(st.booleans()):
            options.append(f"default = {self.draw(_DEFAULTS[kind])}")
        if self.draw(st.booleans()):
            options.append("(note) = { text: 'a' \"b\", numbers: [1, -2], inner { text: 'c' } }")
        if self.draw(st.booleans()):
            options.append("(note).inner.inner.text = 'd'")
        if self.draw(st.booleans()):
            options.append("(level) = HIGH")
        return f" [{', '.join(options)}]" if options else ""

    def field(self, tag: int, *, in_one_of: bool = False) -> str:
        kind = self.pick(*_SCALARS, *self.types, *self.enums)
        if in_one_of:
            return f"{kind} {self.name('f')} = {tag};"
        if self.draw(st.integers(0, 5)) == 0:
            value = self.pick(*_SCALARS, *self.types)
            return f"map<{self.pick('string', 'int32', 'bool')}, {value}> {self.name('m')} = {tag};"
        label = self.pick("optional ", "repeated ", "" if self.is_proto3 else "required ")
        if not self.is_proto3 and self.draw(st.integers(0, 5)) == 0:
            return f"{label}group G{self.name('g')} = {tag} {{ optional int32 a = 1; }}"
        return f"{label}{kind} {self.name('f')} = {tag}{self.options(kind, label)};"

    def message(self, depth: int, scope: str) -> str:
        name = self.name("M")
        inner = f"{scope}.{name}"
        tags = iter(self.draw(st.permutations(range(1, 9))))
        parts: list[str] = []
        types, enums = list(self.types), list(self.enums)
        for _ in range(self.draw(st.integers(0, 4))):
            choice = self.pick("field", "field", "oneof", "message", "enum", "reserved", "option")
            if choice == "field":
                parts.append(self.field(next(tags)))
            elif choice == "oneof":
                parts.append(f"oneof {self.name('o')} {{ {self.field(next(tags), in_one_of=True)} }}")
            elif choice == "message" and depth:
                parts.append(self.message(depth - 1, inner))
            elif choice == "enum":
                parts.append(self.enum(inner))
            elif choice == "reserved":
                first = 10 * len(parts) + 20
                parts.append(f"reserved {next(tags)}, {first} to {first + self.draw(st.integers(0, 9))};")
        # What is nested has a longer name outside of the message.
        self.types = [*types, f".{inner}", inner, *(kind for kind in self.types if kind not in types and "." in kind)]
        self.enums = [*enums, *(kind for kind in self.enums if kind not in enums and "." in kind)]
        return f"message {name} {{ {' '.join(parts)} }}"

    def enum(self, scope: str) -> str:
        name, constant = self.name("E"), self.name("C")
        self.enums += [f".{scope}.{name}", name] if scope == "a.b" else [f".{scope}.{name}"]
        other = self.draw(st.integers(-5 if not self.is_proto3 else 1, 9))
        constants = f"{constant} = 0; {constant}z = 0; {constant}b = {other};"
        return f"enum {name} {{ option allow_alias = true; {constants} reserved 100 to max; }}"


@st.composite
def _schemas(draw: st.DrawFn) -> str:
    is_proto3 = draw(st.booleans())
    label = "" if is_proto3 else "optional "
    writer = _Writer(draw, is_proto3=is_proto3)
    elements = [
        writer.enum("a.b") if draw(st.booleans()) else writer.message(2, "a.b") for _ in range(draw(st.integers(0, 4)))
    ]
    return f"""
        syntax = "proto{3 if is_proto3 else 2}"; package a.b;
        import "google/protobuf/descriptor.proto"; import public "google/protobuf/any.proto";
        message Note {{ {label}string text = 1; repeated int32 numbers = 2; {label}Note inner = 3; }}
        enum Level {{ LOW = 0; HIGH = 1; }}
        extend google.protobuf.FieldOptions {{ optional Note note = 50001; optional Level level = 50002; }}
        {" ".join(elements)}
        service S {{ rpc Call (stream Note) returns (a.b.Note) {{ option deprecated = true; }} }}
    """


@given(_schemas())
def test_random_schemas_have_the_descriptors_of_protoc(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("random")
    (folder / "schema.proto").write_text(text, encoding="utf-8")
    protos = _compiled("schema.proto", [folder, *_ROOTS], folder / "set")
    _check(text, {}, protos[-1])


def test_the_text_of_a_descriptor_has_that_descriptor(tmp_path: Path) -> None:
    """Clients register what protoc has made; only custom options are lost, as in Confluent's registry."""
    path = "google/protobuf/struct.proto"
    wanted = _compiled(path, _ROOTS, tmp_path / "set")[-1]
    again = parse(b64encode(wanted.SerializeToString()).decode(), {})
    assert _comparable(again.descriptor) == _comparable(wanted)
