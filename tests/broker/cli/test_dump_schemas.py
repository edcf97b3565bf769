"""`minibroker dump --schemas`: decoded keys and values, with the schemas of a registry or of the topic `_schemas`."""

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from minibroker import Broker
from minibroker.cli.main import main
from tests.registry.schemas import V1

JSON: Final = '{"title":"Order","type":"object"}'
UNKNOWN: Final = b"\0\0\0\0\x63x"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Write values of confluent-kafka's serializers, and others, into a data directory."""
    with Broker(registry=True, data_dir=tmp_path / "data") as broker:
        with SchemaRegistryClient({"url": broker.registry_url}) as client:
            key = AvroSerializer(client, '"string"')("k", SerializationContext("orders", MessageField.KEY))
            context = SerializationContext("orders", MessageField.VALUE)
            broker.produce("orders", AvroSerializer(client, V1)({"id": 7}, context), key=key)
            context = SerializationContext("other", MessageField.VALUE)
            broker.produce("orders", JSONSerializer(JSON, client)({"name": "é"}, context), key=b"\xff")
        broker.produce("orders", None, key=key)
        broker.produce("orders", b"plain")
    return tmp_path / "data"


def lines(capsys: pytest.CaptureFixture[str], *options: str, status: int = 0) -> list[str]:
    assert main(["dump", "--skip-record-metadata", *options]) == status
    return [
        line for line in capsys.readouterr().out.splitlines() if line.startswith(("| ", " payload", '{"type":"record"'))
    ]


@pytest.mark.parametrize("place", ["orders-0", "orders-0/00000000000000000000.log", "."])
def test_the_schemas_of_the_same_directory_are_used_by_default(
    data: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    read = lines(capsys, str(data / place), "--schemas")
    assert read[-4:] == [
        '| key: "k" payload: {"id":7}',
        '| key: \ufffd payload: {"name":"é"}',
        '| key: "k"',
        " payload: plain",
    ]


def test_decoded_values_are_objects_in_json(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moved = tmp_path / "moved"
    shutil.move(data / "orders-0", moved)
    read: list[dict[str, Any]] = [
        json.loads(line) for line in lines(capsys, str(moved), "--json", "--schemas", str(data))
    ]
    assert [(line.get("key"), line["value"]) for line in read] == [
        ("k", {"id": 7}),
        (None, {"name": "é"}),
        ("k", None),
        (None, "plain"),
    ]
    assert read[1]["keyBase64"] == "/w=="
    with_partition = lines(capsys, str(moved), "--schemas", str(data / "_schemas-0"))
    assert with_partition[0] == '| key: "k" payload: {"id":7}'
    assert main(["dump", str(moved), f"--schemas={moved}"]) == 1
    assert f"--schemas: there is no directory _schemas-0 in {moved}, nor beside it" in capsys.readouterr().err


def test_what_cannot_be_decoded_says_why_and_is_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Broker(data_dir=tmp_path) as broker:
        id_ = broker.schemas.register("orders-value", V1)
        text = broker.schemas.register("other-value", JSON, kind="JSON")
        broker.produce("orders", b"\0" + text.to_bytes(4, "big") + b'{"half":"\\ud800"}')
        broker.produce("orders", UNKNOWN, key="k")
        broker.produce("orders", b"\0" + id_.to_bytes(4, "big"), key="k")
    orders = str(tmp_path / "orders-0")
    reasons = [
        "Error at offset 1, skipping. No schema has the id 99",
        "Error at offset 2, skipping. The payload does not fit the schema with the id 1: ",
    ]
    half, *read = lines(capsys, orders, "--schemas", status=1)
    assert half == ' payload: {"half":"?"}'  # UTF-8 has no half of a character.
    assert [line[: len(reason)] for line, reason in zip((line[18:] for line in read), reasons, strict=True)] == reasons
    half, first, second = map(json.loads, lines(capsys, orders, "--json", "--schemas", status=1))
    assert half["value"] == {"half": "?"}
    assert (first["key"], first["value"], first["undecoded"]) == ("k", UNKNOWN.decode(), reasons[0])
    assert second["undecoded"].startswith(reasons[1])


def test_a_registry_is_asked_for_schemas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Broker(registry=True) as registry:
        url = registry.registry_url
        with Broker(data_dir=tmp_path) as broker:
            id_ = registry.schemas.register("orders-value", V1)
            broker.produce("orders", b"\0" + id_.to_bytes(4, "big") + b"\x0e")
            broker.produce("orders", UNKNOWN)
        orders = str(tmp_path / "orders-0")
        first, second = lines(capsys, orders, "--schemas", url, status=1)
    assert first.endswith('payload: {"id":7}')
    assert second.endswith(f"The registry at {url} answered 404: Schema 99 not found")
    assert main(["dump", orders, "--schemas", "ftp://alice:secret@a"]) == 1
    assert (
        capsys.readouterr().err == "minibroker: The URL of the registry is not http://HOST:PORT or https://HOST:PORT\n"
    )
