"""Builds the packages of other languages around the self-contained programs: `python -m binary.packages DIST`.

DIST has an archive for each platform, as `make binary` leaves them. It gets the folders `npm` (files of `npm pack`),
`go` (a module proxy), `rust` (a path for cargo), `dotnet` (a project) and `maven` (a repository). The packages know the
archives' checksums.
"""

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from binary import maven, pages
from minibroker.config.version import __version__
from tests.distribution import checksums

ROOT: Final = Path(__file__).parents[1]
CLIENTS: Final = ROOT / "clients"
GO_MODULE: Final = "example.com/minibroker"
"""The name in `clients/go/go.mod`, whose first part nobody can take. A release has the address of the repository."""


def main(dist: str) -> int:
    """Fill the folders and return the exit status."""
    folder = Path(dist)
    archives = platforms(folder)
    if not archives:
        print(f"{dist} has no minibroker-{__version__}-PLATFORM.tar.gz: `make binary` writes it", file=sys.stderr)
        return 1
    write(archives, folder)
    if _has("mvn", "maven"):
        maven.fill(list(archives.values()), folder)
    print(
        *(f"{dist}/{name}" for name in ("npm", "go", "rust", "dotnet", "maven") if (folder / name).exists()), sep="\n"
    )
    return 0


def _has(program: str, folder: str) -> bool:
    """Return whether a program is on the PATH. If it is not, print that the folder with its packages is left out."""
    has = shutil.which(program) is not None
    if not has:
        print(f"{folder} is left out: {program} is not on the PATH", file=sys.stderr)
    return has


def write(archives: Mapping[str, Path], folder: Path) -> None:
    """Fill the folders of npm, Go, Rust and .NET."""
    sums = checksums(sorted(archives.values()))
    if _has("npm", "npm"):
        with tempfile.TemporaryDirectory() as scratch:
            npm(archives, sums, folder / "npm", Path(scratch), is_published=bool(pages.read()["published"]))
    go(sums, folder / "go")
    for language in ("rust", "dotnet"):
        _copy(language, folder / language / "minibroker", sums)


def platforms(dist: Path) -> Mapping[str, Path]:
    """Return the archives in a folder by their platform, such as `linux-x64-musl`."""
    prefix = f"minibroker-{__version__}-"
    archives = sorted(dist.glob(f"{prefix}*-*.tar.gz"))
    return {path.name.removeprefix(prefix).removesuffix(".tar.gz"): path for path in archives}


def npm(archives: Mapping[str, Path], sums: str, target: Path, scratch: Path, *, is_published: bool) -> None:
    """Write npm's packages: one with the program for each platform, and the one that users name.

    The latter depends on the others, as npm installs only the one for its platform. Before their names are reserved it
    does not, since npm would install what somebody else may have published under them.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    main_folder = scratch / "minibroker"
    _copy("node", main_folder, sums)
    manifest: dict[str, Any] = json.loads((main_folder / "package.json").read_text())
    for platform, archive in archives.items():
        folder = scratch / platform
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        system, machine, *library = platform.split("-")
        library = library or ["glibc"]
        shutil.copy(ROOT / "LICENSE", folder)
        described = {
            "name": f"@minibroker/{platform}",
            "version": __version__,
            "description": f"The program of the package minibroker for {platform}",
            "license": manifest["license"],
            "os": [system],
            "cpu": [machine],
            **({"libc": library} if system == "linux" else {}),
            "files": ["minibroker"],
            "preferUnplugged": True,
        }
        (folder / "package.json").write_text(json.dumps(described, indent=2))
        _pack(folder, target)
    if is_published:
        manifest["optionalDependencies"] = {f"@minibroker/{platform}": __version__ for platform in archives}
    (main_folder / "package.json").write_text(json.dumps(manifest, indent=2))
    _pack(main_folder, target)


def _pack(folder: Path, target: Path) -> None:
    command = ["npm", "pack", "--silent", "--pack-destination", str(target.resolve())]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)


def go(sums: str, target: Path) -> None:
    """Write the files of a module proxy."""
    shutil.rmtree(target, ignore_errors=True)
    folder = target / GO_MODULE / "@v"
    folder.mkdir(parents=True)
    version = f"v{__version__}"
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(folder / f"{version}.zip", "w") as archive:
        module = Path(scratch, "module")
        _copy("go", module, sums)
        shutil.copy(module / "go.mod", folder / f"{version}.mod")
        for path in sorted(module.iterdir()):  # A name alone has the time 1980, so that two builds are the same.
            archive.writestr(zipfile.ZipInfo(f"{GO_MODULE}@{version}/{path.name}"), path.read_bytes())
    (folder / f"{version}.info").write_text(json.dumps({"Version": version, "Time": "1980-01-01T00:00:00Z"}))
    (folder / "list").write_text(f"{version}\n")


def _copy(language: str, target: Path, sums: str) -> None:
    """Copy a client without its tests, with the checksums of the archives."""
    shutil.rmtree(target, ignore_errors=True)
    ignored = shutil.ignore_patterns("test", "tests", "*_test.go", "target", "node_modules", "bin", "obj")
    shutil.copytree(CLIENTS / language, target, ignore=ignored)
    (target / "SHA256SUMS").write_text(sums)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
