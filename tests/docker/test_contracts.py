"""The sequences by which each Testcontainers module starts a broker, performed step by step with the image.

A test replaces entry point and command, copies files in with their modes and owners, and waits for the module's log
line on its stream. It runs the module's commands inside. In the end a real client produces and consumes.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.docker.boxes import Container
from tests.docker.test_redpanda import exchange
from tests.patience import PATIENCE_S
from tests.sweeps import one_in

RUNNING = "Transitioning from RECOVERY to RUNNING"
PUBLISHED = ("--publish", "127.0.0.1:9092:9092")
READ_ONLY = ("--read-only", "--tmpfs", "/tmp")
KRAFT = {
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093, CONTROLLER://:9094",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_NODE_ID": "1",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
PUBLIC_9093 = {
    **KRAFT,
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094",
    "KAFKA_REST_BOOTSTRAP_SERVERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094",
}
ZOOKEEPER = {
    name: value
    for name, value in {**PUBLIC_9093, "KAFKA_BROKER_ID": "1"}.items()
    if name not in {"CLUSTER_ID", "KAFKA_PROCESS_ROLES", "KAFKA_CONTROLLER_QUORUM_VOTERS", "KAFKA_NODE_ID"}
}


def loop(path: str, *, test: str = "-f", run: str = "") -> str:
    """Return the command that waits for a script and runs it."""
    return f"while [ ! {test} {path} ]; do sleep 0.1; done; {run}{path}"


def use(port: int) -> None:
    """Create a topic, produce and consume with a group, as a client that connects to 127.0.0.1:`port`."""
    common: dict[str, str | int | float | bool] = {"bootstrap.servers": f"127.0.0.1:{port}"}
    admin: Any = AdminClient(common)  # its stubs leave out what a future has
    admin.create_topics([NewTopic("orders", 2, 1)], operation_timeout=PATIENCE_S)["orders"].result(PATIENCE_S)
    brokers = admin.list_topics(timeout=PATIENCE_S).brokers.values()
    assert [str(broker) for broker in brokers] == [f"localhost:{port}/1"]
    exchange(common)


def passes(box: Container, command: Sequence[str]) -> bool:
    """Return whether a command in the container ends with status 0."""
    return box.execute(command).returncode == 0


@pytest.mark.torture  # the modules themselves: test_testcontainers.py
@pytest.mark.parametrize("run", ["/etc/kafka/docker/run", "/etc/confluent/docker/run"])
def test_java_and_dotnet_copy_a_script_that_ends_in_run(boxes: Callable[..., Container], run: str) -> None:
    path = "/tmp/testcontainers_start.sh"
    box = boxes(command=["sh", "-c", loop(path)], environment=KRAFT, ports=[9092])
    port = box.port(9092)
    advertised = f"PLAINTEXT://localhost:{port},BROKER://box:9093"
    script = f"#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS={advertised}\n{run}\n"
    box.copy_in(path, script, 0o777)
    box.wait_for(RUNNING)
    use(port)


def test_dotnet_advertises_with_a_trailing_comma_and_executes_run(boxes: Callable[..., Container]) -> None:
    path = "/testcontainers.sh"
    environment = {**ZOOKEEPER, "KAFKA_NODE_ID": "1", "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181"}
    box = boxes(entrypoint=["/bin/sh", "-c"], command=[loop(path)], environment=environment, ports=[9093])
    port = box.port(9093)
    script = (
        "#!/bin/bash\n"
        f"export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:{port},BROKER://{box.address}:9092,\n"
        "echo '' > /etc/confluent/docker/ensure\n"
        "exec /etc/confluent/docker/run\n"
    )
    box.copy_in(path, script, 0o755)
    box.wait_for("[KafkaServer id=1] started")
    use(port)


@pytest.mark.parametrize("storage", one_in(2, [True, False]), ids=["kafka-storage", "no kafka-storage"])
def test_go_edits_configure_and_empties_ensure(boxes: Callable[..., Container], *, storage: bool) -> None:
    path = "/usr/sbin/testcontainers_start.sh"
    box = boxes(entrypoint=["sh"], command=["-c", loop(path, run="bash ")], environment=PUBLIC_9093, ports=[9093])
    port = box.port(9093)
    configure = "/etc/confluent/docker/configure"
    step = 'kafka-storage format --ignore-formatted -t "$(kafka-storage random-uuid)" -c /etc/kafka/kafka.properties'
    script = (
        "#!/bin/bash\nsource /etc/confluent/docker/bash-config\n"
        f"export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:{port},BROKER://box:9092\n"
        f"sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' {configure}\n"
        + (f"echo '{step}' >> {configure}\n" if storage else "")
        + f"echo '' > /etc/confluent/docker/ensure\n{configure}\n/etc/confluent/docker/launch\n"
    )
    box.copy_in(path, script, 0o755)
    box.wait_for(RUNNING)
    use(port)


def test_a_directory_of_another_cluster_is_refused_before_the_start(boxes: Callable[..., Container]) -> None:
    step = 'kafka-storage format -t "$(kafka-storage random-uuid)" -c /etc/kafka/kafka.properties'
    command = f"/etc/confluent/docker/configure && {step} && exec /etc/confluent/docker/run"
    box = boxes(entrypoint=["bash", "-c"], command=[command], environment=PUBLIC_9093)
    assert box.wait() == 1
    assert f"not to {PUBLIC_9093['CLUSTER_ID']}\n" in box.logs("stderr")


def test_strimzi_executes_a_script_that_only_roots_group_may_in_kafkas_folder(boxes: Callable[..., Container]) -> None:
    path = "/testcontainers_start.sh"
    box = boxes(command=["sh", "-c", loop(path, test="-x")], ports=[9092])
    port = box.port(9092)
    config = "config/kraft/server.properties"
    properties = f"node.id=1\nlisteners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://localhost:{port}\n"
    box.copy_in(f"/opt/kafka/{config}", properties, 0o644)
    box.copy_in(path, f"#!/bin/bash\nbin/kafka-server-start.sh {config}\n", 0o1274)
    box.wait_for("Kafka Server started")
    use(port)


def test_java_before_1_18_and_node_alter_the_advertised_listeners_of_a_broker_that_runs(
    boxes: Callable[..., Container],
) -> None:
    body = (
        "echo 'clientPort=2181' > zookeeper.properties\n"
        "zookeeper-server-start zookeeper.properties &\n"
        "echo '' > /etc/confluent/docker/ensure\n"
        "/etc/confluent/docker/run\n"
    )
    advertised = {"KAFKA_ADVERTISED_LISTENERS": "BROKER://box:9092", "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181"}
    box = boxes(command=["sh", "-c", body], environment={**ZOOKEEPER, **advertised}, ports=[9093])
    port = box.port(9093)
    for each in (9093, 2181):
        check = ["/bin/sh", "-c", f"nc -vz -w 1 localhost {each}"]
        box.wait_until(lambda check=check: box.execute(check).returncode == 0, f"port {each}")  # type: ignore[misc] # mypy cannot infer a lambda's default
    new = f"advertised.listeners=[PLAINTEXT://localhost:{port},BROKER://box:9092]"
    alter = ["kafka-configs", "--alter", "--bootstrap-server", "BROKER://box:9092", "--entity-type", "brokers"]
    done = box.execute([*alter, "--entity-name", "1", "--add-config", new])
    assert done.returncode == 0, done.stdout + done.stderr
    use(port)


@pytest.mark.torture  # like Java before 1.18
def test_rusts_confluent_module_alters_them_after_its_line_on_stdout(boxes: Callable[..., Container]) -> None:
    docker = "/etc/confluent/docker"
    body = (
        "echo 'clientPort=2181' > zookeeper.properties\nzookeeper-server-start zookeeper.properties &\n"
        f". {docker}/bash-config\n{docker}/configure\n{docker}/launch\n"
    )
    advertised = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9093,BROKER://localhost:9092"}
    box = boxes(entrypoint=["/bin/bash", "-c"], command=[body], environment={**ZOOKEEPER, **advertised}, ports=[9093])
    port = box.port(9093)
    box.wait_for("Creating new log file", "stdout")
    new = f"advertised.listeners=[PLAINTEXT://localhost:{port},BROKER://localhost:9092]"
    alter = ["kafka-configs", "--alter", "--bootstrap-server", "0.0.0.0:9092", "--entity-type", "brokers"]
    done = box.execute([*alter, "--entity-name", "1", "--add-config", new])
    assert done.returncode == 0, done.stdout + done.stderr
    box.wait_for("Checking need to trigger auto leader balancing", "stdout")
    use(port)


def test_users_that_are_added_with_the_format_of_the_directory_may_log_in(boxes: Callable[..., Container]) -> None:
    user = "SCRAM-SHA-256=[name=admin,password=admin]"
    step = f"kafka-storage format --ignore-formatted -t $CLUSTER_ID --add-scram '{user}' -c /etc/kafka/kafka.properties"
    command = f'echo "{step}" >> /etc/confluent/docker/configure; exec /etc/confluent/docker/run'
    environment = {
        **KRAFT,
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092,BROKER://box:9093",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_LISTENER_NAME_PLAINTEXT_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-256",
    }
    box = boxes(command=["bash", "-c", command], environment=environment)
    box.wait_for(RUNNING)
    settings = (
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config="
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="{}";\n'
    )
    for password, status in (("admin", 0), ("wrong", 1)):
        box.copy_in("/tmp/client.properties", settings.format(password), 0o644)
        command = "kafka-topics --bootstrap-server localhost:9092 --list --command-config /tmp/client.properties"
        done = box.execute(command.split())
        assert done.returncode == status, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("entrypoint", "command"),
    one_in(
        4,
        [
            ((), ()),
            (["/opt/bitnami/scripts/kafka/entrypoint.sh"], ["/opt/bitnami/scripts/kafka/run.sh"]),
            (["bash", "-c"], ["echo before && exec /entrypoint.sh /run.sh"]),
            ((), ["start-kafka.sh"]),
            ((), ["bash", "-c", "/etc/confluent/docker/configure && /etc/confluent/docker/launch"]),
            ((), ["kafka-server-start.sh", "/opt/kafka/config/server.properties"]),
            (["/work/kafka"], ["-Dkafka.advertised.listeners=PLAINTEXT://localhost:9092"]),
        ],
    ),
)
def test_commands_of_compose_files_start_a_broker(
    boxes: Callable[..., Container], entrypoint: Sequence[str], command: Sequence[str]
) -> None:
    box = boxes(entrypoint=entrypoint, command=command, environment={"KAFKA_NUM_PARTITIONS": "3"})
    box.wait_for("Kafka Server started")
    checked = box.execute(["minibroker-health"])
    assert (checked.returncode, checked.stdout) == (0, "")
    assert box.stop() == 0, box.logs()


@pytest.mark.parametrize(
    "command",
    one_in(
        3,
        [
            ["bash", "-c", "KAFKA_LISTENERS=PLAINTEXT://:19092 KAFKA_PROCESS_ROLES=broker exec /etc/kafka/docker/run"],
            ["minibroker", "serve", "--listen", "0.0.0.0:19092"],
            ["redpanda", "start", "--kafka-addr", "internal://0.0.0.0:19092,external://0.0.0.0:29092"],
        ],
    ),
)
def test_the_health_check_asks_the_listeners_that_there_are(
    boxes: Callable[..., Container], command: list[str]
) -> None:
    box = boxes(command=command)
    box.wait_for("minibroker ready")
    assert box.execute(["nc", "-z", "localhost", "9092"]).returncode == 1
    checked = box.execute(["minibroker-health"])
    assert (checked.returncode, checked.stdout) == (0, "")


@pytest.mark.torture  # like Go, with a file that is moved
def test_ruby_moves_a_script_as_root_and_formats_before_run(boxes: Callable[..., Container]) -> None:
    path = "/testcontainers-kafka-start.sh"
    environment = {name: value for name, value in PUBLIC_9093.items() if name != "CLUSTER_ID"}
    both = {**environment, **{name.replace("KAFKA_", "KAFKA_CFG_", 1): value for name, value in environment.items()}}
    box = boxes(entrypoint=["/bin/bash", "-c"], command=[loop(path)], environment=both, ports=[9093])
    port = box.port(9093)
    script = (
        "#!/bin/bash\n"
        f"export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:{port},BROKER://localhost:9092\n"
        "export KAFKA_CFG_ADVERTISED_LISTENERS=$KAFKA_ADVERTISED_LISTENERS\n"
        "[ -f /var/lib/kafka/data/meta.properties ] || "
        "kafka-storage format --config /etc/kafka/kraft/server.properties "
        "--cluster-id MkU3OEVBNTcwNTJENDM2Qk== --ignore-formatted\n"
        "exec /etc/confluent/docker/run\n"
    )
    box.copy_in("/tmp/start.sh", script, 0o600)
    for command in (["chmod", "777", "/tmp/start.sh"], ["mv", "/tmp/start.sh", path]):
        assert box.execute(command, user="0:0").returncode == 0
    box.wait_for("Kafka Server started")
    use(port)


@pytest.mark.torture  # like Java before 1.18
@pytest.mark.usefixtures("fixed_ports")
def test_elixir_starts_inline_and_asks_two_tools(boxes: Callable[..., Container]) -> None:
    environment = {
        **ZOOKEEPER,
        "KAFKA_LISTENERS": "BROKER://0.0.0.0:9093,OUTSIDE://0.0.0.0:9092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "KAFKA_ADVERTISED_LISTENERS": "BROKER://localhost:9093,OUTSIDE://localhost:9092",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181",
    }
    script = (
        "echo 'clientPort=2181' > zookeeper.properties; zookeeper-server-start zookeeper.properties & "
        "echo '' > /etc/confluent/docker/ensure; /etc/confluent/docker/run"
    )
    box = boxes(*PUBLISHED, command=["sh", "-c", script], environment=environment)
    for command in (["kafka-topics", "--list"], ["kafka-broker-api-versions"]):
        asked = [*command, "--bootstrap-server", "localhost:9092"]
        box.wait_until(functools.partial(passes, box, asked), command[0])
    use(9092)


@pytest.mark.usefixtures("fixed_ports")
def test_playtika_makes_topics_and_rights_with_tools(boxes: Callable[..., Container]) -> None:
    environment = {
        **ZOOKEEPER,
        "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,SASL_PLAINTEXT://0.0.0.0:9095",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092,SASL_PLAINTEXT://localhost:9095",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
        "KAFKA_OPTS": "-Djava.security.auth.login.config=/etc/kafka/kafka_server_jaas.conf",
        "KAFKA_AUTHORIZER_CLASS_NAME": "kafka.security.authorizer.AclAuthorizer",
        "KAFKA_ALLOW_EVERYONE_IF_NO_ACL_FOUND": "true",
        "KAFKA_SUPER_USERS": "User:ANONYMOUS",
        "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181",
    }
    path = "/testcontainers_start.sh"
    box = boxes(*PUBLISHED, command=["sh", "-c", loop(path)], environment=environment)
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice='secret';"
    box.copy_in("/etc/kafka/kafka_server_jaas.conf", f"KafkaServer {{ {login} }};\n", 0o644)
    box.copy_in(path, "#!/bin/bash\necho '' > /etc/confluent/docker/ensure\n/etc/confluent/docker/run\n", 0o777)
    zookeeper = "--authorizer-properties zookeeper.connect=localhost:2181"
    for command in (
        "cub kafka-ready 1 30 -b localhost:9092",
        "kafka-topics --create --topic audit --partitions 3 --if-not-exists --bootstrap-server localhost:9092",
        f"kafka-acls {zookeeper} --add --allow-principal User:alice --producer --topic audit",
        f"kafka-acls {zookeeper} --add --allow-principal User:alice --consumer --topic audit --group *",
    ):
        done = box.execute(command.split())
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}{box.logs()}"
    use(9092)


@pytest.mark.parametrize("start", one_in(3, ["/etc/kafka/docker/run", "/etc/confluent/docker/run", None]))
def test_the_user_may_be_any_of_group_root(boxes: Callable[..., Container], start: str | None) -> None:
    """OpenShift assigns a uid to each project. `docker run --user 12345` also has the group root."""
    entrypoint = () if start is None else [start]
    address = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092"}
    options = ["--user", "12345:0", *(READ_ONLY if start is None else ())]
    box = boxes(*options, entrypoint=entrypoint, environment=address)
    box.wait_for(RUNNING)
    made = box.execute(["kafka-topics", "--bootstrap-server", "localhost:9092", "--create", "--topic", "orders"])
    assert made.returncode == 0, made.stderr
    assert box.execute(["minibroker-health"]).returncode == 0


def test_a_keystore_that_is_missing_ends_the_container_with_one_line(boxes: Callable[..., Container]) -> None:
    environment = {"KAFKA_LISTENERS": "SSL://:9093", "KAFKA_SSL_KEYSTORE_CREDENTIALS": "missing"}
    box = boxes(environment=environment)
    assert box.wait() == 1
    assert box.logs() == (
        "minibroker container: KAFKA_SSL_KEYSTORE_CREDENTIALS: /etc/kafka/secrets/missing: No such file or directory; "
        "mount the file there\n"
    )
