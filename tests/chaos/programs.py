"""The commands that start the applications, which are built once."""

import functools
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.clients import java_programs, node_programs, toolchains

APPS: Final = Path(__file__).with_name("apps")
_MODULES: Final = APPS.parents[1] / "clients" / "matrix" / "go"


def command(client: str) -> Sequence[str]:
    """Return the command of a client's program; the name of an application follows."""
    match client:
        case "java":
            return java_programs.documented_command(list((APPS / "java").glob("*.java")), "Apps")
        case "kafkajs":
            return node_programs.command(APPS / "node" / "apps.js")
        case "franz" | "sarama" | "segmentio":
            return [str(_go() / client)]
        case _:
            return [sys.executable, "-m", f"tests.chaos.apps.{client}_apps"]


@functools.cache
def _go() -> Path:
    modules = [_MODULES / name for name in ("go.mod", "go.sum")]

    def build(made: Path) -> None:
        sources = made / "sources"
        shutil.copytree(APPS / "go", sources)
        for path in modules:
            shutil.copy(path, sources)
        toolchains.go_build(sources, made, "./...")

    return toolchains.build(toolchains.place("go-chaos", [*(APPS / "go").rglob("*.go"), *modules]), build)
