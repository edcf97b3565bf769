"""Kafka log lines by which programs recognize a started broker, for `MINIBROKER_LOG_LINES=kafka`.

Testcontainers modules and Compose files wait for one of these lines in a container's output. Which one depends on the
module and its version. The lines are written once clients can connect: first a line of ZooKeeper, then the lines of
Kafka 3.9 in Kafka's order (`BrokerServer`, `KafkaRaftServer`), then those of a broker with ZooKeeper (`KafkaServer`).
"""

import sys
from collections.abc import Iterable
from datetime import datetime


def write_broker_lines(node_id: int, listeners: Iterable[tuple[str, str]]) -> None:
    """Write the lines of a broker to stdout. `listeners` contains names and addresses (HOST:PORT)."""
    lifecycle = f"[BrokerLifecycleManager id={node_id}]"
    _write(
        "INFO Creating new log file: log.1 (org.apache.zookeeper.server.persistence.FileTxnLog)",
        f"INFO {lifecycle} The broker is in RECOVERY. (kafka.server.BrokerLifecycleManager)",
        *(
            f"INFO Awaiting socket connections on {address}. (kafka.network.DataPlaneAcceptor)"
            for _, address in listeners
        ),
        f"INFO {lifecycle} The broker has been unfenced. Transitioning from RECOVERY to RUNNING. "
        "(kafka.server.BrokerLifecycleManager)",
        f"INFO [BrokerServer id={node_id}] Transition from STARTING to STARTED (kafka.server.BrokerServer)",
        f"INFO [KafkaRaftServer nodeId={node_id}] Kafka Server started (kafka.server.KafkaRaftServer)",
        f"INFO [KafkaServer id={node_id}] started (kafka.server.KafkaServer)",
        "INFO Kafka broker started",
        f"TRACE [Controller id={node_id}] Checking need to trigger auto leader balancing "
        "(kafka.controller.KafkaController)",
    )


def write_redpanda_lines(listeners: Iterable[tuple[str, str]]) -> None:
    """Write the lines by which programs recognize a started Redpanda broker."""
    addresses = ", ".join(f"{{{name}:{address}}}" for name, address in listeners)
    _write(
        f"INFO  redpanda::main - application.cc - Started Kafka API server listening at {addresses}",
        "INFO  redpanda::main - application.cc - Successfully started Redpanda!",
    )


def write_controller_lines(node_id: int) -> None:
    """Write the lines of a controller without a broker to stdout."""
    _write(
        f"INFO [ControllerServer id={node_id}] Transition from STARTING to STARTED (kafka.server.ControllerServer)",
        f"INFO [KafkaRaftServer nodeId={node_id}] Kafka Server started (kafka.server.KafkaRaftServer)",
    )


def _write(*lines: str) -> None:
    time = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
    sys.stdout.write("".join(f"[{time}] {line}\n" for line in lines))
    sys.stdout.flush()
