"""The report for the container's health check: its open ports, or the reason why it waits.

The check is `minibroker-health` in docker/rootfs, a script that starts no Python.
"""

import contextlib
import os
from collections.abc import Iterable
from typing import Final

from minibroker.cluster import listeners

REPORT: Final = "/dev/shm/minibroker-health"  # noqa: S108 - in memory, and writable in each container
_IMAGE: Final = "/opt/minibroker"  # A folder that only the image has.


def report(text: str) -> None:
    """Replace the report. This has no effect outside of the image.

    Args:
        text: A line `PROTOCOL HOST PORT` for each port, or one line `waiting: REASON`.
    """
    if not os.path.isdir(_IMAGE):
        return
    with contextlib.suppress(OSError):  # Without the report, the container counts as one that runs no broker.
        unfinished = f"{REPORT}.{os.getpid()}"
        with open(unfinished, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(unfinished, REPORT)


def report_ports(ports: Iterable[tuple[str, str]]) -> None:
    """Report that ports are open.

    Args:
        ports: The protocol and HOST:PORT of each. The protocol of a silent port is "".
    """
    report("".join(f"{protocol or 'silent'} {format_reachable(address)}\n" for protocol, address in ports))


def format_reachable(address: str) -> str:
    """Return the host and the port by which this container reaches a listener, separated by a space."""
    host, _, port = address.rpartition(":")
    return f"{'127.0.0.1' if host in listeners.WILDCARDS else host.strip('[]')} {port}"
