"""kafka-configs and kafka-storage on this broker and its directories."""

import re
import socket
from pathlib import Path

import pytest

from minibroker import Broker
from minibroker_tools.commands import common
from tests.command_line_tools.runs import IN_THIS_PROCESS, run_tool


def properties_of(directory: Path, *, roles: str = "broker,controller") -> str:
    path = directory / "server.properties"
    path.write_text(f"process.roles={roles}\nnode.id=3\nlog.dirs={directory / 'data'}\n")
    return str(path)


def test_random_ids_are_ids_of_clusters() -> None:
    ids = {run_tool("kafka-storage", "random-uuid").out for _ in range(20)}
    assert len(ids) == 20
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}\n", cluster_id) for cluster_id in ids)


def test_a_formatted_directory_is_that_of_the_broker_with_its_scram_users(tmp_path: Path) -> None:
    config = properties_of(tmp_path)
    words = ("kafka-storage", "format", "-t", "any text", "-c", config)
    formatted = run_tool(*words, "--add-scram", "SCRAM-SHA-256=[name=alice,password=secret]")
    data = tmp_path / "data"
    assert formatted.out == f"Formatting metadata directory {data} with metadata.version 3.9-IV0.\n"
    again = run_tool(*words)
    assert (again.status, "is already formatted. Use --ignore-formatted" in again.err) == (1, True)
    assert run_tool(*words, "--ignore-formatted").out == "All of the log directories are already formatted.\n"
    assert "Found metadata: {cluster.id=any text, directory.id=" in run_tool("kafka-storage", "info", "-c", config).out
    with Broker(data_dir=str(data)) as broker:
        servers = broker.bootstrap_servers
        assert run_tool("kafka-cluster", "cluster-id", "--bootstrap-server", servers).out == "Cluster ID: any text\n"
        shown = run_tool("kafka-configs", "--bootstrap-server", servers, "--describe", "--entity-type", "users")
        assert shown.out == "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=4096\n"


@pytest.mark.parametrize(
    ("credential", "message"),
    [
        ("SCRAM-MD5=[name=a,password=b]", "Failed to parse SCRAM-MD5"),
        ("SCRAM-SHA-256=[password=b]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,password=b,iterations=1]", "The 'iterations' value must be >= 4096"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=!,salt=YQ==]", "Failed to decode given saltedpassword: !"),
    ],
)
def test_wrong_credentials_format_nothing(credential: str, message: str, tmp_path: Path) -> None:
    words = ("kafka-storage", "format", "-t", "x", "-c", properties_of(tmp_path), "--add-scram", credential)
    refused = run_tool(*words)
    assert refused.status == 1
    assert refused.err.startswith(message)
    assert not (tmp_path / "data").exists()


def test_a_configuration_without_roles_or_file_formats_nothing(tmp_path: Path) -> None:
    words = ("kafka-storage", "format", "-t", "x", "-c")
    assert "a legacy cluster" in run_tool(*words, properties_of(tmp_path, roles="")).err
    assert run_tool(*words, str(tmp_path / "missing")).err == f"{tmp_path / 'missing'}: No such file or directory\n"


def test_brackets_and_files_carry_lists(tmp_path: Path) -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        servers = broker.bootstrap_servers
        alter = f"kafka-configs --bootstrap-server PLAINTEXT://{servers} --alter --topic orders".split()
        assert run_tool(*alter, "--add-config", "cleanup.policy=[compact,delete],retention.ms=7").status == 0
        config = tmp_path / "topic.properties"
        config.write_text("segment.ms=9\n")
        assert run_tool(*alter, "--add-config-file", str(config)).status == 0
        describe = f"kafka-configs --bootstrap-server {servers} --describe --topic orders"
        shown = run_tool(*describe.split()).out.splitlines()
        assert [line.split(" sensitive")[0].strip() for line in shown] == [
            "Dynamic configs for topic orders are:", "cleanup.policy=compact,delete", "retention.ms=7", "segment.ms=9"
        ]  # fmt: skip


def test_zookeeper_means_the_broker_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker() as broker:
        monkeypatch.setenv("MINIBROKER_TOOLS_BOOTSTRAP", broker.bootstrap_servers)
        change = "--alter --entity-type users --entity-name bob --add-config SCRAM-SHA-512=[password=x]"
        altered = run_tool("kafka-configs", "--zookeeper", "localhost:2181", *change.split())
        assert altered.out == "Completed updating config for user bob.\n"
        assert "no ZooKeeper is asked at localhost:2181" in altered.err
        created = run_tool("kafka-topics", "--zookeeper", "localhost:2181", "--create", "--topic", "orders")
        assert created.out == "Created topic orders.\n"
        assert list(broker.topics()) == ["orders"]


@IN_THIS_PROCESS
def test_zookeeper_means_the_default_port_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MINIBROKER_TOOLS_BOOTSTRAP", raising=False)
    with Broker(topics=["a"]) as broker, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        monkeypatch.setattr(common, "_LOCAL_ADDRESS", broker.bootstrap_servers)
        listed = run_tool("kafka-topics", "--zookeeper", f"127.0.0.1:{nobody.getsockname()[1]}/kafka", "--list")
        assert listed.out == "a\n"
        assert f"The broker at {broker.bootstrap_servers} takes its place" in listed.err
