"""Values with a schema id: decoded and encoded with schemas of a topic, or of a running registry."""

import dataclasses
import http.server
import socket
import struct
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator

import pytest

from minibroker import Broker
from minibroker_registry import records
from minibroker_registry.http_source import HttpSource
from minibroker_registry.records import Record, Version
from minibroker_registry.schema import Reference
from minibroker_registry.values import SchemaSource, TopicSource, UndecodableError, Values
from tests.registry.rest import Rest
from tests.registry.schemas import OTHER, V1, V2, record

JSON = '{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}'
PROTOBUF = 'syntax = "proto3"; package p; message A { int32 id = 1; } message B { message C { string s = 1; } }'
REFERRING = {
    "AVRO": ("a", OTHER, "Customer", record({"name": "customer", "type": "Customer"}), {"customer": {"id": 5}}),
    "JSON": ("j", JSON, "id.json", '{"items":{"$ref":"id.json"}}', [{"id": 5}]),
    "PROTOBUF": (
        "p",
        PROTOBUF,
        "p.proto",
        'syntax = "proto3"; import "p.proto"; message M { p.A a = 1; }',
        {"a": {"id": 5}},
    ),
}
VALUES = [
    ("AVRO", V1, None, {"id": 7}, b"\x0e"),
    ("JSON", JSON, None, {"id": 7}, b'{"id":7}'),
    ("PROTOBUF", PROTOBUF, None, {"id": 7}, b"\0\x08\x07"),
    ("PROTOBUF", PROTOBUF, "B.C", {"s": "x"}, b"\4\2\0\x0a\1x"),
]
FORMATS = [("AVRO", V1, b"\x0e"), ("JSON", JSON, b'{"id":7}'), ("PROTOBUF", PROTOBUF, b"\0\x08\x07")]


class Topic:
    """A topic in memory, of which each record is read once."""

    def __init__(self) -> None:
        self.new: list[Record] = []
        self.begins_anew = False

    def read(self) -> tuple[bool, Iterable[Record]]:
        begins_anew, new = self.begins_anew, self.new
        self.begins_anew, self.new = False, []
        return begins_anew, new

    def register(self, subject: str, number: int, id_: int, kind: str, text: str, *references: Reference) -> Version:
        version = Version(subject, number, id_, records.Content(kind, text, references))
        self.new.append(records.schema_record(version))
        return version


@pytest.fixture
def topic() -> Topic:
    return Topic()


@pytest.fixture
def values(topic: Topic) -> Values:
    return Values(TopicSource(topic.read))


Register = Callable[..., tuple[int, uuid.UUID]]


@pytest.fixture(params=["topic", "http"])
def source(request: pytest.FixtureRequest) -> Iterator[tuple[Register, SchemaSource]]:
    """A function that registers a schema as the first version of a subject, and a source that has it then."""
    if request.param == "topic":
        topic, ids = Topic(), iter(range(3, 100))

        def register(subject: str, kind: str, text: str, *references: Reference) -> tuple[int, uuid.UUID]:
            version = topic.register(subject, 1, next(ids), kind, text, *references)
            return version.id, uuid.UUID(version.content.guid)

        yield register, TopicSource(topic.read)
        return
    rest: Rest = request.getfixturevalue("rest")

    def post(subject: str, kind: str, text: str, *references: Reference) -> tuple[int, uuid.UUID]:
        given = [dataclasses.asdict(reference) for reference in references]
        id_ = rest.register(subject, text, schemaType=kind, references=given)
        path = f"/subjects/{subject}/versions/1"
        answer = rest.ask("GET", path, headers={"Confluent-Accept-Unknown-Properties": "true"})
        return id_, uuid.UUID(answer.body["guid"])

    yield post, HttpSource(rest.url)


@pytest.mark.parametrize(("kind", "text", "message", "value", "payload"), VALUES)
def test_a_value_is_encoded_and_decoded(
    kind: str, text: str, message: str | None, value: object, payload: bytes, source: tuple[Register, SchemaSource]
) -> None:
    register, schemas = source
    id_, _ = register("orders-value", kind, text)
    values = Values(schemas)
    data = values.encode(value, "orders-value", message=message)
    assert data == b"\0" + struct.pack(">i", id_) + payload
    assert Values.has_schema(data)
    assert values.decode(data) == value


@pytest.mark.parametrize(("kind", "text", "payload"), FORMATS)
@pytest.mark.parametrize("is_key", [False, True])
def test_a_header_names_the_schema(
    kind: str, text: str, payload: bytes, source: tuple[Register, SchemaSource], *, is_key: bool
) -> None:
    register, schemas = source
    id_, guid = register("orders-value", kind, text)
    name = "__key_schema_id" if is_key else "__value_schema_id"
    other = "__value_schema_id" if is_key else "__key_schema_id"
    indexes, body = (payload[:1], payload[1:]) if kind == "PROTOBUF" else (b"", payload)
    for header in (b"\1" + guid.bytes, b"\0" + struct.pack(">i", id_)):
        headers = [(name, b""), (other, b"\1"), (name, header + indexes)]
        assert Values.has_schema(body, headers, is_key=is_key)
        assert Values(schemas).decode(body, headers, is_key=is_key) == {"id": 7}


@pytest.mark.parametrize("kind", REFERRING)
def test_references_are_followed(kind: str, source: tuple[Register, SchemaSource]) -> None:
    register, schemas = source
    subject, referenced, name, text, value = REFERRING[kind]
    register(subject, kind, referenced)
    register("top", kind, text, Reference(name, subject, 1))
    values = Values(schemas)
    assert values.decode(values.encode(value, "top")) == value


def test_a_null_value_is_none(values: Values) -> None:
    assert values.decode(None) is None
    assert values.decode(None, [("__value_schema_id", b"\1" + bytes(16))]) is None


@pytest.mark.parametrize("data", [None, b"", b"\0\0\0\0", b"\1\0\0\0\1", b'{"id":7}'])
def test_data_without_an_id_has_no_schema(data: bytes | None, values: Values) -> None:
    assert not Values.has_schema(data)
    if data is not None:
        with pytest.raises(UndecodableError, match=r"^The key does not begin with a schema id$"):
            values.decode(data, is_key=True)


def test_what_is_not_there_is_named(source: tuple[Register, SchemaSource]) -> None:
    values = Values(source[1])
    with pytest.raises(UndecodableError, match=r"^No schema has the id 7$|answered 404: Schema 7 not found$"):
        values.decode(b"\0\0\0\0\7x")
    with pytest.raises(UndecodableError, match=r"00000000-0000-0000-0000-000000000000( not found)?$"):
        values.decode(b"x", [("__value_schema_id", b"\1" + bytes(16))])
    with pytest.raises(
        UndecodableError, match=r"^There is no schema of the subject 'a'|answered 404: Subject 'a' not found"
    ):
        values.encode({"id": 7}, "a")
    with pytest.raises(UndecodableError, match=r"The header with the schema id is not valid: 0500$"):
        values.decode(b"x", [("__value_schema_id", b"\5\0")])


def test_half_of_a_surrogate_pair_is_decoded_as_a_question_mark(topic: Topic, values: Values) -> None:
    topic.register("a", 1, 7, "JSON", "{}")
    assert values.decode(b'\0\0\0\0\7{"\\uD800":["\\udfff \\ud83d\\ude00"]}') == {"?": ["? \U0001f600"]}
    with pytest.raises(UndecodableError, match="The payload is not JSON"):
        values.decode(b'\0\0\0\0\7"\xed\xa0\x80"')


@pytest.mark.parametrize(("kind", "text", "payload"), FORMATS)
def test_a_broken_payload_is_refused_in_a_sentence(
    kind: str, text: str, payload: bytes, topic: Topic, values: Values
) -> None:
    topic.register("a", 1, 7, kind, text)
    for broken in (payload[:-1], payload + b"\xff"):
        with pytest.raises(UndecodableError, match=r"^The payload does not fit the schema with the id 7: "):
            values.decode(b"\0\0\0\0\7" + broken)
    with pytest.raises(ValueError, match="id"):
        values.encode({"id": "x"}, "a")


def test_a_schema_that_is_not_valid_is_named(topic: Topic, values: Values) -> None:
    topic.register("a", 1, 7, "AVRO", "{")
    topic.register("b", 1, 8, "AVRO", V1, Reference("x", "gone", 1))
    with pytest.raises(UndecodableError, match=r"^The schema with the id 7 is not valid: "):
        values.decode(b"\0\0\0\0\7")
    with pytest.raises(UndecodableError, match=r"^The latest schema of the subject 'b' is not valid: .*gone"):
        values.encode({"id": 7}, "b")


def test_later_records_of_the_topic_count(topic: Topic, values: Values) -> None:
    first = topic.register("a", 1, 7, "AVRO", V1)
    data = values.encode({"id": 1}, "a")
    second = topic.register("a", 2, 8, "AVRO", V2)
    assert values.encode({"id": 1}, "a") == b"\0\0\0\0\x08\2\0"
    topic.new.append(records.schema_record(records.deleted(second)))
    assert values.encode({"id": 1}, "a") == data
    assert values.decode(b"\0\0\0\0\x08\2\0") == {"id": 1, "note": ""}
    topic.new.append(records.subject_record("DELETE_SUBJECT", "a", {"version": 2}))
    assert values.decode(data) == {"id": 1}
    with pytest.raises(UndecodableError, match="no schema"):
        values.encode({"id": 1}, "a")
    topic.new += map(records.schema_tombstone, (first, second))
    with pytest.raises(UndecodableError, match="No schema has the id 7"):
        values.decode(data)
    topic.register("b", 1, 7, "AVRO", V1)
    assert values.decode(data) == {"id": 1}
    topic.begins_anew = True
    with pytest.raises(UndecodableError, match="No schema has the id 7"):
        values.decode(data)


def test_records_may_stand_in_the_order_that_compaction_leaves(topic: Topic, values: Values) -> None:
    topic.register("top", 1, 8, "AVRO", REFERRING["AVRO"][3], Reference("Customer", "a", 1))
    topic.new.append(records.subject_record("DELETE_SUBJECT", "a", {"version": 1}))
    topic.new.append(records.schema_tombstone(topic.register("gone", 1, 9, "AVRO", V1)))
    topic.register("a", 1, 7, "AVRO", OTHER)
    assert values.encode({"customer": {"id": 5}}, "top") == b"\0\0\0\0\x08\x0a"
    assert values.decode(b"\0\0\0\0\7\x0a") == {"id": 5}


def test_a_running_registry_is_read_with_a_log_in() -> None:
    config = {"minibroker.registry.token": "al@ice:se/cret"}
    with Broker(registry=True, config=config) as broker:
        url = broker.registry_url
        address = url.removeprefix("http://")
        for source in (
            HttpSource(f"http://al%40ice:se%2Fcret@{address}/"),
            HttpSource(url, "al@ice:se/cret"),
            HttpSource(f"{url}/apis/ccompat/v7", "al@ice:se/cret"),
        ):
            with pytest.raises(LookupError, match=f"^The registry at {source.url} answered 404: ") as caught:
                source.by_id(7)
            assert "cret" not in str(caught.value)
        with pytest.raises(LookupError, match="answered 401: Unauthorized"):
            HttpSource(url, "other").by_id(7)


def test_a_registry_keeps_its_contexts_apart(rest: Rest) -> None:
    rest.register(":.ctx:a", OTHER)
    reference = {"name": "Customer", "subject": "a", "version": 1}
    id_ = rest.register(":.ctx:top", REFERRING["AVRO"][3], references=[reference])
    values = Values(HttpSource(f"{rest.url}/contexts/.ctx"))
    data = values.encode({"customer": {"id": 5}}, "top")
    assert data == b"\0" + struct.pack(">i", id_) + b"\x0a"
    assert values.decode(data) == {"customer": {"id": 5}}


def test_a_registry_that_does_not_answer_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(LookupError, match=f"^The registry at http://127.0.0.1:{port} cannot be asked: ") as caught:
        HttpSource(f"http://alice:secret@127.0.0.1:{port}").by_id(7)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "registry:8081", "ftp://a", "http://:8081", "http://alice:pa/ss@a:8081"])
def test_a_url_that_is_none_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ValueError, match=r"^The URL of the registry is not http://HOST:PORT or https://HOST:PORT$"):
        HttpSource(url)


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"{}", b'{"schema":[]}', b"[" * 100_000])
def test_an_answer_without_a_schema_is_named(answer: bytes) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(LookupError, match=r"answered 200, and no schema$"):
            HttpSource(f"http://127.0.0.1:{server.server_port}").by_id(7)
        thread.join()
