"""The programs that use franz-go, built by Go; its modules are pinned by go.sum."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.clients import toolchains
from tests.clients.group_members import MemberProgram

FOLDER: Final = Path(__file__).with_name("go")


def programs() -> list[MemberProgram]:
    """franz-go."""
    return [MemberProgram("franz-go", lambda: command("member"))]


def command(name: str) -> Sequence[str]:
    """The command that starts a program of the folder `cmd`, which is built if it is not there yet."""
    sources = [path for path in FOLDER.rglob("*") if path.suffix in {".go", ".mod", ".sum"}]
    return [str(toolchains.build(toolchains.place("go", sources), _build) / name)]


def _build(folder: Path) -> None:
    go = toolchains.tool("go")
    failure = toolchains.run([go, "mod", "download"], FOLDER)
    if failure:
        toolchains.missing(failure)
    failure = toolchains.run(
        [go, "build", "-trimpath", "-buildvcs=false", "-o", f"{folder}/", "./cmd/..."], FOLDER, {"CGO_ENABLED": "0"}
    )
    assert failure is None, failure
