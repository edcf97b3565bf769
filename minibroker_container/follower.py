"""A container that is one of several brokers in its Compose file, and passes connections on to the first of them."""

import asyncio
import signal
import sys
from collections.abc import Sequence

from minibroker.cli.kafka_lines import write_broker_lines
from minibroker.config.addresses import parse_address
from minibroker.server.link import Follower
from minibroker.server.silent import SilentPorts


def written(address: str, name: str = "", protocol: str = "") -> str:
    """A listener as an argument of `follow`, PROTOCOL:NAME=HOST:PORT; a port that stays silent has no name."""
    return f"{protocol}:{name}={address}"


def follow(node: str, lead: str, listeners: Sequence[str]) -> int:
    """Pass connections on until SIGTERM or SIGINT; returns the exit status. OSError for a port that is taken."""
    entries: list[tuple[str, str, int]] = []
    silent: list[str] = []
    for text in listeners:
        named, _, address = text.partition("=")
        name = named.partition(":")[2]
        if name:
            entries.append((name, *parse_address(address, "KAFKA_LISTENERS")))
        else:
            silent.append(address)
    return asyncio.run(_follow(int(node), lead, entries, SilentPorts(silent)))


async def _follow(node: int, lead: str, entries: Sequence[tuple[str, str, int]], silent: SilentPorts) -> int:
    follower = Follower(parse_address(lead, "KAFKA_CONTROLLER_QUORUM_VOTERS"), entries)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await follower.open()
    await silent.open()
    try:
        sys.stderr.write(
            f"minibroker container: broker {node} passes its connections on to {lead}: the containers of this cluster "
            "share one broker, which is the first of KAFKA_CONTROLLER_QUORUM_VOTERS\n"
        )
        write_broker_lines(node, [(name, f"{host}:{port}") for name, host, port in entries])
        await stop.wait()
    finally:
        follower.close()
        silent.close()
    return 0
