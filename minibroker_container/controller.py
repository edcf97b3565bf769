"""A container that is a KRaft controller and no broker: its ports accept connections and stay silent."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence

from minibroker.cli.kafka_lines import write_controller_lines
from minibroker.server.silent import SilentPorts


def hold(node: str, addresses: Sequence[str]) -> int:
    """Keep the ports open until SIGTERM or SIGINT; returns the exit status. ValueError for an address or a node id."""
    if not node.strip().isdigit():
        raise ValueError(f"KAFKA_NODE_ID: {node!r} is not a node id; give a number from 0 on")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_hold(int(node), addresses))
    return 0


async def _hold(node: int, addresses: Sequence[str]) -> None:
    ports = SilentPorts(addresses)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await ports.open()
    try:
        sys.stderr.write(
            f"minibroker container: controller {node} has nothing to do here, since minibroker's brokers need none; "
            f"these ports accept connections: {', '.join(map(str, ports.ports)) or 'none'}\n"
        )
        write_controller_lines(node)
        await stop.wait()
    finally:
        ports.close()
