"""Protobuf schemas: imports, descriptors, payloads, and limits."""

import re
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from minibroker_registry.protobuf import ProtobufSchema, parse
from minibroker_registry.protobuf_text import MAX_TOKENS
from minibroker_registry.schema import InvalidSchemaError
from tests.sweeps import one_in

_ORDER = """
    syntax = "proto3";
    package shop;
    import "item.proto";
    import "google/protobuf/timestamp.proto";
    message Order {
      string id = 1;
      repeated shop.items.Item items = 2;
      google.protobuf.Timestamp created = 3;
      map<string, int64> totals = 4;
      optional bytes note = 5;
      oneof payment { int32 card = 6; string iban = 7; }
      State state = 8;
      message Line { message Part { uint32 number = 1; } Part part = 1; }
      enum State { NEW = 0; PAID = 1; }
    }
    message Refund { double amount = 1; }
"""
_ITEM = 'syntax = "proto3"; package shop.items; message Item { string sku = 1; }'


def _order() -> ProtobufSchema:
    return parse(_ORDER, {"item.proto": _ITEM})


def test_a_payload_is_decoded_as_it_was_encoded() -> None:
    value = {
        "id": "a",
        "items": [{"sku": "x"}],
        "created": "2026-01-02T03:04:05Z",
        "totals": {"EUR": "5"},
        "note": "AAE=",
        "card": 4,
        "state": "PAID",
    }
    payload = _order().encode(value)
    assert payload[0] == 0
    assert _order().decode(payload) == value


def test_fields_without_presence_are_in_the_value_though_they_are_not_set() -> None:
    assert _order().decode(b"\0") == {"id": "", "items": [], "totals": {}, "state": "NEW"}


@pytest.mark.parametrize(
    ("name", "indexes"),
    [
        (None, b"\0"),
        ("shop.Order", b"\0"),
        ("Refund", b"\2\2"),
        ("Order.Line", b"\4\0\0"),
        ("shop.Order.Line.Part", b"\6\0\0\0"),
    ],
)
def test_message_indexes_name_the_type(name: str | None, indexes: bytes) -> None:
    schema = _order()
    payload = schema.encode({}, name)
    assert payload == indexes
    assert schema.decode(payload) is not None
    assert payload == b"\0" or "id" not in str(schema.decode(payload))


def test_the_first_message_may_be_written_with_its_index() -> None:
    assert _order().decode(b"\2\0\n\1a") == _order().decode(b"\0\n\1a")


def test_an_index_may_take_several_bytes() -> None:
    schema = parse(
        'syntax = "proto3";' + "".join(f"message M{index} {{ int32 f{index} = 1; }}" for index in range(200)), {}
    )
    payload = schema.encode({"f150": 3}, "M150")
    assert payload == b"\2\xac\2\x08\3"
    assert schema.decode(payload) == {"f150": 3}


def test_a_payload_of_kafkajs_has_no_indexes() -> None:
    assert _order().decode(_order().encode({"id": "abc", "card": 3})[1:]) == _order().decode(b"\0\n\3abc\x30\3")


@pytest.mark.parametrize("payload", [b"\0\xff", b"\2\6", b"\2", b"\4\0", b"\1", b"\xff\xff\xff\xff\xff\xff"])
def test_bytes_that_are_no_message_are_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match="The payload is not a message of this schema"):
        _order().decode(payload)


@pytest.mark.parametrize(
    ("name", "body"), [("Any", b"\x0a\3t/x"), ("Timestamp", b"\x08\xff\xff\xff\xff\xff\xff\xff\x7f")]
)
def test_a_value_without_a_json_form_is_refused(name: str, body: bytes) -> None:
    path = f"google/protobuf/{name.lower()}.proto"
    schema = parse(f'syntax = "proto3"; import "{path}"; message M {{ google.protobuf.{name} a = 1; }}', {})
    with pytest.raises(ValueError, match=r"The payload has a value without a JSON form|Timestamp"):
        schema.decode(b"\0\x0a" + bytes((len(body),)) + body)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"card": "x"}, "shop.Order.*card.*'x'"),
        ({"unknown": 1}, 'shop.Order.*no field named "unknown"'),
        ({"items": [{"sku": 5}]}, "shop.Order.*items"),
        ({"card": 2**31}, "shop.Order.*card.*2147483648"),
        ([], "A message of type shop.Order is an object with its fields"),
        (None, "A message of type shop.Order is an object with its fields"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_field(value: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        _order().encode(value)


def test_a_message_that_the_schema_lacks_cannot_be_encoded() -> None:
    with pytest.raises(ValueError, match=r"The schema has no message 'shop\.Nothing'"):
        _order().encode({}, "shop.Nothing")
    with pytest.raises(ValueError, match="The schema has no message"):
        parse("enum E { A = 0; }", {}).encode({})


def test_a_descriptor_in_base64_is_the_schema_of_its_text() -> None:
    schema = _order()
    again = parse(schema.formatted("serialized"), {"item.proto": _ITEM})
    assert again.normalized == schema.normalized
    assert "message TotalsEntry {\n    option map_entry = true;" in again.canonical
    assert again.incompatibilities(schema) == schema.incompatibilities(again) == []
    payload = schema.encode({"totals": {"EUR": 5}, "note": "AA=="})
    assert again.decode(payload) == schema.decode(payload)


def test_other_forms_are_the_canonical_text() -> None:
    assert _order().formatted("ignored") == _order().formatted("") == _order().canonical


def test_a_group_of_a_descriptor_stays_a_group() -> None:
    text = "message M { optional group G = 1 { optional int32 a = 1; } }"
    schema = parse(text, {})
    again = parse(schema.formatted("serialized"), {})
    assert again.canonical == schema.canonical
    assert again.encode({"g": {"a": 5}}) == b"\0\x0b\x08\5\x0c"


def test_confluents_options_of_a_descriptor_are_printed() -> None:
    text = """
        syntax = "proto3"; import "confluent/meta.proto";
        message M {
          bytes d = 1 [(confluent.field_meta) = { doc: "x" params: [{ key: "scale" value: "2" }] tags: "PII" }];
        }
    """
    printed = parse(parse(text, {}).formatted("serialized"), {}).canonical
    assert 'doc: "x",' in printed
    assert 'value: "2",\n        key: "scale"' in printed
    assert 'tags: [\n      "PII"\n    ]' in printed


@pytest.mark.parametrize("name", ["M-1", "", "é", "A" * 2000, "message M {"])
def test_a_descriptor_with_a_name_that_no_text_has_is_refused(name: str) -> None:
    proto = FileDescriptorProto(syntax="proto3")
    proto.message_type.add(name=name)
    with pytest.raises(InvalidSchemaError):
        parse(b64encode(proto.SerializeToString()).decode(), {})


def _with_wrong_one_of(proto: FileDescriptorProto) -> None:
    proto.message_type.add(name="M").field.add(name="a", number=1, type=5, label=1, oneof_index=3)


def _with_wrong_range(proto: FileDescriptorProto) -> None:
    proto.message_type.add(name="M").reserved_range.add(start=-5, end=3)


def _with_deep_messages(proto: FileDescriptorProto) -> None:
    message = proto.message_type.add(name="M")
    for _ in range(80):
        message = message.nested_type.add(name="M")


def _with_many_messages(proto: FileDescriptorProto) -> None:
    proto.MergeFromString(b"\x22\0" * 300_000)


def _with_many_imports(proto: FileDescriptorProto) -> None:
    proto.MergeFromString(b"\x1a\0\x50\1" * 150_000)


@contextmanager
def _few_calls() -> Iterator[None]:
    """Fail if the block calls more functions than a schema of the allowed size needs."""
    calls = 0

    def count(_: Any, event: str, __: Any) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)
    assert calls < 5_000_000


@pytest.mark.parametrize(
    "spoil",
    [
        _with_wrong_one_of,
        _with_wrong_range,
        _with_deep_messages,
        _with_many_messages,
        _with_many_imports,
    ],
)
def test_a_hostile_descriptor_is_refused_with_few_calls(spoil: Callable[[FileDescriptorProto], None]) -> None:
    proto = FileDescriptorProto(syntax="proto3")
    spoil(proto)
    text = b64encode(proto.SerializeToString()).decode()
    with _few_calls(), pytest.raises(InvalidSchemaError):
        parse(text, {})


def test_a_custom_option_is_in_the_descriptor() -> None:
    text = """
        syntax = "proto3"; import "google/protobuf/descriptor.proto";
        extend google.protobuf.FieldOptions { Rule rule = 50000; }
        message Rule { int32 low = 1; repeated string names = 2; }
        message M { int32 a = 1 [(rule) = { low: 3, names: ["x", "y"] }, (unknown) = 5, (rule).wrong = 1]; }
    """
    proto = FileDescriptorProto.FromString(b64decode(parse(text, {}).formatted("serialized")))
    assert proto.message_type[1].field[0].options.SerializeToString() == b"\x82\xb5\x18\x08\x08\3\x12\1x\x12\1y"


def test_an_import_that_is_missing_but_not_used_is_accepted() -> None:
    schema = parse('syntax = "proto3"; import "missing.proto"; message M { int32 a = 1; }', {})
    assert 'import "missing.proto";' in schema.canonical
    assert schema.decode(b"\0\x08\5") == {"a": 5}


def test_an_import_never_reads_a_file(tmp_path: pytest.TempPathFactory) -> None:
    path = f"{tmp_path}/secret.proto"
    with open(path, "w", encoding="utf-8") as file:
        file.write('syntax = "proto3"; message Secret {}')
    for name in (path, "google/../secret.proto", "google/type/secret.proto", "os.proto"):
        with pytest.raises(InvalidSchemaError, match="neither defined nor imported"):
            parse(f'syntax = "proto3"; import "{name}"; message M {{ Secret s = 1; }}', {})


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("google/type/money.proto", "google.type.Money"),
        ("google/type/datetime.proto", "google.type.DateTime"),
        ("google/protobuf/type.proto", "google.protobuf.Type"),
        ("google/protobuf/descriptor.proto", "google.protobuf.FileDescriptorProto"),
        ("confluent/type/decimal.proto", "confluent.type.Decimal"),
        ("confluent/meta.proto", "confluent.Meta"),
    ],
)
def test_known_files_need_no_reference(path: str, name: str) -> None:
    schema = parse(f'syntax = "proto3"; import "{path}"; message M {{ {name} a = 1; }}', {})
    assert schema.decode(b"\0") == {}
    assert schema.encode({"a": {}}) == b"\0\n\0"


def test_a_reference_takes_the_place_of_a_known_file() -> None:
    text = 'syntax = "proto3"; import "google/type/money.proto"; message M { google.type.Money m = 1; }'
    own = {"google/type/money.proto": 'syntax = "proto3"; package google.type; message Money { string text = 1; }'}
    assert parse(text, own).decode(b"\0\x0a\3\x0a\1x") == {"m": {"text": "x"}}


def test_a_reference_that_is_not_imported_does_no_harm() -> None:
    others = {"other.proto": 'syntax = "proto3"; import "missing.proto"; message Other { Missing m = 1; }'}
    assert parse('syntax = "proto3"; message M { int32 a = 1; }', others).decode(b"\0\x08\1") == {"a": 1}


def test_types_of_known_files_are_found_without_an_import() -> None:
    schema = parse('syntax = "proto3"; message M { google.protobuf.Any a = 1; google.type.Money m = 2; }', {})
    assert schema.canonical.count("import") == 0
    assert schema.decode(b"\0\x12\3\x0a\1x") == {"m": {"currencyCode": "x", "units": "0", "nanos": 0}}


def test_references_that_import_one_another_end() -> None:
    texts = {
        "a.proto": 'syntax = "proto3"; import "b.proto"; message A { B b = 1; }',
        "b.proto": 'syntax = "proto3"; import "a.proto"; message B { A a = 1; }',
    }
    schema = parse('syntax = "proto3"; import "a.proto"; message M { A a = 1; }', texts)
    assert schema.incompatibilities(schema) == []
    with pytest.raises(ValueError, match="The schema contradicts itself"):
        schema.decode(b"\0")


def test_a_schema_that_contradicts_itself_is_stored_but_not_decoded() -> None:
    """Confluent's registry stores it, too."""
    schema = parse('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', {})
    with pytest.raises(ValueError, match="The schema contradicts itself"):
        schema.decode(b"\0")


def _filled(head: str, element: str, tail: str = "") -> str:
    """Return a text of about as many elements as the limit of tokens leaves."""
    count = (MAX_TOKENS - 300) // len(re.findall(r"#|[.\w]+#?|'[^']*'|[^\w\s]", element))
    return head + "".join(element.replace("#", str(index)) for index in range(1, count)) + tail


_DEEP = "".join(f"message {'A' * 28}{depth:02d} {{ " for depth in range(31))
_HOSTILE: dict[str, Callable[[], str]] = {
    "ten megabytes": lambda: "a" * 10_000_000,
    "ten megabytes of base64": lambda: "A" * 10_000_000,
    "a megabyte of base64": lambda: "A" * 1_000_000,
    "semicolons": lambda: ";" * 1_000_000,
    "nested messages": lambda: "message M {" * 90_000,
    "nested lists": lambda: "option a = " + "[" * 900_000,
    "nested maps": lambda: "option a = " + "{a:" * 300_000,
    "a long path of an option": lambda: "option (a)" + ".(a)" * 200_000,
    "a string that does not end": lambda: 'option a = "' + "x" * 900_000,
    "a comment that does not end": lambda: "/*" + "*" * 900_000,
    "comments": lambda: "/**/" * 240_000,
    "comments that do not end": lambda: "/* " * 300_000,
    "strings": lambda: "option a = " + '"" ' * 300_000 + ";",
    "escapes": lambda: 'option a = "' + "\\x41" * 220_000 + '";',
    "a huge number": lambda: "enum E { A = 0x" + "f" * 900_000 + "; }",
    "a huge exponent": lambda: "option a = 1e999999999; option b = 1e-999999999;",
    "a long name": lambda: "message " + "A" * 900_000 + " {}",
    "a long package": lambda: "package a" + ".a" * 400_000 + ";",
    "a list": lambda: "option a = [" + "1," * 29_000 + "1];",
    "reserved numbers": lambda: "message M { reserved 1" + ",1" * 29_000 + "; }",
    "messages": lambda: _filled("", "message A#{}"),
    "fields": lambda: _filled('syntax="proto3";message A{', "A a#=#;", "}"),
    "maps": lambda: _filled('syntax="proto3";message A{', "map<string,A> a#=#;", "}"),
    "oneofs": lambda: _filled('syntax="proto3";message A{', "oneof a#{A b#=#;}", "}"),
    "constants": lambda: _filled("enum E{", "A#=#;", "}"),
    "imports": lambda: _filled("", 'import "a#";'),
    "options": lambda: _filled("", "option (a#)=1;"),
    "parts of an option": lambda: _filled('import "confluent/meta.proto";', "option (confluent.file_meta).tags='#';"),
    "more parts of an option": lambda: _filled('import "confluent/meta.proto";', "option (confluent.file_meta).a#=1;"),
    "extensions": lambda: _filled('syntax="proto3";message A{}', "extend A{A a#=1;}"),
    "methods": lambda: _filled('syntax="proto3";message A{}service S{', "rpc a#(A)returns(A);", "}"),
    "types found in the outermost scope": lambda: _filled(
        'syntax="proto3";' + _DEEP, "X a#=#;", "}" * 31 + "message X{}"
    ),
}


@pytest.mark.parametrize("case", one_in(8, _HOSTILE))
def test_a_hostile_schema_takes_few_calls(case: str) -> None:
    text = _HOSTILE[case]()
    with _few_calls(), suppress(InvalidSchemaError):
        schema = parse(text, {})
        schema.incompatibilities(schema)


@pytest.mark.torture
def test_hostile_schemas_take_less_than_200_megabytes() -> None:
    code = (
        "import resource\n"
        "from tests.registry import test_protobuf\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for make in test_protobuf._HOSTILE.values():\n"
        "    try:\n"
        "        test_protobuf.parse(make(), {})\n"
        "    except ValueError:\n"
        "        pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(run.stdout) * unit < 200_000_000
