"""The registry's clients for Java, Node.js, Go and Rust."""

import functools
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.clients import toolchains
from tests.kafka import jars, jvm
from tests.kafka.fixtures import or_skip
from tests.patience import PATIENCE_S
from tests.registry.rest import Rest
from tests.registry.schemas import V1

FOLDER = Path(__file__).parent

pytestmark = pytest.mark.toolchain


def text_output(command: Sequence[str], rest: Rest) -> str:
    """Return what a program prints that uses the registry."""
    done = subprocess.run([*command, rest.url], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def output(command: Sequence[str], rest: Rest) -> Any:
    """Return the JSON that a program prints."""
    return json.loads(text_output(command, rest))


def go_program(name: str) -> str:
    """Build the programs in Go, and return the path of one."""
    folder = FOLDER / "go"
    sources = [path for path in folder.rglob("*") if path.suffix in {".go", ".mod", ".sum"}]
    built = toolchains.build(
        toolchains.place("registry-go", sources), lambda made: toolchains.go_build(folder, made, "./cmd/...")
    )
    return str(built / name)


def test_kafkajs_s_client_uses_all_formats(rest: Rest) -> None:
    folder = FOLDER / "node"
    packages = toolchains.node_modules("registry-node", folder)
    node = ["env", f"NODE_PATH={packages}", toolchains.tool("node"), str(folder / "kafkajs.js")]
    seen = output(node, rest)
    for kind in ("AVRO", "JSON", "PROTOBUF"):
        assert seen[kind] == {"value": 7, "isSameId": True, "byVersion": True}
    assert seen["lookedUp"]
    assert "incompatible with an earlier schema" in seen["refused"]
    assert rest.get("/config/free") == {"compatibilityLevel": "NONE"}


@pytest.mark.torture
def test_confluent_s_client_for_node_uses_all_formats_references_and_headers(rest: Rest) -> None:
    folder = FOLDER / "node" / "confluent"
    packages = toolchains.node_modules("registry-confluent", folder)
    seen = output(["env", f"NODE_PATH={packages}", toolchains.tool("node"), str(folder / "confluent.js")], rest)
    for topic in ("avro", "json", "protobuf"):
        assert seen[topic] == [[7, ""], [7, "__value_schema_id"]]
    assert seen["references"] == [{"name": "customer.proto", "subject": "customer.proto", "version": 1}]
    assert seen["refused"] == 409


def test_franz_go_s_client_registers_reads_and_deletes(rest: Rest) -> None:
    seen = output([go_program("registry")], rest)
    assert "incompatible with an earlier schema" in seen.pop("refused")
    assert seen == {
        "versions": [1, 2],
        "text": V1,
        "found": True,
        "types": 3,
        "level": "FULL",
        "compatible": False,
        "subjects": ["orders-value"],
        "deleted": [1, 2],
        "hidden": ["orders-value"],
        "prefix": 5,
    }


def test_srclient_uses_all_formats_and_references(rest: Rest) -> None:
    assert output([go_program("srclient")], rest) == {
        "references": [{"name": "Customer", "subject": "customer", "version": 1}],
        "protobuf": True,
        "found": True,
        "levels": ["BACKWARD", "BACKWARD", "FULL"],
        "refused": 409,
        "compatible": False,
        "versions": [{"subject": "customer", "version": 1}],
        "subjects": ["customer", "json-value", "orders-value", "protobuf-value"],
        "hidden": 1,
    }


SEEN_BY_JAVA = """\
versions=[1, 2]
isStable=true
latest=2
version=2
compatible=false
refused=409
level=FULLFULL
mode=READONLYREADONLY
reference=LONG
flink=Order
subjects=[baskets-value, flink-value, orders-value]
deleted=[1][1]
"""


def test_confluent_s_client_for_java_and_flink_use_the_registry(rest: Rest) -> None:
    pom = FOLDER / "java" / "flink.xml"
    libs = toolchains.build(
        toolchains.place("registry-flink", [pom]), lambda made: or_skip(functools.partial(jars.from_maven, pom, made))
    )
    java = or_skip(lambda: jvm.oracle_command(FOLDER / "java" / "ConfluentClient.java", libs, heap="256m"))
    assert text_output(java, rest) == SEEN_BY_JAVA


SEEN_BY_RUST = """\
avro [14] Record([("order", Record([("id", Long(7))]))])
json [123, 34, 105, 100, 34, 58, 55, 125] {"id":7}
protobuf [2, 2, 8, 7] shop.Order [8, 7]
compatible false
refused true
versions [1]
subjects ["avro-value", "json-value", "order", "protobuf-value"]
"""


@pytest.mark.torture  # its 180 crates take minutes to compile
def test_a_crate_for_rust_uses_all_formats_and_references(rest: Rest) -> None:
    folder = FOLDER / "rust"
    built = toolchains.build(
        toolchains.place("registry-rust", folder.iterdir()),
        lambda made: toolchains.cargo_build(folder, made, "registry"),
    )
    assert text_output([str(built / "registry")], rest) == SEEN_BY_RUST
