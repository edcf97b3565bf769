"""The programs that use franz-go, built by Go; its modules are pinned by go.sum."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.clients import toolchains

FOLDER: Final = Path(__file__).with_name("go")


def command(name: str) -> Sequence[str]:
    """The command that starts a program of the folder `cmd`, which is built if it is not there yet."""
    sources = [path for path in FOLDER.rglob("*") if path.suffix in {".go", ".mod", ".sum"}]
    built = toolchains.build(
        toolchains.place("go", sources), lambda made: toolchains.go_build(FOLDER, made, "./cmd/...")
    )
    return [str(built / name)]


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
        toolchains.go_build(sources, made, "./cmd/...")

    texts = [text for files in programs.values() for text in files.values()]
    inputs = [FOLDER / "go.mod", FOLDER / "go.sum"]
    built = toolchains.build(toolchains.place("go-documented", inputs, texts), build)
    return {name: [str(built / name)] for name in programs}
