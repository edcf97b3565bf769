"""The option `schemas`: values with a schema id become structs."""

import json
import pickle
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from minibroker import Broker
from minibroker_pipeline.log_directories.partition_logs import LogNameError
from minibroker_pipeline.query_options import OptionError
from minibroker_pipeline.source.data_source import MinibrokerDataSource
from minibroker_registry.http_source import HttpSource
from minibroker_registry.values import UnavailableError, UndecodableError, Values
from tests.pipeline.producing import Message, produce
from tests.pipeline.source.directories import orders
from tests.programs import run_to_success
from tests.registry.rest import Rest
from tests.registry.schemas import ID, INCOMPATIBLE, V1, V2, record


@pytest.fixture(scope="module")
def served() -> Iterator[Broker]:
    with Broker(registry=True) as broker:
        yield broker


@pytest.fixture
def broker(served: Broker) -> Broker:
    served.reset()
    return served


class Topics:
    """Writes values with schemas, and reads them as Spark's planner and workers do."""

    def __init__(self, broker: Broker, rest: Rest) -> None:
        self.broker = broker
        self.rest = rest
        self.values = Values(HttpSource(broker.registry_url))

    def write(self, text: str, *values: object, kind: str = "AVRO", topic: str = "orders") -> int:
        """Register a schema, and write values with it."""
        subject = f"{topic}-value"
        id_ = self.rest.register(subject, text, schemaType=kind)
        self.write_bytes(*(self.values.encode(value, subject) for value in values), topic=topic)
        return id_

    def write_bytes(self, *values: bytes | None, topic: str = "orders") -> None:
        produce(self.broker.bootstrap_servers, topic, map(Message, values))

    def source(self, schemas: str = "true", **options: str) -> MinibrokerDataSource:
        if schemas == "URL":
            schemas = self.broker.registry_url
        return MinibrokerDataSource({"path": str(self.broker.data_dir), "schemas": schemas, **options})

    def rows(self, schemas: str = "true", **options: str) -> list[dict[str, Any]]:
        """Return all rows, without the columns of every query."""
        source = self.source(schemas, **options)
        reader = pickle.loads(pickle.dumps(source)).reader(source.schema())
        tasks = reader.partitions()
        batches = [batch for task in tasks for batch in pickle.loads(pickle.dumps(reader)).read(task)]
        return [row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict")]

    def decoded(self, schemas: str = "true", **options: str) -> list[Any]:
        options.setdefault("topics", "orders")
        return [row["decoded"] for row in self.rows(schemas, **options)]

    def type(self, **options: str) -> str:
        return self.source(topics="orders", **options).schema()["decoded"].dataType.simpleString()


@pytest.fixture
def topics(broker: Broker) -> Iterator[Topics]:
    broker.create_topic("orders")
    with Rest(broker.registry_url) as rest:
        yield Topics(broker, rest)


@pytest.mark.parametrize("schemas", ["true", "topic", "URL"])
def test_values_of_earlier_and_later_schemas_have_the_latest_type(topics: Topics, schemas: str) -> None:
    topics.write(V1, {"id": 1})
    topics.write(V2, {"id": 2, "note": "a"})
    topics.write_bytes(None)
    assert topics.type() == "struct<id:bigint,note:string>"
    assert topics.decoded(schemas) == [{"id": 1, "note": ""}, {"id": 2, "note": "a"}, None]


AVRO = {
    "type": "record",
    "name": "All",
    "namespace": "n",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "small", "type": "int"},
        {"name": "ratio", "type": "float"},
        {"name": "data", "type": "bytes"},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
        {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 2}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "exact", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "counts", "type": {"type": "map", "values": {"type": "record", "name": "Count", "fields": [ID]}}},
        {"name": "wide", "type": ["int", "long"]},
        {"name": "nothing", "type": ["null", "Count"]},
    ],
}
MILLIS = 1_700_000_000_123
ALL = {
    "flag": True,
    "small": -5,
    "ratio": 0.5,
    "data": "a\u00ff",
    "color": "BLUE",
    "code": "\u0001\u0002",
    "price": (-12_345_678_901_234_567_890_123_456_789).to_bytes(13, "big", signed=True).decode("latin-1"),
    "day": 19_000,
    "at": MILLIS,
    "exact": MILLIS * 1000 + 7,
    "local": MILLIS,
    "time": 1000,
    "uuid": "u",
    "tags": ["a", None],
    "counts": {"k": {"id": 2**60}},
    "wide": 2**40,
    "nothing": None,
}


def test_avro_has_the_types_and_the_values_of_from_avro(topics: Topics, spark: SparkSession) -> None:
    text = json.dumps(AVRO)
    topics.write(text, ALL)
    reader = spark.read.format("minibroker").options(topics="orders", schemas="true")
    frame = reader.load(str(topics.broker.data_dir))
    expression = f"from_avro(substring(value, 6), '{text}')"
    (row,) = frame.selectExpr("decoded", f"{expression} AS expected").collect()
    assert row.decoded == row.expected
    ours, expected = frame.selectExpr("decoded", f"{expression} AS decoded").schema
    assert ours.dataType.simpleString() == expected.dataType.simpleString()


def test_from_avro_reads_what_confluents_serializer_has_written(topics: Topics, spark: SparkSession) -> None:
    orders: list[dict[str, Any]] = [{"id": 7, "note": "é"}, {"id": -(2**62), "note": None}]
    text = record(ID, {"name": "note", "type": ["null", "string"]})
    with SchemaRegistryClient({"url": topics.broker.registry_url}) as client:
        serialize, context = AvroSerializer(client, text), SerializationContext("orders", MessageField.VALUE)
        topics.write_bytes(*(serialize(order, context) for order in orders))
    reader = spark.read.format("minibroker").options(topics="orders", schemas="true")
    frame = reader.load(str(topics.broker.data_dir)).orderBy("offset")
    rows = frame.selectExpr("decoded", f"from_avro(substring(value, 6), '{text}') AS expected").collect()
    assert [row.decoded.asDict() for row in rows] == [row.expected.asDict() for row in rows] == orders


@pytest.mark.torture
def test_sql_and_streams_have_the_column(topics: Topics, spark: SparkSession, tmp_path: Path) -> None:
    topics.write(V1, {"id": 1}, {"id": 2})
    options = {"topics": "orders", "schemas": topics.broker.registry_url}
    listed = ", ".join(f"{name} '{value}'" for name, value in {**options, "path": topics.broker.data_dir}.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders USING minibroker OPTIONS ({listed})")
    assert spark.sql("SELECT decoded.id FROM orders WHERE decoded.id > 1").collect() == [(2,)]
    spark.catalog.dropTempView("orders")

    def run() -> None:
        stream = spark.readStream.format("minibroker").options(startingOffsets="earliest", **options)
        frame = stream.load(str(topics.broker.data_dir)).select("decoded.*")
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "table"))
        assert query.awaitTermination(100)

    run()
    topics.write(V2, {"id": 3, "note": "a"})
    topics.write_bytes(b"\0" + topics.rest.get("/subjects/orders-value/versions/1")["id"].to_bytes(4, "big") + b"\x08")
    run()
    table = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "table"))
    assert table.orderBy("id").collect() == [(1, None), (2, None), (3, "a"), (4, "")]


JSON = {
    "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}}},
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["string", "null"]},
        "state": {"type": "string", "enum": ["new", "paid"]},
        "where": {"$ref": "#/$defs/point"},
        "whole": {"allOf": [{"$ref": "#/$defs/point"}, {"properties": {"y": {"type": "boolean"}}}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "parent": {"$ref": "#"},
        "any": {"type": ["string", "integer"]},
        "more": {"type": "object"},
    },
}


def test_json_schema_has_types(topics: Topics) -> None:
    value = {
        "id": 1,
        "name": None,
        "state": "new",
        "where": {"x": 1, "z": 2},
        "whole": {"x": 0.5, "y": True},
        "tags": ["a"],
        "counts": {"k": 3},
        "parent": {"id": 2},
        "any": 5,
        "more": {"k": [None]},
        "unknown": 1,
    }
    topics.write(json.dumps(JSON), value, {"any": "text", "id": 2.0}, kind="JSON")
    assert topics.type() == (
        "struct<id:bigint,name:string,state:string,where:struct<x:double>,whole:struct<x:double,y:boolean>,"
        "tags:array<string>,counts:map<string,bigint>,parent:string,any:string,more:string>"
    )
    first, second = topics.decoded()
    expected = {**value, "where": {"x": 1.0}, "parent": '{"id": 2}', "any": "5", "more": '{"k": [null]}'}
    assert first == {name: expected[name] for name in first}
    assert {name: value for name, value in second.items() if value is not None} == {"id": 2, "any": "text"}


PROTOBUF = """
syntax = "proto3";
package p;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
message Order {
  int32 id = 1;
  uint64 large = 2;
  bytes data = 3;
  Color color = 4;
  google.protobuf.Timestamp at = 5;
  google.protobuf.Int64Value wrapped = 6;
  google.protobuf.Struct free = 7;
  repeated Line lines = 8;
  map<int32, string> names = 9;
  Order parent = 10;
  optional double ratio = 11;
  int64 wide = 12;
  message Line { string article = 1; }
}
enum Color { RED = 0; BLUE = 1; }
message Other { int32 id = 1; }
"""


def test_protobuf_has_types_and_defaults(topics: Topics) -> None:
    value = {
        "id": 1,
        "large": 2**64 - 1,
        "data": "/w==",
        "color": "BLUE",
        "at": "2024-05-17T12:00:00.123456Z",
        "wrapped": 5,
        "free": {"k": 1},
        "lines": [{"article": "tea"}],
        "names": {7: "seven"},
        "parent": {"id": 2},
        "ratio": "NaN",
        "wide": -(2**63),
    }
    topics.write(PROTOBUF, value, {}, kind="PROTOBUF")
    assert topics.type() == (
        "struct<id:int,large:decimal(20,0),data:binary,color:string,at:timestamp,wrapped:bigint,free:string,"
        "lines:array<struct<article:string>>,names:map<int,string>,parent:string,ratio:double,wide:bigint>"
    )
    first, second = topics.decoded()
    assert first.pop("ratio") != first
    parent = json.loads(first.pop("parent"))
    assert (parent["id"], parent["color"]) == (2, "RED")
    assert first == {
        "id": 1,
        "large": Decimal(2**64 - 1),
        "data": b"\xff",
        "color": "BLUE",
        "at": datetime(2024, 5, 17, 12, 0, 0, 123456, UTC),
        "wrapped": 5,
        "free": '{"k": 1.0}',
        "lines": [{"article": "tea"}],
        "names": {7: "seven"},
        "wide": -(2**63),
    }
    assert second == {
        **dict.fromkeys(("at", "wrapped", "free", "parent", "ratio")),
        "id": 0,
        "large": 0,
        "data": b"",
        "color": "RED",
        "lines": [],
        "names": {},
        "wide": 0,
    }


def test_protobuf_fields_belong_together_by_their_numbers(topics: Topics) -> None:
    topics.write(
        'syntax = "proto3"; message A { int32 id = 1; string gone = 2; }', {"id": 7, "gone": "x"}, kind="PROTOBUF"
    )
    topics.write('syntax = "proto3"; message A { int64 number = 1; }', {"number": 8}, kind="PROTOBUF")
    assert topics.decoded() == [{"number": 7}, {"number": 8}]
    payload = (
        topics.values.encode({"id": 1}, "other-value")
        if topics.rest.register("other-value", PROTOBUF, schemaType="PROTOBUF")
        else b""
    )
    topics.write_bytes(payload)
    (*_, last) = topics.rows(topics="orders", mode="permissive")
    assert last["decoded"] is None
    assert last["undecodable"].endswith("it is a message p.Order, not A")


def test_several_topics_have_a_struct_each(topics: Topics) -> None:
    for topic in ("people", "plain"):
        topics.broker.create_topic(topic)
    topics.write(V1, {"id": 1})
    topics.write('"string"', "Ada", topic="people")
    topics.write_bytes(b"no schema", topic="plain")
    rows = topics.rows(topics="orders,people,plain")
    assert {row["topic"]: row["decoded"] for row in rows} == {
        "orders": {"orders": {"id": 1}, "people": None},
        "people": {"orders": None, "people": "Ada"},
        "plain": None,
    }


def test_broken_values_are_null_with_a_reason_or_an_error(topics: Topics) -> None:
    id_ = topics.write(V2, {"id": 1, "note": "a"})
    topics.rest.put("/config/orders-value", {"compatibility": "NONE"})
    prefix = b"\0" + id_.to_bytes(4, "big")
    topics.write(INCOMPATIBLE, {"id": 2, "customer": "b"})
    topics.write_bytes(b"text", b"\0\0\0\0\x63\x02", prefix, prefix + b"\x02\x02a\0")
    rows = topics.rows(topics="orders", mode="permissive")
    assert [row["decoded"] for row in rows] == [None, {"id": 2, "customer": "b"}, None, None, None, None]
    assert [row["undecodable"] for row in rows][1] is None
    for row, reason in zip(
        rows[:1] + rows[2:],
        (
            f"The value has the id {id_}, but not the type of the column: No default value for field customer",
            "The value does not begin with a schema id",
            "No schema has the id 99",
            f"The payload does not fit the schema with the id {id_}",
            f"The payload does not fit the schema with the id {id_}",
        ),
        strict=True,
    ):
        assert row["undecodable"].startswith(reason)
    with pytest.raises(UndecodableError, match=r"orders-0, offset 0: The value has the id .*mode=permissive"):
        topics.rows(topics="orders")


@pytest.mark.parametrize("mode", ["permissive", "failfast"])
def test_a_registry_that_fails_is_an_error_and_makes_no_value_null(mode: str, topics: Topics) -> None:
    id_ = topics.write(V1, {"id": 1})
    topics.write(V2, {"id": 2, "note": "a"})
    with (
        topics.broker.fault(api=f"GET /schemas/ids/{id_}", error=503),
        pytest.raises(UnavailableError, match=r"^The registry at http://\S+ answered 503: "),
    ):
        topics.rows("URL", topics="orders", mode=mode)


def test_a_value_that_arrow_refuses_is_null_with_a_reason(topics: Topics) -> None:
    topics.write('{"type":"object","properties":{"id":{"type":"integer"}}}', {"id": 1}, {"id": 2**63}, kind="JSON")
    first, second = topics.rows(topics="orders", mode="permissive")
    assert (first["decoded"], first["undecodable"]) == ({"id": 1}, None)
    assert second["decoded"] is None
    assert "too large" in second["undecodable"]


def test_errors_of_the_option(topics: Topics) -> None:
    with pytest.raises(LogNameError, match="no topic '_schemas'"):
        topics.source().schema()
    topics.rest.register("other-value", V1)
    for schemas, pattern in (
        ("true", "schemas: There is no schema of the subject 'orders-value'"),
        ("URL", "schemas: The registry at http.* 404: Subject 'orders-value' not found"),
        ("http://127.0.0.1:1", "schemas: The registry at http://127.0.0.1:1 cannot be asked"),
        ("yes", "schemas: 'yes': expected one of true, false, topic"),
    ):
        with pytest.raises(OptionError, match=pattern):
            topics.source(schemas, topics="orders").schema()


def test_without_a_column_that_needs_it_no_schema_is_read(topics: Topics) -> None:
    topics.write_bytes(b"a")
    source = topics.source("http://127.0.0.1:1", topics="orders")
    schema = StructType().add("offset", "long")
    reader = source.reader(schema)
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    assert [batch.to_pylist() for batch in batches if isinstance(batch, pa.RecordBatch)] == [[{"offset": 0}]]


LOADED = """
import sys
from minibroker_pipeline.source.data_source import MinibrokerDataSource

source = MinibrokerDataSource({"path": sys.argv[1]})
reader = source.reader(source.schema())
assert [batch for task in reader.partitions() for batch in reader.read(task)]
loaded = [name for name in sys.modules if name.startswith(("minibroker_registry", "fastavro"))]
assert not loaded, loaded
"""


def test_without_the_option_nothing_of_the_registry_is_loaded(tmp_path: Path) -> None:
    orders(tmp_path / "data")
    run_to_success([sys.executable, "-c", LOADED, str(tmp_path / "data")])
