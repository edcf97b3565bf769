"""The page on tests with schemas: its files run as they stand."""

import re
import sys
from pathlib import Path

import pytest

from tests.clients import control_client_programs as programs
from tests.clients import toolchains
from tests.clients.broker_process import ROOT
from tests.clients.test_language_pages import run, run_java, write_files
from tests.documented import code
from tests.programs import run_to_success

PAGE = "docs/registry-testing.md"


def test_pytest(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(code(PAGE, "pytest", "ini")[0])
    (tmp_path / "test_orders.py").write_text(code(PAGE, "pytest", "python")[0])
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    assert "2 passed" in run_to_success(command, cwd=tmp_path).stdout


@pytest.mark.torture
@pytest.mark.toolchain
def test_junit(tmp_path: Path) -> None:
    assert "[         1 tests successful" in run_java(PAGE, tmp_path)


@pytest.mark.torture
@pytest.mark.toolchain
def test_jest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = programs.node_packages() / "node_modules"
    monkeypatch.setenv("NODE_PATH", str(toolchains.node_modules("registry-node", ROOT / "tests/registry/node")))
    write_files(PAGE, tmp_path)
    (tmp_path / "package.json").write_text('{"private": true}')
    (tmp_path / "node_modules").symlink_to(packages)
    output = run([toolchains.tool("node"), str(packages / "jest/bin/jest.js"), "--no-cache"], tmp_path)
    assert re.search(r"Tests: +1 passed", output), output


@pytest.mark.toolchain
def test_go(tmp_path: Path) -> None:
    files = write_files(PAGE, tmp_path)
    client = ROOT / "clients/go"
    (version,) = re.findall(r"^go (\S+)$", (client / "go.mod").read_text(), re.MULTILINE)
    replaced = f"require example.com/minibroker v1.1.0\n\nreplace example.com/minibroker => {client}\n"
    (tmp_path / "go.mod").write_text(f"module orders\n\ngo {version}\n\n{replaced}")

    def build(made: Path) -> None:
        command = [toolchains.tool("go"), "test", "-c", "-trimpath", "-buildvcs=false", "-o", f"{made}/page.test", "."]
        failure = toolchains.run(command, tmp_path, {"CGO_ENABLED": "0"})
        assert failure is None, failure

    program = (
        toolchains.build(toolchains.place("registry-page-go", [*files, *client.glob("*.go")]), build) / "page.test"
    )
    assert run([str(program), "-test.v"], tmp_path).count("--- PASS") == 1
