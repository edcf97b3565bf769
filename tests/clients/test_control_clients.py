"""The clients of the control plane in `clients` pass their own tests, and cover all that the OpenAPI document has."""

import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from clients import generate
from minibroker import __version__
from minibroker_control.plane import make_app
from tests.clients import control_client_programs as programs
from tests.clients.broker_process import ROOT
from tests.clients.broker_process import environment as with_checkout
from tests.clients.recorded_serve import CALLS
from tests.clients.toolchains import tool
from tests.patience import PATIENCE_S
from tests.programs import BINARY, run_to_success
from tests.sweeps import one_in

FOLDER = ROOT / "clients"
TIMEOUT = 600  # a hang; they take seconds
LANGUAGES = ["node", "go", "java", "rust"]
DOCUMENT: Mapping[str, Any] = make_app(None).openapi()
SCHEMAS: Mapping[str, Any] = DOCUMENT["components"]["schemas"]


def operations() -> dict[str, set[str]]:
    """Return the query parameters and the fields of the body of each operation."""
    found: dict[str, set[str]] = {}
    for item in DOCUMENT["paths"].values():
        for operation in item.values():
            names = {each["name"] for each in operation.get("parameters", []) if each["in"] == "query"}
            content = operation.get("requestBody", {}).get("content", {})
            found[operation["operationId"]] = names | sent(content.get("application/json", {}).get("schema", {}))
    return found


def sent(schema: Mapping[str, Any]) -> set[str]:
    """Return the names of the fields of a body, and of those of the records in it."""
    names: set[str] = set()
    for each in [schema, *schema.get("anyOf", [])]:
        properties = each.get("properties") or SCHEMAS.get(each.get("$ref", "").rpartition("/")[2], {}).get(
            "properties", {}
        )
        names |= set(properties)
        if "matching" in properties:
            names |= set(SCHEMAS["Matching"]["properties"])
        if "records" in properties:
            names |= set(SCHEMAS["NewRecord"]["properties"])
    return names


@pytest.mark.parametrize("language", one_in(4, LANGUAGES))
def test_a_client_passes_its_tests_which_send_all_that_the_control_plane_takes(language: str, tmp_path: Path) -> None:
    command = getattr(programs, language)()
    serve = tmp_path / "minibroker"
    python = f"{shlex.quote(sys.executable)} -m tests.clients.recorded_serve"
    serve.write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    serve.chmod(0o755)
    environment = {**with_checkout(), "MINIBROKER_COMMAND": str(serve), CALLS: str(tmp_path / "calls")}
    run_to_success(command, cwd=tmp_path, env=environment, timeout=TIMEOUT)
    calls: dict[str, set[str]] = defaultdict(set)
    for line in (tmp_path / "calls").read_text().splitlines():
        call = json.loads(line)
        calls[call["operation"]] |= set(call["names"])
    missing = {
        name: names - calls[name] for name, names in operations().items() if name not in calls or names - calls[name]
    }
    assert missing == {}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_program_of_a_readme_is_one_of_the_client_s_tests(language: str) -> None:
    readme = (FOLDER / language / "README.md").read_text()
    blocks = re.findall(r"```(?:go|js|java|rust)\n(.*?)```", readme, re.DOTALL)
    program = [line.strip(" }\t") for line in blocks[0].splitlines() if "require(" not in line]
    suffix = {"node": "js", "rust": "rs"}.get(language, language)
    tests = "".join(path.read_text() for path in FOLDER.joinpath(language).rglob(f"*[tT]est*.{suffix}"))
    tests += "".join(path.read_text() for path in FOLDER.joinpath(language, "tests").glob("*.rs"))
    assert len(program) > 2
    for line in program:
        assert line in tests


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_types_of_answers_in_a_client_were_made_from_what_the_broker_answers(language: str) -> None:
    assert generate.is_current(language), "`make clients` writes them again"


def test_the_types_for_node_declare_each_method_that_there_is() -> None:
    methods = re.findall(r"^  (?:async )?(\w+)\(.*\{$", (FOLDER / "node/client.js").read_text(), re.MULTILINE)
    (declared,) = re.findall(
        r"^export class ControlClient \{\n(.*?)^\}", (FOLDER / "node/index.d.ts").read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(set(methods)) > len(operations())
    assert set(methods) == set(re.findall(r"^  (\w+)[<(]", declared, re.MULTILINE))


def test_the_reference_names_each_request_s_method_in_the_clients() -> None:
    methods = re.findall(r" Clients: `(\w+)`\.", (ROOT / "docs/control-plane.md").read_text())
    assert len(methods) == len(operations())
    java = (FOLDER / "java/src/main/java/minibroker/control/ControlClient.java").read_text()
    go = (FOLDER / "go/operations.go").read_text().lower()
    for method in methods:
        assert re.search(rf"^    public .* {method}\(", java, re.MULTILINE), method
        assert f"func (c *client) {method.lower()}(" in go, method


@pytest.mark.torture
def test_the_types_for_node_take_what_is_right_and_refuse_what_is_not(tmp_path: Path) -> None:
    node = tool("node")
    packages = programs.node_packages() / "node_modules"
    (tmp_path / "node_modules").symlink_to(packages)
    shutil.copy(programs.RUNNERS / "node" / "types.ts", tmp_path)
    options = ["--noEmit", "--strict", "--module", "nodenext", "--moduleResolution", "nodenext", "--types", "node"]
    command = [node, str(packages / "typescript/bin/tsc"), *options, "types.ts"]
    run_to_success(command, cwd=tmp_path, timeout=TIMEOUT)


def version(language: str) -> str:
    """Return the version that a client has, from the file that a release takes it from."""
    file, pattern = {
        "dotnet": ("dotnet/Minibroker.csproj", r"^    <Version>(.*)</Version>$"),
        "go": ("go/version.go", r'^const Version = "(.*)"$'),
        "java": ("java/pom.xml", r"^  <version>(.*)</version>$"),
        "node": ("node/package.json", r'^  "version": "(.*)",$'),
        "rust": ("rust/Cargo.toml", r'^version = "(.*)"$'),
    }[language]
    (found,) = re.findall(pattern, (FOLDER / file).read_text(), re.MULTILINE)
    return str(found)


@pytest.mark.parametrize("language", [*LANGUAGES, "dotnet"])
def test_a_client_can_be_released_beside_the_broker(language: str) -> None:
    assert version(language) == __version__
    assert (FOLDER / language / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert "docs/control-plane.md" in (FOLDER / language / "README.md").read_text()


@pytest.mark.parametrize(
    ("language", "file", "name"),
    [
        ("dotnet", "Minibroker.csproj", "<PackageId>Minibroker</PackageId>"),
        ("go", "go.mod", "module example.com/minibroker\n"),
        ("java", "pom.xml", "<groupId>minibroker</groupId>\n  <artifactId>minibroker-junit5</artifactId>"),
        ("node", "package.json", '"name": "minibroker"'),
        ("rust", "Cargo.toml", 'name = "minibroker"'),
    ],
)
def test_the_readme_and_the_control_plane_s_page_name_a_client_as_its_release_does(
    language: str, file: str, name: str
) -> None:
    assert name in (FOLDER / language / file).read_text()
    published = {"dotnet": "`Minibroker`", "go": "`example.com/minibroker`", "java": "`minibroker:minibroker-junit5`"}
    for page in (FOLDER / language / "README.md", ROOT / "docs/control-plane.md"):
        assert published.get(language, "`minibroker`") in page.read_text()


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("docs/test-go.md", "example.com/minibroker@v{}"),
        ("clients/java/README.md", "<version>{}</version>"),
        ("docs/ci.md", "registry.example.com/minibroker:{}"),
    ],
)
def test_a_page_names_the_version_of_the_checkout(page: str, text: str) -> None:
    assert text.format(__version__) in (ROOT / page).read_text()


def test_a_broker_ends_with_the_process_that_has_started_it(tmp_path: Path) -> None:
    program = f"require('{FOLDER}/node').start({{ stderr: null }}).then((b) => console.log(b.bootstrapServers))"
    forever = "; setInterval(() => {}, 1000)"
    environment = {**with_checkout(), "MINIBROKER_COMMAND": BINARY or str(Path(sys.executable).with_name("minibroker"))}
    environment["TMPDIR"] = str(tmp_path)
    with subprocess.Popen(
        [tool("node"), "-e", program + forever], env=environment, stdout=subprocess.PIPE, text=True
    ) as node:
        assert node.stdout is not None
        address = node.stdout.readline().strip()
        (data,) = tmp_path.glob("minibroker-*")
        node.kill()
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + PATIENCE_S
    while data.exists() and time.monotonic() < deadline:
        time.sleep(0.01)  # until another process has ended
    assert not data.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
