"""The registry's clients for Node.js and Go."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.clients import toolchains
from tests.patience import PATIENCE_S
from tests.registry.rest import Rest
from tests.registry.schemas import V1

FOLDER = Path(__file__).parent

pytestmark = pytest.mark.toolchain


def output(command: Sequence[str], rest: Rest) -> Any:
    """Return what a program prints that uses the registry."""
    done = subprocess.run([*command, rest.url], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


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


def test_franz_go_s_client_registers_reads_and_deletes(rest: Rest) -> None:
    folder = FOLDER / "go"
    sources = [path for path in folder.rglob("*") if path.suffix in {".go", ".mod", ".sum"}]
    built = toolchains.build(
        toolchains.place("registry-go", sources), lambda made: toolchains.go_build(folder, made, "./cmd/...")
    )
    seen = output([str(built / "registry")], rest)
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
