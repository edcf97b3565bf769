"""The examples of docs/control-plane.md run unchanged, in every language whose tools are installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minibroker import Broker
from tests.clients.toolchains import tool
from tests.documented import code
from tests.programs import run_program, run_to_success

PAGE = "docs/control-plane.md"


def run(command: list[str], broker: Broker, **more: str) -> str:
    environment = {**os.environ, "CONTROL": broker.control_url, **more}
    result = run_to_success(command, env=environment)
    return result.stdout


@pytest.mark.slow
def test_the_page_can_be_pasted_from_its_beginning() -> None:
    _, serve, address = code(PAGE, "The control plane", "sh")
    assert serve.split()[-1] in address
    command = [sys.executable, "-m", *serve.replace("127.0.0.1:9900", "127.0.0.1:0").split(), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            ready = broker.stdout.readline()
            url = next(word.removeprefix("control=") for word in ready.split() if word.startswith("control="))
            shell = "\n".join([address.replace("http://127.0.0.1:9900", url), *code(PAGE, "curl", "sh")])
            done = run_to_success([tool("sh"), "-euc", shell])
        finally:
            broker.terminate()
    assert '"value":{"id":1,"state":"new"}' in done.stdout
    assert '"error":"NOT_LEADER_OR_FOLLOWER"' in done.stdout


def test_curl_shows_the_message_of_a_failure(broker: Broker) -> None:
    line = next(line for line in code(PAGE, "curl", "sh")[0].replace("\\\n", "").splitlines() if "/expect" in line)
    command = [tool("sh"), "-euc", line.replace('"timeout": 5', '"timeout": 0')]
    environment = {**os.environ, "CONTROL": broker.control_url}
    done = run_program(command, env=environment)
    assert done.returncode == 22
    assert "expected 1 record in 'orders' within 0 s; there is no topic 'orders'" in done.stdout


@pytest.mark.parametrize("number", [0, 1])
def test_curl(broker: Broker, number: int) -> None:
    tool("curl")
    output = run([tool("sh"), "-euc", code(PAGE, "curl", "sh")[number]], broker)
    if not number:
        assert '"value":{"id":1,"state":"new"}' in output


def test_python(broker: Broker) -> None:
    (program,) = code(PAGE, "Python", "python")
    run([sys.executable, "-c", program], broker)
    assert [record.json() for record in broker.records("orders")] == [{"id": 1}]


@pytest.mark.toolchain
def test_node(broker: Broker) -> None:
    (program,) = code(PAGE, "Node", "js")
    assert run([tool("node"), "-e", program], broker) == "1\n"


@pytest.mark.torture
@pytest.mark.toolchain
def test_java(broker: Broker, tmp_path: Path) -> None:
    (program,) = code(PAGE, "Java", "java")
    (tmp_path / "Control.java").write_text(program)
    assert '"value":{"id":1}' in run([tool("java"), str(tmp_path / "Control.java")], broker)


@pytest.mark.toolchain
def test_go(broker: Broker, tmp_path: Path) -> None:
    (program,) = code(PAGE, "Go", "go")
    (tmp_path / "control.go").write_text(program)
    # The flags are those of the other builds, whose compiled standard library is in Go's cache.
    command = [tool("go"), "run", "-trimpath", "-buildvcs=false", str(tmp_path / "control.go")]
    assert '"value":{"id":1}' in run(command, broker, GO111MODULE="off", CGO_ENABLED="0")
