"""The programs that use kafkajs, run by Node.js; the packages come from the npm registry, pinned by a lock file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.clients import toolchains

FOLDER: Final = Path(__file__).with_name("node")


def command(script: Path) -> Sequence[str]:
    """The command that runs a script, with the packages of the folder."""
    node = toolchains.tool("node")
    return ["env", f"NODE_PATH={toolchains.node_modules('node', FOLDER)}", node, str(script)]
