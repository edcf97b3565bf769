"""The tests of the clients of the control plane, built once: each function returns the command that runs them."""

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.clients import toolchains
from tests.clients.broker_process import ROOT
from tests.kafka import jars
from tests.kafka.fixtures import or_skip

FOLDER: Final = ROOT / "clients"
RUNNERS: Final = Path(__file__).with_name("runners")
"""Pins of the test runners that the documentation shows, and programs for them."""


def go() -> Sequence[str]:
    """Go's tests, compiled."""
    folder = FOLDER / "go"
    sources = [*folder.glob("*.go"), folder / "go.mod", folder / "SHA256SUMS"]
    return [str(toolchains.build(toolchains.place("control-go", sources), _compile_go) / "control.test")]


def _compile_go(made: Path) -> None:
    command = [toolchains.tool("go"), "test", "-c", "-trimpath", "-buildvcs=false", "-o", f"{made}/control.test", "."]
    failure = toolchains.run(command, FOLDER / "go", {"CGO_ENABLED": "0"})
    assert failure is None, failure


def node() -> Sequence[str]:
    """Node's tests, which need no package."""
    return [toolchains.tool("node"), "--test", str(FOLDER / "node/test/minibroker.test.js")]


def node_packages() -> Path:
    """The folder with `node_modules`: Jest, Vitest, TypeScript, kafkajs, and our client as npm would pack it."""
    client = FOLDER / "node"
    pins = [RUNNERS / "node" / name for name in ("package.json", "package-lock.json")]
    files = [
        client / "package.json",
        *(client / each for each in json.loads((client / "package.json").read_text())["files"]),
    ]

    def install(made: Path) -> None:
        for path in pins:
            shutil.copy(path, made)
        # Not `ci`, which asks for pins of the native parts of all platforms, and a lock file may have those of one.
        command = [toolchains.tool("npm"), "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"]
        if failure := toolchains.run(command, made):
            toolchains.missing(failure)

    def add_client(made: Path) -> None:
        for each in (packages / "node_modules").iterdir():
            (made / "node_modules").mkdir(exist_ok=True)
            (made / "node_modules" / each.name).symlink_to(each)
        ours = made / "node_modules" / "minibroker"
        ours.mkdir()
        for path in files:
            shutil.copy(path, ours)

    packages = toolchains.build(toolchains.place("runners-node", pins), install)
    return toolchains.build(toolchains.place("runners-node-client", [*pins, *files]), add_client)


def rust() -> Sequence[str]:
    """Rust's tests, compiled. A warning is an error."""
    folder = FOLDER / "rust"
    return [str(cargo_tests("control-rust", folder, sorted(rust_sources(folder))) / "minibroker")]


def rust_sources(folder: Path) -> list[Path]:
    """The files of a crate."""
    return [
        *(folder / name for name in ("Cargo.toml", "Cargo.lock", "SHA256SUMS")),
        *folder.glob("src/*.rs"),
        *folder.glob("tests/**/*.rs"),
    ]


def cargo_tests(name: str, folder: Path, sources: Sequence[Path]) -> Path:
    """The folder with the compiled tests of a crate, each under the name of its file."""

    def compile_tests(made: Path) -> None:
        cargo, variables = toolchains.cargo()
        if failure := toolchains.run([cargo, "fetch", "--locked"], folder, variables):
            toolchains.missing(failure)
        options = ["--locked", "--offline", "--no-run", "--tests", "--message-format", "json"]
        environment = {**os.environ, **variables, **toolchains.cargo_variables()}
        command = [cargo, "test", *options]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr
        built = map(json.loads, done.stdout.splitlines())
        for each in built:
            if each.get("executable") and "test" in each["target"]["kind"]:
                shutil.copy(each["executable"], made / each["target"]["name"])

    return toolchains.build(toolchains.place(name, sources), compile_tests)


def java() -> Sequence[str]:
    """Java's tests, compiled, run by JUnit's console."""
    tests = sorted((FOLDER / "java/src/test").rglob("*.java"))
    classes = toolchains.build(
        toolchains.place("control-java-tests", [*tests, *_java_sources()]),
        lambda made: compile_java(tests, made, java_classes()),
    )
    return [*java_command(classes, java_classes()), "--scan-classpath", str(classes)]


def java_command(*folders: Path) -> Sequence[str]:
    """The command of JUnit's console with these folders of classes; its options follow."""
    path = os.pathsep.join([*map(str, folders), f"{java_packages()}/*"])
    console = ["org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", "--details", "tree"]
    return [or_skip(jars.java), "-Xmx256m", *jars.SHORT_LIVED, "-cp", path, *console, "--fail-if-no-tests"]


def java_packages() -> Path:
    """The folder of jars of JUnit, Spring and Kafka's client."""
    pom = RUNNERS / "java/pom.xml"
    return toolchains.build(
        toolchains.place("runners-java", [pom]), lambda made: or_skip(functools.partial(jars.from_maven, pom, made))
    )


def java_classes() -> Path:
    """The classes of the client for Java."""
    sources = _java_sources()
    resources = FOLDER / "java/src/main/resources"
    files = [path for path in resources.rglob("*") if path.is_file()]

    def make(made: Path) -> None:
        compile_java(sources, made)
        shutil.copytree(resources, made, dirs_exist_ok=True)

    return toolchains.build(toolchains.place("control-java", [*sources, *files]), make)


def compile_java(sources: Sequence[Path], made: Path, *folders: Path) -> None:
    """Compile against the jars and these folders of classes; a warning is an error."""
    path = [*map(str, folders), *sorted(map(str, java_packages().glob("*.jar")))]
    lint = "-Xlint:all,-classfile,-processing"  # jars name annotations that are not there
    compile_all = functools.partial(toolchains.compile_java, sources, path, made, lint, "-Werror", "--release", "17")
    or_skip(compile_all)


def _java_sources() -> Sequence[Path]:
    return sorted((FOLDER / "java/src/main").rglob("*.java"))
