"""The programs of docs/clients.md in other languages than Python run as they stand, where their tools are."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from minibroker import Broker
from tests.clients import go_programs, java_programs, node_programs, rust_programs
from tests.clients.toolchains import tool
from tests.documented import code
from tests.programs import run_to_success

PAGE = "docs/clients.md"


def java(folder: Path) -> Sequence[str]:
    # A source file in the place of a class is compiled as it is started.
    return java_programs.client_command(str(folder / "main.java"), java_programs.VERSIONS[-1])


def node(folder: Path) -> Sequence[str]:
    return node_programs.command(folder / "main.js")


def go(folder: Path) -> Sequence[str]:
    for name in ("go.mod", "go.sum"):
        shutil.copy(go_programs.FOLDER / name, folder)
    # With the flags of the other builds, whose compiled packages it takes from Go's cache.
    return [tool("go"), "run", "-C", str(folder), "-trimpath", "-buildvcs=false", "."]


def rust(folder: Path) -> Sequence[str]:
    return [rust_programs.compiled(folder / "main.rs")]


@pytest.mark.parametrize(
    ("heading", "language", "suffix", "command"),
    [
        pytest.param("Java", "java", "java", java, id="java"),
        pytest.param("Node.js", "js", "js", node, id="node"),
        pytest.param("Go", "go", "go", go, id="go"),
        pytest.param("Rust", "rust", "rs", rust, id="rust", marks=pytest.mark.torture),  # it compiles librdkafka
    ],
)
def test_the_program_that_is_shown_sends_its_record(
    tmp_path: Path, heading: str, language: str, suffix: str, command: Callable[[Path], Sequence[str]]
) -> None:
    (program,) = code(PAGE, heading, language)
    (tmp_path / f"main.{suffix}").write_text(program)
    words = command(tmp_path)
    with Broker(topics=["orders"]) as broker:
        environment: Mapping[str, str] = {
            **os.environ,
            "CGO_ENABLED": "0",  # of Go
            "BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        }
        run_to_success(words, env=environment, timeout=300)
        assert [(record.key, record.value) for record in broker.records("orders")] == [(b"a", b"hello")]
