"""`minibroker registry` and `minibroker serve --registry`, as processes of their own."""

import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient  # type: ignore[import-untyped] # it has no types

from minibroker import Broker, Message, Security
from tests.clients.broker_process import BrokerProcess
from tests.command_line_tools.test_zookeeper_server import ours
from tests.patience import PATIENCE_S
from tests.programs import module_command
from tests.registry.rest import Rest
from tests.registry.schemas import OTHER, V1, V2

Start = Callable[..., Rest]


@pytest.fixture
def start() -> Iterator[Start]:
    """A function that starts a registry beside a Kafka and returns a client of it."""
    processes: list[subprocess.Popen[str]] = []
    clients: list[Rest] = []

    def run(bootstrap: str, *options: str) -> Rest:
        command = [*module_command("minibroker"), "registry", "--listen", "127.0.0.1:0", "--bootstrap", bootstrap]
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("minibroker registry ready: "), line
        clients.append(Rest(line.split()[-1]))
        return clients[-1]

    yield run
    for client in clients:
        client.__exit__()
    for process in processes:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        assert process.stdout is not None
        process.stdout.close()


def test_a_registry_beside_a_broker_keeps_its_schemas_there(start: Start) -> None:
    with Broker() as broker:
        rest = start(broker.bootstrap_servers, "--compatibility", "FULL")
        assert rest.get("/subjects") == []
        assert rest.get("/config") == {"compatibilityLevel": "FULL"}
        assert rest.register("a", V1) == 1
        assert rest.register("a", V2) == 2
        topic = broker.topics()["_schemas"]
        assert (topic.partitions, topic.configs) == (1, {"cleanup.policy": "compact"})
        clusters = rest.get("/v1/metadata/id")["scope"]["clusters"]
        assert clusters["kafka-cluster"] == broker.services.core.cluster.cluster_id
        again = start(broker.bootstrap_servers)
        assert again.get("/subjects/a/versions") == [1, 2]
        assert again.register("b", OTHER) == 3
        assert rest.get("/subjects") == ["a", "b"]


def test_a_registry_beside_a_broker_sees_what_happens_to_the_topic(start: Start) -> None:
    with Broker() as broker:
        rest = start(broker.bootstrap_servers)
        rest.register("a", V1)
        broker.produce("_schemas", Message(key='{"keytype":"NOOP","magic":0}', value=None))
        assert rest.get("/subjects") == ["a"]
        broker.delete_topic("_schemas")
        assert rest.get("/subjects") == []
        assert rest.register("a", V2) == 2
        assert rest.refusal(
            "POST", "/subjects/b/versions", {"schema": V1, "metadata": {"properties": {"x": "y" * 2_000_000}}}
        ) == (422, 42209)


def test_a_registry_survives_a_broker_that_is_away(start: Start, tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        address = broker.bootstrap_servers
        rest = start(address)
        rest.register("a", V1)
    with Broker(data_dir=tmp_path, listen=address):
        assert rest.get("/subjects") == ["a"]
        assert rest.register("b", V2) == 2


def test_a_registry_logs_in_with_client_properties(start: Start, tmp_path: Path) -> None:
    security = Security("SASL_PLAINTEXT", users={"alice": "secret"})
    with Broker(security=security) as broker:
        properties = tmp_path / "client.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in security.java("alice").items()))
        rest = start(broker.bootstrap_servers, "--config", str(properties), "--token", "secret")
        assert rest.ask("GET", "/subjects").status == 401
        assert rest.ask("GET", "/subjects", headers={"Authorization": "Bearer secret"}).body == []


def test_a_registry_speaks_tls_with_a_certificate_of_its_own(start: Start) -> None:
    security = Security("SSL")
    with Broker() as broker:
        certificate = [f"server.{key}={value}" for key, value in security.settings().items() if "keystore" in key]
        words = [word for setting in certificate for word in ("--set", setting)]
        url = start(broker.bootstrap_servers, "--listen", "https://127.0.0.1:0", *words).url
        assert url.startswith("https://")
        context = ssl.create_default_context(cafile=security.librdkafka()["ssl.ca.location"])
        with urllib.request.urlopen(f"{url}/subjects", context=context, timeout=PATIENCE_S) as answer:
            assert answer.read() == b"[]"


def test_a_registry_finds_the_brokers_in_a_zookeeper(start: Start) -> None:
    with ours() as (port, _), ThreadPoolExecutor(1) as pool, Broker() as broker:
        starting = pool.submit(start, f"zookeeper://127.0.0.1:{port}")
        client: Any = KazooClient(f"127.0.0.1:{port}")
        client.start(PATIENCE_S)
        registered = {"endpoints": [f"PLAINTEXT://{broker.bootstrap_servers}"]}
        client.create("/brokers/ids/1", json.dumps(registered).encode(), makepath=True)
        client.stop()
        client.close()
        assert starting.result(PATIENCE_S).register("a", V1) == 1
        assert len(broker.records("_schemas")) == 1


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    for options, message in (
        (["--bootstrap", "nowhere"], "Invalid url in bootstrap.servers: nowhere"),
        (["--bootstrap", "127.0.0.1:9092", "--listen", "x"], "--listen: 'x' is not HOST:PORT"),
        (["--bootstrap", "127.0.0.1:9092", "--config", str(tmp_path / "none")], "No such file"),
    ):
        completed = subprocess.run(
            [*module_command("minibroker"), "registry", *options],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert completed.returncode == 1
        assert message in completed.stderr


def test_a_served_broker_tells_where_its_registry_is(broker_process: Callable[..., BrokerProcess]) -> None:
    served = broker_process("--registry", "127.0.0.1:0")
    with Rest(served.words["registry"]) as rest:
        assert rest.register("a", V1) == 1
        assert rest.get("/subjects") == ["a"]
    served.terminate()
    assert os.path.basename(sys.executable)
