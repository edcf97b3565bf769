"""Tests the output of `make dist` like a user: each archive in an empty environment, outside of the checkout.

    python -m tests.distribution DIST [KEY]

The broker's dependencies are pinned by requirements/core.txt. The source archive is built with the packages of
requirements/build.txt. Finally, DIST gets SHA256SUMS in the format of sha256sum and, with a private key of ssh-keygen,
its signature SHA256SUMS.sig.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

from tests.patience import PATIENCE_S

ROOT: Final = Path(__file__).parents[1]
NAMESPACE: Final = "minibroker"
"""The namespace of a signature (`ssh-keygen -n`), so that it is not valid for other files."""
_PROGRAM: Final = """
from minibroker import Broker

with Broker(topics=["orders:2"]) as broker:
    broker.produce("orders", {"id": 1}, key="a", codec="zstd")
    assert broker.expect("orders", {"id": 1}, key="a").codec == "zstd"
"""


def main(directory: str, key: str | None = None) -> int:
    """Test the archives in a directory, write their checksums, and return the exit status."""
    archives = sorted(Path(directory).resolve().iterdir())
    suffixes = sorted(path.suffix for path in archives)
    if suffixes != [".gz", ".whl"]:
        print(f"{directory}: a wheel and a source archive should be there: {suffixes}", file=sys.stderr)  # noqa: T201 - for whoever builds
        return 1
    for archive in archives:
        with tempfile.TemporaryDirectory() as place:
            version = _try(archive, Path(place))
        print(f"{archive.name}: {version}, as installed into an empty environment")  # noqa: T201 - as above
    sums = write_checksums(archives)
    if key is not None:
        sign(sums, key)
    return 0


def write_checksums(archives: list[Path]) -> Path:
    """Write SHA256SUMS beside the archives, and return its path."""
    path = archives[0].parent / "SHA256SUMS"
    path.write_text(checksums(archives))
    return path


def checksums(archives: list[Path]) -> str:
    """Return the SHA-256 of files in the format of sha256sum."""
    return "".join(f"{hashlib.sha256(archive.read_bytes()).hexdigest()}  {archive.name}\n" for archive in archives)


def sign(sums: Path, key: str) -> None:
    """Write the signature of a file of checksums beside it, with a private key of ssh-keygen."""
    _run(sums.parent, "ssh-keygen", "-Y", "sign", "-q", "-f", str(Path(key).resolve()), "-n", NAMESPACE, sums.name)


def _try(archive: Path, directory: Path) -> str:
    """Install and run an archive, and return the version that it prints.

    Raises:
        CalledProcessError: a command failed.
    """
    venv.create(directory / "venv", with_pip=True)
    python = str(directory / "venv" / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    locks = ["core"] if archive.suffix == ".whl" else ["core", "build"]
    for lock in locks:
        _run(
            directory, *pip, "install", "--require-hashes", "--requirement", str(ROOT / "requirements" / f"{lock}.txt")
        )
    _run(directory, *pip, "install", "--no-deps", "--no-build-isolation", str(archive))
    _run(directory, *pip, "check")
    _run(directory, python, "-W", "error", "-c", _PROGRAM)
    return _run(directory, str(directory / "venv" / "bin" / "minibroker"), "--version").strip()


def _run(directory: Path, *command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    completed = subprocess.run(
        command, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=True
    )
    return completed.stdout


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
