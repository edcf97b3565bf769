"""Ports of a container besides the broker's listeners. They accept connections and send nothing, or are a ZooKeeper.

Health checks and Spring Boot's readiness check treat a port as ready if it accepts a connection and keeps it open. The
ports of a controller and of JMX, which Kafka has besides its broker, therefore accept connections. On a controller's
port, brokers in other containers also ask which of them holds the logs (`minibroker_container.meeting`).
"""

import asyncio
import contextlib
import functools
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
async def open_ports(
    addresses: Sequence[str], serve: ServeLink | None = None, zookeeper: str | None = None
) -> AsyncGenerator[list[int]]:
    """Open ports, and yield their numbers. An address that cannot be opened is logged and skipped.

    Args:
        addresses: HOST:PORT of each port.
        serve: Serves other processes of the cluster, or None for ports that send nothing.
        zookeeper: HOST:PORT of a small ZooKeeper, or None. Its port is not among the numbers.

    Raises:
        ValueError: An address is not HOST:PORT.
    """
    opened: list[int] = []
    async with contextlib.AsyncExitStack() as ends:
        for address in addresses:
            port = LinkPort(*parse_address(address, "--silent-port"), serve)
            try:
                await port.open()
            except OSError as error:
                _logger.warning("--silent-port %s cannot be opened: %s", address, os.strerror(error.errno or 0))
                continue
            ends.push_async_callback(port.close)
            opened.append(port.port)
        if zookeeper is not None:
            await _open_zookeeper(zookeeper, ends)
        yield opened


async def _open_zookeeper(address: str, ends: contextlib.AsyncExitStack) -> None:
    """Run a small ZooKeeper until `ends` closes. Its code is loaded when the first client connects.

    Raises:
        ValueError: The address is not HOST:PORT.
    """
    host, port = parse_address(address, "--zookeeper")

    @functools.cache
    def start() -> zookeeper_server.ZooKeeperServer:
        server = zookeeper_server.ZooKeeperServer(SystemClock(asyncio.get_running_loop()))
        ends.callback(server.close)
        return server

    async def serve_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await start().serve(reader, writer)

    try:
        ends.callback((await asyncio.start_server(serve_client, host, port)).close)
    except OSError as error:
        _logger.warning("--zookeeper %s cannot be opened: %s", address, os.strerror(error.errno or 0))


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
