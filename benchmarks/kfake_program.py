"""The program `kfake`, franz-go's fake broker. Go builds it once into the user's cache folder. go.sum pins it."""

import shutil
from pathlib import Path
from typing import Final

from tests.clients import toolchains

_FOLDER: Final = Path(__file__).with_name("kfake")
_MODULE: Final = "github.com/twmb/franz-go/pkg/kfake"


class NoKfakeError(Exception):
    """kfake cannot run here. The message gives the reason."""


def find() -> Path:
    """Return the program, which is built first if necessary.

    Raises:
        NoKfakeError: Go is missing, or fails.
    """
    go = shutil.which("go")
    if go is None:
        raise NoKfakeError("there is no go on the PATH")

    def build(folder: Path) -> None:
        # By default, Go would change go.mod if it found a newer version.
        command = [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", f"{folder}/", "."]
        if failure := toolchains.run(command, _FOLDER, {"CGO_ENABLED": "0"}):
            raise NoKfakeError(failure)

    return toolchains.build(toolchains.place("kfake", _FOLDER.iterdir()), build) / "kfake"


def version() -> str:
    """Return the version of kfake's module in go.mod."""
    lines = (_FOLDER / "go.mod").read_text().splitlines()
    return next(line.split()[-1] for line in lines if line.split()[-2:-1] == [_MODULE])
