"""The programs that use kafkajs, run by Node.js; the packages come from the npm registry, pinned by a lock file."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.clients import toolchains
from tests.clients.group_members import MemberProgram

FOLDER: Final = Path(__file__).with_name("node")
_PACKAGES: Final = [FOLDER / "package.json", FOLDER / "package-lock.json"]


def programs() -> list[MemberProgram]:
    """Kafkajs."""
    return [
        MemberProgram(
            "kafkajs",
            lambda: command("member"),
            {
                "cooperative": "it knows nothing of cooperative rebalancing",
                "static": "it knows nothing of static members",
            },
            environment(),
        )
    ]


def command(name: str) -> Sequence[str]:
    """The command that starts a program of the folder; its packages are there afterwards. It needs `environment()`."""
    node = toolchains.tool("node")
    toolchains.build(_place(), _install)
    return [node, str(FOLDER / f"{name}.js")]


def environment() -> Mapping[str, str]:
    """The environment in which Node.js finds the packages."""
    return {**os.environ, "NODE_PATH": str(_place() / "node_modules")}


def _place() -> Path:
    return toolchains.place("node", _PACKAGES)


def _install(folder: Path) -> None:
    npm = toolchains.tool("npm")
    for path in _PACKAGES:
        shutil.copy(path, folder)
    failure = toolchains.run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
    if failure:
        toolchains.missing(failure)
