"""The image in place of Redpanda's: `redpanda start`, its files, rpk, the admin API, and starts by its modules."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tests.docker.boxes import Container, run_box
from tests.docker.engine import Engine
from tests.patience import PATIENCE_S
from tests.sweeps import one_in

STARTED = "Successfully started Redpanda!"
LOOP = """#!/usr/bin/env bash
until grep -q "# Injected by testcontainers" "/etc/redpanda/redpanda.yaml"
do
  sleep 0.1
done
exec /entrypoint.sh $@
"""
NODE = """# Injected by testcontainers
redpanda:
  admin: {{address: 0.0.0.0, port: 9644}}
  kafka_api:
    - {{address: 0.0.0.0, name: external, port: 9092, authentication_method: {login}}}
    - {{address: 0.0.0.0, name: internal, port: 9093, authentication_method: none}}
  advertised_kafka_api:
    - {{address: localhost, name: external, port: {port}}}
    - {{address: 127.0.0.1, name: internal, port: 9093}}
schema_registry:
  schema_registry_api:
  - {{address: "0.0.0.0", name: main, port: 8081, authentication_method: none}}
pandaproxy:
  pandaproxy_api:
    - {{address: 0.0.0.0, port: 8082, name: main}}
"""
BOOTSTRAP = """# Injected by testcontainers
superusers:
  - superuser
kafka_enable_authorization: {login}
auto_create_topics_enabled: true
"""


def asked(port: int, path: str, method: str = "GET", content: object = None) -> tuple[int, Any]:
    """Query the admin API, and return the status and the content."""
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def exchange(common: dict[str, str | int | float | bool]) -> None:
    """Produce, which creates the topic, and consume with a group."""
    producer = Producer(common)
    producer.produce("orders", b"value", b"key")
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({**common, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert message.error() is None
    assert (message.key(), message.value()) == (b"key", b"value")
    consumer.close()


def started_as_by_modules(boxes: Callable[..., Container], *, login: bool) -> tuple[Container, int]:
    """Start a container like the modules for Java and Go, and return it with the port of its Kafka API."""
    box = boxes(
        "--user",
        "0:0",
        entrypoint=[
            "/bin/sh",
            "-c",
            'until [ -x /entrypoint-tc.sh ]; do sleep 0.1; done; exec /entrypoint-tc.sh "$@"',
            "-",
        ],
        command=["redpanda", "start", "--mode=dev-container", "--smp=1", "--memory=1G"],
        ports=[9092, 9644, 8081, 8082],
    )
    port = box.port(9092)
    box.copy_in("/etc/redpanda/.bootstrap.yaml", BOOTSTRAP.format(login=str(login).lower()), 0o700)
    box.copy_in("/entrypoint-tc.sh", LOOP, 0o700)
    box.copy_in("/etc/redpanda/redpanda.yaml", NODE.format(login="sasl" if login else "none", port=port), 0o600)
    box.wait_for(STARTED)
    return box, port


def test_java_and_go_inject_a_configuration_and_wait_for_ports(boxes: Callable[..., Container]) -> None:
    box, port = started_as_by_modules(boxes, login=False)
    admin, registry, proxy = (box.port(each) for each in (9644, 8081, 8082))
    assert asked(admin, "/")[0] == 404
    assert asked(registry, "/subjects") == (200, [])
    status, content = asked(registry, "/subjects/orders-value/versions")
    assert (status, content["error_code"]) == (404, 40401)
    status, content = asked(proxy, "/topics")
    assert (status, content["code"]) == (404, 404)
    exchange({"bootstrap.servers": f"127.0.0.1:{port}"})


def test_go_makes_service_accounts_over_the_admin_api(boxes: Callable[..., Container]) -> None:
    box, port = started_as_by_modules(boxes, login=True)
    admin = box.port(9644)
    user = {"username": "superuser", "password": "secret", "algorithm": "SCRAM-SHA-256"}
    assert asked(admin, "/v1/security/users", "POST", user) == (200, {})
    assert asked(admin, "/v1/security/users") == (200, ["superuser"])
    exchange(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "superuser",
            "sasl.password": "secret",
        }
    )
    assert asked(admin, "/v1/security/users/superuser", "DELETE") == (200, {})
    assert asked(admin, "/v1/security/users/superuser", "DELETE")[0] == 404
    assert asked(admin, "/v1/security/users") == (200, [])


@pytest.mark.parametrize(
    "start",
    one_in(2, [
        ["redpanda", "start", "--check=false", "--node-id", "0", "--overprovisioned", "--reserve-memory", "0M",
         "--set", "redpanda.auto_create_topics_enabled=true", "--rpc-addr", "0.0.0.0:33145"],
        ["/usr/bin/rpk", "redpanda", "start", "--mode", "dev-container", "--smp", "1", "--memory", "1G"],
    ]),
    ids=["quarkus", "python"],
)  # fmt: skip
def test_python_node_dotnet_and_quarkus_start_by_rpk_with_options(
    boxes: Callable[..., Container], start: list[str]
) -> None:
    path = "/var/lib/redpanda/start.sh"
    box = boxes(
        entrypoint=["sh"], command=["-c", f"while [ ! -f {path} ]; do sleep 0.1; done; sh {path}"], ports=[9092]
    )
    port = box.port(9092)
    advertised = f"PLAINTEXT://box:29092,OUTSIDE://localhost:{port}"
    options = ["--kafka-addr", "PLAINTEXT://0.0.0.0:29092,OUTSIDE://0.0.0.0:9092", "--advertise-kafka-addr", advertised]
    box.copy_in(path, " ".join([*start, *options]) + "\n", 0o777)
    box.wait_for("Started Kafka API server")
    exchange({"bootstrap.servers": f"127.0.0.1:{port}"})
    brokers = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=PATIENCE_S).brokers
    assert [str(broker) for broker in brokers.values()] == [f"localhost:{port}/0"]


@pytest.fixture(scope="module")
def answers(engine: Engine, chosen: list[str]) -> dict[str, tuple[int, str]]:
    """Return what commands answer in a container that was started by the command in a Compose file."""
    with run_box(engine, command=["redpanda", "start", "--smp=1"], entrypoint=["/entrypoint.sh"]) as box:
        box.wait_for(STARTED)
        return box.execute_all(chosen)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("rpk cluster health", "Healthy:                          true\n"),
        ("rpk cluster health --exit-when-healthy", "All nodes:                        [0]\n"),
        ("rpk cluster health | grep -E 'Healthy:.+true' || exit 1", "true"),
        ("rpk cluster health -X brokers=localhost:9092 --hosts localhost:9644", "Controller ID:                    0"),
        ("rpk cluster info", "ID  HOST       PORT\n0*  127.0.0.1  9092\n"),
        ("rpk cluster info --brokers=localhost:9092", "BROKERS\n=======\n"),
        ("curl -f http://localhost:9644/v1/status/ready", '{"status":"ready"}'),
        ("curl -fail http://localhost:9644/v1/status/ready", "200"),
        ("wget -qO- http://localhost:9644/v1/cluster/health_overview", '"is_healthy":true'),
        ("rpk topic create orders -p 2 -r 1 -c retention.ms=86400000", "TOPIC   STATUS\norders  OK\n"),
        ("rpk topic create orders; test $? = 1", "orders  TOPIC_ALREADY_EXISTS: Topic 'orders' already exists."),
        ("rpk topic create --if-not-exists orders", "TOPIC_ALREADY_EXISTS"),
        ("rpk topic list --brokers localhost:9092", "NAME    PARTITIONS  REPLICAS\norders  2           1\n"),
        ("printf 'one\\ntwo\\n' | rpk topic produce orders -p 1 -k key", "Produced to partition 1 at offset 1 with "),
        ("rpk topic consume orders -n 1", '{\n  "topic": "orders",\n  "key": "key",\n  "value": "one",\n'),
        ("rpk topic consume orders -o :end -f '%t/%p/%o %v\\n'", "orders/1/0 one\norders/1/1 two\n"),
        ("rpk topic consume orders --group readers -n 2 -f '%v '", "one two "),
        ("rpk topic describe orders", "SUMMARY\n=======\nNAME        orders\nPARTITIONS  2\nREPLICAS    1\n"),
        ("rpk topic describe orders -c | grep retention.ms", "86400000"),
        ("rpk topic describe orders -p", "1          0       0      [0]       0                 2\n"),
        ("rpk topic delete orders", "orders  OK\n"),
        ("rpk topic create cached -c write.caching=true", "no effect: write.caching=true"),
        ("rpk cluster config set auto_create_topics_enabled true", "Successfully updated configuration."),
        ("kafka-topics --bootstrap-server localhost:9092 --list", ""),
        ("rpk topic; test $? = 1", "rpk topic: the following arguments are required"),
        ("rpk cluster health --api-urls localhost:1; test $? = 1", "localhost:1: Connection refused"),
        ("rpk cluster info --brokers nowhere:1; test $? = 1", "nowhere:1: "),
        ("redpanda start --kafka-addr no:port; test $? = 1", "--kafka-addr: 'no:port' is not [NAME://]HOST:PORT\n"),
    ],
)  # fmt: skip
def test_rpk_and_health_checks_in_the_container(answers: dict[str, tuple[int, str]], command: str, shown: str) -> None:
    status, output = answers[command]
    assert status == 0, output
    assert shown in output
