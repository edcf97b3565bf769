"""The programs that use franz-go, built by Go; its modules are pinned by go.sum."""

import functools
import shutil
from collections.abc import Mapping, Sequence
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
    return [str(toolchains.build(toolchains.place("go", sources), functools.partial(_build, FOLDER)) / name)]


def documented_commands(programs: Mapping[str, Mapping[str, str]]) -> Mapping[str, Sequence[str]]:
    """The commands of programs that a page shows: by name, their files. All are built at once, with our modules."""

    def build(made: Path) -> None:
        sources = made / "sources"
        for name, files in programs.items():
            folder = sources / "cmd" / name
            folder.mkdir(parents=True)
            for file, text in files.items():
                (folder / file).write_text(text)
        for name in ("go.mod", "go.sum"):
            shutil.copy(FOLDER / name, sources)
        _build(sources, made)

    texts = [text for files in programs.values() for text in files.values()]
    inputs = [FOLDER / "go.mod", FOLDER / "go.sum"]
    built = toolchains.build(toolchains.place("go-documented", inputs, texts), build)
    return {name: [str(built / name)] for name in programs}


def _build(sources: Path, folder: Path) -> None:
    go = toolchains.tool("go")
    failure = toolchains.run([go, "mod", "download"], sources)
    if failure:
        toolchains.missing(failure)
    failure = toolchains.run(
        [go, "build", "-trimpath", "-buildvcs=false", "-o", f"{folder}/", "./cmd/..."], sources, {"CGO_ENABLED": "0"}
    )
    assert failure is None, failure
