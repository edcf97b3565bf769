"""Ports of a container besides the broker's listeners. They accept connections and send nothing, or are a ZooKeeper.

Health checks and Spring Boot's readiness check treat a port as ready if it accepts a connection and keeps it open. The
ports of a controller and of JMX, which Kafka has besides its broker, therefore accept connections. On a controller's
port, brokers in other containers also ask which of them holds the logs (`minibroker_container.meeting`).
"""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from minibroker.cli.kafka_lines import write_controller_lines
from minibroker.clock import SystemClock
from minibroker.config.addresses import parse_address
from minibroker.config.event_loops import make_stop_event
from minibroker.server.remote.holder import LinkPort, ServeLink
from minibroker_container import health
from minibroker_container.meeting import Registrar
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker_tools import zookeeper_server

_logger: Final = logging.getLogger("minibroker")


@contextlib.asynccontextmanager
async def open_ports(addresses: Sequence[str], serve: ServeLink | None = None) -> AsyncGenerator[list[int]]:
    """Open ports, and yield their numbers. An address that cannot be opened is logged and skipped.

    Args:
        addresses: HOST:PORT of each port.
        serve: Serves other processes of the cluster, or None for ports that send nothing.

    Raises:
        ValueError: An address is not HOST:PORT.
    """
    opened: list[LinkPort] = []
    for address in addresses:
        port = LinkPort(*parse_address(address, "--silent-port"), serve)
        try:
            await port.open()
            opened.append(port)
        except OSError as error:
            _logger.warning("--silent-port %s cannot be opened: %s", address, os.strerror(error.errno or 0))
    try:
        yield [port.port for port in opened]
    finally:
        for port in opened:
            await port.close()


@contextlib.asynccontextmanager
async def open_zookeeper(address: str) -> AsyncGenerator[None]:
    """Run a small ZooKeeper, which is loaded with its first client. A port that cannot be opened is logged and skipped.

    Raises:
        ValueError: The address is not HOST:PORT.
    """
    host, port = parse_address(address, "--zookeeper")
    started: list[zookeeper_server.ZooKeeperServer] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not started:
            started.append(zookeeper_server.ZooKeeperServer(SystemClock(asyncio.get_running_loop())))
        await started[0].serve(reader, writer)

    with contextlib.ExitStack() as opened:
        try:
            opened.callback((await asyncio.start_server(serve, host, port)).close)
        except OSError as error:
            _logger.warning("--zookeeper %s cannot be opened: %s", address, os.strerror(error.errno or 0))
        yield
    for zookeeper in started:
        zookeeper.close()


def hold_ports(node: str, addresses: Sequence[str]) -> None:
    """Keep ports open in place of a KRaft controller, until SIGTERM or SIGINT.

    Raises:
        ValueError: The node or an address is invalid.
    """
    if not node.strip().isdigit():
        raise ValueError(f"KAFKA_NODE_ID: {node!r} is not a node id; give a number from 0 on")
    asyncio.run(_hold_ports(int(node), addresses))


async def _hold_ports(node_id: int, addresses: Sequence[str]) -> None:
    stop = make_stop_event()
    async with open_ports(addresses, Registrar(node_id, is_controller=True).serve) as ports:
        sys.stderr.write(
            f"minibroker container: controller {node_id} only tells the brokers which of them holds the logs; "
            f"these ports accept connections: {', '.join(map(str, ports)) or 'none'}\n"
        )
        health.report_ports(("", address) for address in addresses)
        write_controller_lines(node_id)
        await stop.wait()
