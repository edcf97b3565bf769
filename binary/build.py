"""Builds the self-contained program for this platform: `python -m binary.build DIST [KEY]` (make binary).

PyInstaller collects the interpreter and what minibroker imports into a folder that needs no Python. DIST gets it as
`minibroker-VERSION-SYSTEM-MACHINE.tar.gz`, in which two builds have the same bytes, and SHA256SUMS, signed with KEY.
"""

import contextlib
import gzip
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final

from minibroker.config.version import __version__
from minibroker_tools.dispatch import TOOLS
from tests.distribution import sign, write_checksums

ROOT: Final = Path(__file__).parents[1]
EXTRAS: Final = ("core", "control", "lab", "security", "registry", "tools", "zookeeper")
"""The requirements that the program contains. Spark and the tests are not among them."""
_BUILD: Final = ("build", "binary")
_TIME: Final = 315_532_800
"""The time of each file in the archive: 1980, the first year that every format of archives knows."""
_GLIBC: Final = re.compile(rb"GLIBC_(\d+)\.(\d+)")
_LICENSE: Final = re.compile(r"licen[cs]e|copying|notice", re.IGNORECASE)


def main(dist: str, key: str | None = None) -> int:
    """Build the archive, print what is in it, and return the exit status."""
    Path(dist).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = _collect(Path(place))
        archive = Path(dist).resolve() / f"minibroker-{__version__}-{platform_name(folder)}.tar.gz"
        pack(folder, archive)
        _report(folder, archive)
    sums = write_checksums(sorted(path for path in archive.parent.iterdir() if path.suffix in {".gz", ".whl"}))
    if key is not None:
        sign(sums, key)
    return 0


def platform_name(folder: Path) -> str:
    """Return system, machine and C library in the words of Node and npm: `linux-x64`, `linux-arm64-musl`."""
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(platform.machine().lower(), platform.machine())
    system = {"win32": "win32", "darwin": "darwin"}.get(sys.platform, "linux")
    is_musl = system == "linux" and glibc_of(folder) == (0, 0)
    return f"{system}-{machine}{'-musl' if is_musl else ''}"


def glibc_of(folder: Path) -> tuple[int, int]:
    """Return the version of glibc that the program needs, by the symbols of its libraries, or (0, 0) for none."""
    versions = [
        (int(major), int(minor)) for path in _files(folder) for major, minor in _GLIBC.findall(path.read_bytes())
    ]
    return max(versions, default=(0, 0))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())


def _collect(place: Path) -> Path:
    """Install the locked requirements into an environment of their own, and return PyInstaller's folder."""
    _run(sys.executable, "-m", "venv", str(place / "venv"))
    python = str(place / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python")
    pip = (python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-compile")
    locks = [word for name in (*EXTRAS, *_BUILD) for word in ("--requirement", f"requirements/{name}.txt")]
    _run(*pip, "--require-hashes", *locks)
    _run(*pip, "--no-deps", "--no-build-isolation", ".")
    _run(
        *(python, "-m", "PyInstaller", "--noconfirm", "--log-level", "ERROR", "binary/minibroker.spec"),
        *("--distpath", str(place / "dist"), "--workpath", str(place / "work")),
        SOURCE_DATE_EPOCH=str(_TIME),
        PYTHONHASHSEED="0",
    )
    folder = place / "dist" / "minibroker"
    site = next((place / "venv").rglob("site-packages"))
    for distribution in distributions(path=[str(site)]):
        _copy_licenses(distribution, folder / "licenses" / distribution.name)
    with contextlib.suppress(FileNotFoundError):  # Debian's Python has none.
        shutil.copy(Path(os.__file__).with_name("LICENSE.txt"), folder / "licenses" / "Python.txt")
    for record in folder.rglob("RECORD"):  # It has the folder of the build.
        record.unlink()
    for tool in ("minibroker-tools", "kafka-run-class", *TOOLS):
        if os.name == "nt":  # Links take rights there.
            shutil.copy(folder / "minibroker.exe", folder / f"{tool}.exe")
        else:
            (folder / tool).symlink_to("minibroker")
    return folder


def _copy_licenses(distribution: Distribution, target: Path) -> None:
    for file in distribution.files or ():
        if _LICENSE.search(file.name) and (source := Path(str(distribution.locate_file(file)))).is_file():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / file.name)


def pack(folder: Path, archive: Path) -> None:
    """Write the folder into an archive whose bytes depend on nothing but names and contents."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = _TIME
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    with (
        archive.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        tar.add(folder, "minibroker", recursive=False, filter=plain)
        for path in sorted(folder.rglob("*")):
            tar.add(path, f"minibroker/{path.relative_to(folder).as_posix()}", recursive=False, filter=plain)


def _report(folder: Path, archive: Path) -> None:
    sizes: dict[str, int] = {}
    for path in _files(folder):
        top = path.relative_to(folder).parts[:2][-1]
        sizes[top] = sizes.get(top, 0) + path.stat().st_size
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:12]
    print(f"{archive.name}: {archive.stat().st_size / 1e6:.1f} MB, {sum(sizes.values()) / 1e6:.1f} MB unpacked")
    print("glibc", ".".join(map(str, glibc_of(folder))), "or newer")
    print(*(f"{name} {size / 1e6:.1f} MB" for name, size in largest), sep=", ")


def _run(*command: str, **environment: str) -> None:
    subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
