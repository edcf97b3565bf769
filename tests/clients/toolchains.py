"""Other languages' needs before a test can run their programs: built once into the user's cache folder.

Where a toolchain is missing, or cannot fetch what a lock file names, the tests that ask for it are skipped and say why;
under CI that is a failure, but for the few tools that no registry of packages brings.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from tests.kafka import jars

_TIMEOUT = 3_600
"""Seconds for a step. A build takes minutes on a quiet machine, and longer than ten on a busy one."""


def tool(name: str) -> str:
    """The path of a program; the test is skipped, or failed under CI, when there is none."""
    found = shutil.which(name)
    if found is None:
        missing(f"there is no {name} on the PATH")
    return found


def rare_tool(name: str) -> str:
    """The path of a program that no package registry brings; without it the test is skipped, under CI, too."""
    import pytest  # noqa: PLC0415 - benchmarks build with this module, and have no pytest

    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} on the PATH, and no package registry brings one")
    return found


def cargo() -> tuple[str, Mapping[str, str]]:
    """The path of cargo and the variables that it needs; without a Rust the test is skipped, under CI, too.

    rustup's cargo looks for toolchains in the home folder of whoever runs it. Where that has none, those of the home
    folder that cargo lies in do as well. What is fetched and built goes to the first all the same.
    """
    import pytest  # noqa: PLC0415 - as above

    found = rare_tool("cargo")
    installed = Path(found).absolute().parents[2] / ".rustup"
    variables: Mapping[str, str] = {}
    if "RUSTUP_HOME" not in os.environ and run([found, "--version"], Path.cwd()) and installed.is_dir():
        variables = {"RUSTUP_HOME": str(installed)}
    complaint = run([found, "--version"], Path.cwd(), variables)  # rustup's cargo is there before there is a Rust
    if complaint is not None:
        pytest.skip(complaint)
    return found, variables


def cargo_variables() -> Mapping[str, str]:
    """The variables with which all packages of ours are built: in one folder, so that each crate is compiled once.

    Several need librdkafka, which rdkafka-sys compiles for a minute. Where flags differ, crates are compiled again.
    """
    target = jars.cache_dir().parent / "cargo-target"
    return {"CARGO_TARGET_DIR": str(target), "RUSTFLAGS": "-Dwarnings", "CARGO_INCREMENTAL": "0"}


def missing(reason: str) -> NoReturn:
    """Skip the test, or fail it under CI."""
    import pytest  # noqa: PLC0415 - as above

    if os.environ.get("CI"):
        pytest.fail(f"CI is set, so every client has to run: {reason}")
    pytest.skip(reason)


def place(name: str, inputs: Iterable[Path], texts: Iterable[str] = ()) -> Path:
    """The folder for what is built from these files and texts; it changes with the files' names and all contents."""
    digest = hashlib.sha256()
    for path in sorted(inputs):
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    for text in texts:
        digest.update(f"{len(text)}\0{text}".encode())
    return jars.cache_dir().parent / f"{name}-{digest.hexdigest()[:16]}"


def build(folder: Path, make: Callable[[Path], None]) -> Path:
    """`folder`, once `make` has filled it: it gets another folder, which takes this name when it is complete.

    One process at a time does it, since tests may run in several.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                made = Path(scratch) / "made"
                made.mkdir()
                make(made)
                made.rename(folder)
    return folder


def compile_java(sources: Iterable[Path], class_path: Iterable[str], classes: Path, *options: str) -> None:
    """Compile Java into a folder. NoJarsError where Java lacks its compiler; AssertionError with the errors found."""
    if "jdk.compiler" not in jars.java_modules():
        raise jars.NoJarsError(f"{jars.java()} is of no JDK: it cannot compile")
    compiler = [jars.java(), *jars.SHORT_LIVED, "-m", "jdk.compiler/com.sun.tools.javac.Main", *options]
    command = [*compiler, "-d", str(classes), "-cp", os.pathsep.join(class_path), *map(str, sorted(set(sources)))]
    failure = run(command, classes.parent)
    assert failure is None, failure


def node_modules(name: str, folder: Path) -> Path:
    """The folder of the packages that a folder's lock file pins; npm fetches them once."""
    packages = [folder / "package.json", folder / "package-lock.json"]

    def install(made: Path) -> None:
        for path in packages:
            shutil.copy(path, made)
        if failure := run([tool("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], made):
            missing(failure)

    return build(place(name, packages), install) / "node_modules"


def pip_install(requirements: Path, target: Path, env: Mapping[str, str] | None = None) -> None:
    """Install the pinned packages of a file, some of which have to be built, into a folder."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--require-hashes", "--no-deps"]
    options = ["--no-build-isolation", "--use-pep517", "--target", str(target), "--requirement", str(requirements)]
    failure = run([*pip, *options], target.parent, env)
    if failure:
        missing(failure)


def go_build(module: Path, made: Path, *packages: str, options: Sequence[str] = ()) -> None:
    """Build programs of a Go module into a folder."""
    go = tool("go")
    if failure := run([go, "mod", "download", *options[:1]], module):
        missing(failure)
    command = [go, "build", "-trimpath", "-buildvcs=false", *options, "-o", f"{made}/", *packages]
    failure = run(command, module, {"CGO_ENABLED": "0"})
    assert failure is None, failure


def cargo_build(package: Path, made: Path, name: str) -> None:
    """Build a crate, and copy its program of this name into a folder."""
    path, variables = cargo()
    if failure := run([path, "fetch", "--locked"], package, variables):
        missing(failure)
    flags = cargo_variables()
    failure = run([path, "build", "--locked", "--offline"], package, {**variables, **flags})
    assert failure is None, failure
    shutil.copy(Path(flags["CARGO_TARGET_DIR"]) / "debug" / name, made)


def run(command: list[str], cwd: Path, env: Mapping[str, str] | None = None) -> str | None:
    """Run a step of a build: None, or what a step that failed has said."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{command[0]} took more than {_TIMEOUT} s"
    return None if done.returncode == 0 else f"{' '.join(command)} failed: {done.stdout[-2_000:]}"
