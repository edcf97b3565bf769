"""Schemas that a broker starts with, and records that they encode."""

import json
from pathlib import Path
from typing import Any

import pytest

from minibroker import Broker
from minibroker.operations.seeding import SeedError
from tests.registry.rest import Rest
from tests.registry.schemas import INCOMPATIBLE, OTHER, V1, V2, record

PROTOBUF = 'syntax = "proto3"; message M { int32 a = 1; }'


def written(folder: Path, content: dict[str, Any], name: str = "seeds.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(content))
    return path


def test_schemas_are_registered_before_the_records_that_they_encode(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas/m.proto").write_text(PROTOBUF)
    referring = record({"name": "customer", "type": "Customer"})
    path = written(
        tmp_path,
        {
            "topics": [{"name": "orders", "records": [{"key": "a", "value": {"id": 7}, "schema": "orders-value"}]}],
            "schemas": [
                {"subject": "orders-value", "schema": json.loads(V1)},
                {"subject": "orders-value", "schema": V2, "compatibility": "full"},
                {"subject": "customer", "schema": OTHER},
                {"subject": "sale", "schema": referring, "references": [{"name": "Customer", "subject": "customer"}]},
                {"subject": "m", "file": "schemas/m.proto"},
                {"subject": "j", "schema": {"type": "object"}, "kind": "json"},
            ],
            "records": [
                {"topic": "m", "key": {"a": 5}, "key_schema": "m", "value": None, "schema": "m"},
                {"topic": "m", "value": {"base64": "AA=="}},
            ],
        },
    )
    with Broker(registry=True, seed_data=path) as broker, Rest(broker.registry_url) as rest:
        assert rest.get("/subjects") == ["customer", "j", "m", "orders-value", "sale"]
        assert rest.get("/subjects/orders-value/versions") == [1, 2]
        assert rest.get("/config/orders-value") == {"compatibilityLevel": "FULL"}
        assert rest.get("/subjects/sale/versions/1")["references"] == [
            {"name": "Customer", "subject": "customer", "version": 1}
        ]
        assert rest.get("/subjects/m/versions/1")["schemaType"] == "PROTOBUF"
        assert [(read.key, read.value) for read in broker.records("orders")] == [(b"a", b"\0\0\0\0\2\x0e\0")]
        assert [(read.key, read.value) for read in broker.records("m")] == [
            (b"\0\0\0\0\5\0\x08\5", None),
            (None, b"\0"),
        ]


def test_a_reset_brings_the_same_ids_and_no_id_of_another_schema(tmp_path: Path) -> None:
    path = written(tmp_path, {"schemas": [{"subject": "a", "schema": V1}, {"subject": "b", "schema": OTHER, "id": 40}]})
    with Broker(registry=True, seed_data=path) as broker, Rest(broker.registry_url) as rest:
        ids = [rest.get(f"/subjects/{subject}/versions/1")["id"] for subject in "ab"]
        assert ids == [1, 40]
        assert rest.register("c", '"string"') == 41
        for keep_schemas in (False, True):
            broker.reset(keep_schemas=keep_schemas)
            assert [rest.get(f"/subjects/{subject}/versions/1")["id"] for subject in "ab"] == ids
            assert rest.get("/subjects") == ["a", "b"]
        assert rest.register("d", '"long"') == 42
        assert rest.get("/mode") == {"mode": "READWRITE"}
        assert rest.refusal("GET", "/mode/b") == (404, 40409)


def test_a_restart_changes_nothing(tmp_path: Path) -> None:
    schemas = [{"subject": "a", "schema": V1, "id": 9, "compatibility": "NONE"}, {"subject": "a", "schema": V2}]
    path = written(tmp_path, {"schemas": schemas})
    with Broker(registry=True, seed_data=path, data_dir=tmp_path / "data") as broker:
        with Rest(broker.registry_url) as rest:
            rest.put("/config/a", {"compatibility": "FULL"})
        before = broker.records("_schemas")
    with Broker(registry=True, seed_data=path, data_dir=tmp_path / "data") as broker:
        assert broker.records("_schemas") == before


WRONG: list[tuple[list[Any], list[Any], str]] = [
    ([{"subject": "a", "schema": "{"}], [], "schema 1: Invalid schema"),
    ([{"subject": "a", "schema": V1}, {"subject": "a", "schema": INCOMPATIBLE}], [], "schema 2: Schema being"),
    ([{"subject": "a"}], [], "schema 1: schema: give either the schema or a file with it"),
    ([{"schema": V1}], [], "schema 1: the field 'subject' is missing"),
    ([{"subject": "a", "schema": V1, "compatibility": "HALF"}], [], "schema 1: Invalid compatibility level"),
    (
        [{"subject": "a", "schema": V1, "references": [3]}],
        [],
        "schema 1: it is 3, not a mapping",
    ),
    ([], [{"topic": "t", "value": 1, "schema": "a"}], "record 1: value: There is no schema of the subject 'a'"),
    ([{"subject": "a", "schema": V1}], [{"topic": "t", "value": {}, "schema": "a"}], "record 1: value: "),
]


@pytest.mark.parametrize(("schemas", "records", "message"), WRONG)
def test_what_is_wrong_is_named_and_leaves_nothing(
    tmp_path: Path, schemas: list[Any], records: list[Any], message: str
) -> None:
    data = tmp_path / "data"
    path = written(tmp_path, {"topics": ["t"], "schemas": schemas, "records": records})
    with pytest.raises(SeedError) as caught, Broker(seed_data=path, data_dir=data):
        pass
    assert message in str(caught.value)
    with Broker(data_dir=data) as broker:
        assert broker.topics() == {}


def test_lines_may_be_schemas(tmp_path: Path) -> None:
    path = tmp_path / "seeds.ndjson"
    lines = [{"topic": "t", "value": {"id": 1}, "schema": "t-value"}, {"subject": "t-value", "schema": json.loads(V1)}]
    path.write_text("\n".join(map(json.dumps, lines)))
    with Broker(seed_data=path) as broker:
        (read,) = broker.records("t", decode=True)
        assert read.value == {"id": 1}
