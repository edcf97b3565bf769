"""The pages on tests in languages other than Python: their files run as they stand, with minibroker on the PATH.

The first line of a block names its file.
"""

import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from binary import packages
from tests.clients import control_client_programs as programs
from tests.clients import go_programs, toolchains
from tests.clients.broker_process import ROOT
from tests.documented import blocks, code
from tests.patience import PATIENCE_S
from tests.programs import run_to_success
from tests.test_documented_blocks import CODE

TIMEOUT = 600  # a hang; they take seconds
NOT_RUN = {"docs/test-dotnet.md"}  # takes the .NET SDK; the page says that it is not run
JAVA = {f"docs/test-{name}.md" for name in ("junit", "micronaut", "quarkus", "spring")}
PYTHON = {"docs/test-spark.md"}  # tests/pipeline runs it
PAGES = sorted({f"docs/{path.name}" for path in (ROOT / "docs").glob("test-*.md")} - NOT_RUN - PYTHON)


def write_files(page: str, folder: Path) -> list[Path]:
    """Write the blocks of a page that name their file."""
    files: list[Path] = []
    for block in blocks(page):
        if named := re.match(r"// (\S+)\n", block.text):
            path = folder / named[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
            files.append(path)
    assert files
    return files


def run(command: Sequence[str], folder: Path) -> str:
    """Run tests in a folder, with `minibroker` on the PATH. AssertionError unless they pass; what they print."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = run_to_success(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "CI": "true", "NO_COLOR": "1", "TMPDIR": str(folder)},
        timeout=TIMEOUT,
    )
    deadline = time.monotonic() + PATIENCE_S
    while left := list(folder.glob("minibroker-*")):
        assert time.monotonic() < deadline, f"the broker should stop, and remove its data: {left}"
        time.sleep(0.01)  # until the broker, another process, has seen that its parent has ended
    return done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES)
def test_a_page_goes_from_the_dependency_to_its_use_in_files_that_are_run(page: str) -> None:
    found = [block for block in blocks(page) if block.language in CODE | {"xml"}]
    others = [block for block in found if not block.text.startswith("// ")]
    assert {block.heading for block in others} <= {"Dependency", "Run"}
    assert [block.language for block in others if block.heading == "Run"] in ([], ["xml"])  # a project file
    headings = re.findall(r"^## (.*)$", (ROOT / page).read_text(), re.MULTILINE)
    assert headings == ["Dependency", "Start", "Use", "Run"]


def test_the_pages_name_the_versions_that_the_clients_need() -> None:
    """Jest and Vitest need a newer Node.js than the client does."""
    (go,) = re.findall(r"^go (\S+)$", (ROOT / "clients/go/go.mod").read_text(), re.MULTILINE)
    (rust,) = re.findall(r'^rust-version = "(.*)"$', (ROOT / "clients/rust/Cargo.toml").read_text(), re.MULTILINE)
    (java,) = re.findall(r"<maven.compiler.release>(.*)<", (ROOT / "clients/java/pom.xml").read_text())
    named = {"go": f"Go {go}", "rust": f"Rust {rust}", "junit": f"Java {java}", "jest": "Node.js 18.14"}
    for page, version in named.items():
        assert f"You need {version} or newer" in (ROOT / f"docs/test-{page}.md").read_text()


def test_go(tmp_path: Path) -> None:
    go = toolchains.tool("go")
    files = write_files("docs/test-go.md", tmp_path)
    pins = [go_programs.FOLDER / name for name in ("go.mod", "go.sum")]
    sources = [*files, *pins, *(ROOT / "clients/go").glob("*.go"), ROOT / "clients/go/SHA256SUMS"]

    def build(made: Path) -> None:
        for path in pins:
            shutil.copy(path, tmp_path)
        module = packages.GO_MODULE
        replace = f"-replace={module}={ROOT}/clients/go"
        for command in ([go, "mod", "edit", f"-require={module}@v1.1.0", replace], [go, "mod", "download"]):
            if failure := toolchains.run(command, tmp_path):
                toolchains.missing(failure)
        command = [go, "test", "-c", "-trimpath", "-buildvcs=false", "-o", f"{made}/page.test", "."]
        failure = toolchains.run(command, tmp_path, {"CGO_ENABLED": "0"})
        assert failure is None, failure

    program = toolchains.build(toolchains.place("page-go", sources), build) / "page.test"
    output = run([str(program), "-test.v"], tmp_path)
    assert output.count("--- PASS") == 8


@pytest.mark.torture
def test_jest(tmp_path: Path) -> None:
    modules = node_folder("docs/test-jest.md", tmp_path)
    output = run([toolchains.tool("node"), str(modules / "jest/bin/jest.js"), "--no-cache", "--runInBand"], tmp_path)
    assert re.search(r"Tests: +7 passed", output), output


@pytest.mark.torture
def test_vitest(tmp_path: Path) -> None:
    modules = node_folder("docs/test-vitest.md", tmp_path)
    output = run([toolchains.tool("node"), str(modules / "vitest/vitest.mjs"), "run"], tmp_path)
    assert re.search(r"Tests +2 passed", output), output


def node_folder(page: str, folder: Path) -> Path:
    """Write the files of a page beside the packages. The folder of the packages."""
    write_files(page, folder)
    modules = programs.node_packages() / "node_modules"
    (folder / "package.json").write_text('{"private": true}')
    (folder / "node_modules").symlink_to(modules)
    return modules


def test_junit(tmp_path: Path) -> None:
    assert "[         7 tests successful" in run_java("docs/test-junit.md", tmp_path)


@pytest.mark.torture
def test_spring(tmp_path: Path) -> None:
    assert "[         1 tests successful" in run_java("docs/test-spring.md", tmp_path)


@pytest.mark.torture  # it compiles librdkafka
def test_rust(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    files = write_files("docs/test-rust.md", package)
    pins = [programs.RUNNERS / "rust" / name for name in ("Cargo.toml", "Cargo.lock")]
    for path in pins:
        shutil.copy(path, package)
    (package / "lib.rs").touch()
    cargo, variables = toolchains.cargo()
    for folder in (package, ROOT / "clients/rust"):  # the next commands stay offline
        if failure := toolchains.run([cargo, "fetch"], folder, variables):
            toolchains.missing(failure)
    words = [cargo, "add", "--dev", "minibroker", "--path", f"{ROOT}/clients/rust", "--offline"]
    failure = toolchains.run(words, package, variables)
    assert failure is None, failure
    sources = [*files, *pins, *programs.rust_sources(ROOT / "clients/rust")]
    made = programs.cargo_tests("page-rust", package, sources)
    assert "2 passed" in run([str(made / "orders")], tmp_path)


def run_java(page: str, folder: Path) -> str:
    """Run the tests of a page with JUnit's console."""
    files = [path for path in write_files(page, folder) if path.suffix == ".java"]
    ours = programs.java_classes()
    sources = [*files, *sorted((ROOT / "clients/java/src/main").rglob("*.java"))]
    classes = toolchains.build(
        toolchains.place(Path(page).stem, sources), lambda made: programs.compile_java(files, made, ours)
    )
    return run([*programs.java_command(classes, ours), "--scan-classpath", str(classes)], folder)


def test_the_dependency_is_the_artifact_of_the_checkout() -> None:
    (dependency,) = code("docs/test-junit.md", "Dependency", "xml")
    pom = (ROOT / "clients/java/pom.xml").read_text()
    (project,) = code("docs/test-junit.md", "Run", "xml")
    assert "".join(f"    {line}\n" for line in dependency.splitlines()) in project
    for name in ("groupId", "artifactId", "version"):
        (line,) = re.findall(rf"^  (<{name}>.*)$", dependency, re.MULTILINE)
        assert f"\n  {line}\n" in pom
