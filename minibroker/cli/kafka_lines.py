"""Kafka log lines by which programs recognize a started broker, for `MINIBROKER_LOG_LINES=kafka`.

Testcontainers modules and Compose files wait for one of these lines in a container's output. Which one depends on the
module and its version. The lines are written once clients can connect: first a line of ZooKeeper, then the lines of
Kafka 3.9 in Kafka's order (`BrokerServer`, `KafkaRaftServer`), then those of a broker with ZooKeeper (`KafkaServer`).
"""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from minibroker.config.keys import ConfigResourceType

if TYPE_CHECKING:
    from minibroker.cluster.core import Core

_WITH_KAFKA_LINES: Final = frozenset({"kafka", "redpanda"})
_BALANCING_DELAY_S: Final = 5
"""The seconds after which Kafka's controller checks for the first time whether leaders are balanced."""


def write_ready_lines(node_id: int, listeners: Sequence[tuple[str, str]]) -> None:
    """Write the lines that MINIBROKER_LOG_LINES selects: Kafka's for `kafka`, Redpanda's and Kafka's for `redpanda`.

    Args:
        node_id: The id of the broker.
        listeners: The name of each listener, and the HOST:PORT to which it is bound.
    """
    if _selected_lines() == "redpanda":
        _write_redpanda_lines(listeners)
    if _selected_lines() in _WITH_KAFKA_LINES:
        _write_broker_lines(node_id, listeners)


def schedule_balancing_line(core: "Core") -> None:
    """Schedule the line of Kafka's first check of the leaders' balance.

    Rust's module of Testcontainers alters `advertised.listeners` when the broker has started, and waits for this line,
    not for the end of its command. With Kafka, the line comes after the change because it comes late. Here the change
    brings the line.
    """
    if _selected_lines() not in _WITH_KAFKA_LINES:
        return
    node_id = core.cluster.first.id
    check = "Checking need to trigger auto leader balancing"
    lines = [f"TRACE [Controller id={node_id}] {check} (kafka.controller.KafkaController)"]

    def write(kind: ConfigResourceType = ConfigResourceType.BROKER) -> None:
        if kind is ConfigResourceType.BROKER:
            _write(*lines)
            lines.clear()

    asyncio.get_running_loop().call_later(_BALANCING_DELAY_S, write)
    core.hooks.config_changed.subscribe(write)


def _selected_lines() -> str | None:
    return os.environ.get("MINIBROKER_LOG_LINES")


def _write_broker_lines(node_id: int, listeners: Sequence[tuple[str, str]]) -> None:
    """Write the lines of a broker to stdout."""
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
    )


def _write_redpanda_lines(listeners: Sequence[tuple[str, str]]) -> None:
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
    now = time.time()
    moment = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))},{int(now * 1000) % 1000:03}"
    sys.stdout.write("".join(f"[{moment}] {line}\n" for line in lines))
    sys.stdout.flush()
