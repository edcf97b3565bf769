"""The tools without Kafka for comparison: names, logins, unreachable brokers, start-up."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from minibroker import Broker, Security
from minibroker_tools.client.settings import parse_addresses
from minibroker_tools.dispatch import TOOLS
from minibroker_tools.failures import ToolError
from tests.command_line_tools.runs import run_tool
from tests.patience import PATIENCE_S
from tests.programs import module_command, run_program, run_to_success


def test_a_tool_is_found_by_its_name_with_and_without_sh_and_by_its_class(broker: str) -> None:
    for words in (("kafka-topics",), ("kafka-topics.sh",), ("kafka-run-class", "kafka.admin.TopicCommand")):
        printed = run_tool(*words, "--bootstrap-server", broker, "--list")
        assert printed.status == 0, printed.err
    unknown = run_tool("kafka-frobnicate")
    assert unknown.status == 1
    assert unknown.err.startswith("minibroker-tools: kafka-frobnicate is not one of the tools")
    assert "Could not find or load main class org.example.Main" in run_tool("kafka-run-class", "org.example.Main").err


def test_a_link_named_after_a_tool_runs_it(broker: str, tmp_path: Path) -> None:
    program = tmp_path / "minibroker-tools"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom minibroker_tools.dispatch import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    link = tmp_path / "kafka-cluster.sh"
    link.symlink_to(program)
    printed = run_program(
        [str(link), "cluster-id", "--bootstrap-server", broker],
        cwd=Path(__file__).parents[2],
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert printed.stdout.startswith("Cluster ID: "), printed.stderr


def test_the_tool_of_redpanda_explains_itself_and_refuses_an_unknown_option() -> None:
    usage = run_tool("rpk", "--help")
    assert usage.status == 0
    assert usage.out.startswith("usage: rpk")
    refused = run_tool("rpk", "topic", "list", "--frobnicate")
    assert refused.status != 0
    assert "frobnicate" in refused.err


@pytest.mark.parametrize("tool", sorted(set(TOOLS) - {"rpk"}))
def test_every_tool_explains_itself_and_refuses_an_unknown_option(tool: str) -> None:
    usage = run_tool(tool, "--help")
    assert usage.status == 1
    assert f"usage: {tool}" in usage.err
    refused = run_tool(tool, "--frobnicate")
    assert (refused.status, refused.err) == (1, "frobnicate is not a recognized option\n")


def test_bootstrap_servers_may_have_schemes_and_no_host() -> None:
    assert parse_addresses("BROKER://kafka:29092, :9092,[::1]:1") == [("kafka", 29092), ("localhost", 9092), ("::1", 1)]
    for wrong in ("kafka", "kafka:none", "kafka:0", "kafka:99999"):
        with pytest.raises(ToolError, match=f"Invalid url in bootstrap.servers: {wrong}"):
            parse_addresses(wrong)


def test_a_peer_that_speaks_another_protocol_ends_a_tool_with_one_line(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=200\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        program = [*module_command("minibroker_tools"), "kafka-topics", "--list", "--bootstrap-server", address]
        with subprocess.Popen(
            [*program, "--command-config", str(config)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as tool:
            while tool.poll() is None:
                server.settimeout(0.05)
                try:
                    peer, _ = server.accept()
                except TimeoutError:
                    continue
                with peer:
                    peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            out, err = tool.communicate(timeout=PATIENCE_S)
    assert tool.returncode == 1
    assert address in out
    assert "Traceback" not in err


def test_cub_waits_for_as_many_brokers_as_it_is_told(broker: str) -> None:
    assert run_tool("cub", "kafka-ready", "-b", broker, "1", "5").status == 0
    assert run_tool("cub", "kafka-ready", "1", "5", "-b", f"PLAINTEXT://{broker}").status == 0
    too_few = run_tool("ub", "kafka-ready", "-b", broker, "2", "0.3")
    assert too_few.status == 1
    assert f"expected 2 brokers but found only 1 at {broker}" in too_few.err


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_properties_file_brings_a_login(mechanism: str, tmp_path: Path) -> None:
    with Broker(security=Security("SASL_PLAINTEXT", users={"alice": "a secret"})) as running:
        config = tmp_path / "client.properties"
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"

        def list_topics(password: str) -> tuple[int, str]:
            config.write_text(
                f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\ndefault.api.timeout.ms=5000\n"
                f"sasl.jaas.config=org.apache.kafka.common.security.{module} required \\\n"
                f'  username="alice" password="{password}";\n'
            )
            words = ("--bootstrap-server", running.bootstrap_servers, "--list", "--command-config", str(config))
            printed = run_tool("kafka-topics", *words)
            return printed.status, printed.out

        running.create_topic("orders")
        assert list_topics("a secret") == (0, "orders\n")
        status, text = list_topics("a guess")
        assert status == 1
        assert text.startswith("Error while executing topic command : Authentication failed")


def test_listing_topics_imports_neither_the_broker_nor_what_takes_long(broker: str) -> None:
    program = (
        "import json, sys\nfrom minibroker_tools.dispatch import main\n"
        f"main(['kafka-topics', '--bootstrap-server', {broker!r}, '--list'])\n"
        "from minibroker_protocol.lazy_imports import is_loaded\n"
        "print(json.dumps(sorted(filter(is_loaded, list(sys.modules)))))"
    )
    printed = run_to_success([sys.executable, "-c", program])
    imported = set(json.loads(printed.stdout.splitlines()[-1]))
    assert "minibroker_tools.commands.topics" in imported
    of_the_broker = {"minibroker.broker", "minibroker.cluster.core", "minibroker_storage"}
    assert not imported & {"asyncio", "ssl", "hashlib", *of_the_broker}
