"""`netstat` for health checks: lists the TCP sockets of the container in the format of Kafka's Alpine images.

    python -m minibroker_container.sockets [-l] [-a] [-t] [-n] [-p]

`-l` lists listening sockets, `-a` lists listening and connected sockets, and without either option only connected
sockets are listed.
"""

import ipaddress
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc/net")
_STATES: Final = (
    "", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE", "CLOSE_WAIT", "LAST_ACK",
    "LISTEN", "CLOSING",
)  # fmt: skip
"""The states by their numbers in /proc/net/tcp."""
_LISTEN: Final = "LISTEN"
_ROW_FORMAT: Final = "{:<5} {:>6} {:>6} {:<23} {:<23} {:<11}"


def main(arguments: Sequence[str], proc: Path = _PROC) -> int:
    """Print the sockets that the options select, and return the exit status."""
    letters = {letter for word in arguments for letter in word.lstrip("-")}
    shows = "listening" if "l" in letters else "all" if "a" in letters else "connected"
    lines = [_ROW_FORMAT.format("Proto", "Recv-Q", "Send-Q", "Local Address", "Foreign Address", "State")]
    for local, remote, state in _read_sockets(proc):
        if shows == "all" or (state == _LISTEN) == (shows == "listening"):
            lines.append(_ROW_FORMAT.format("tcp", "0", "0", local, remote, state))
    sys.stdout.write("Active Internet connections\n" + "".join(f"{line.rstrip()}\n" for line in lines))
    return 0


def _read_sockets(proc: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the local address, the remote address and the state of each socket."""
    for path in (proc / "tcp", proc / "tcp6"):
        for line in path.read_text(encoding="ascii").splitlines()[1:] if path.exists() else ():
            _, local, remote, state = line.split()[:4]
            yield _format_address(local), _format_address(remote), _STATES[int(state, 16)]


def _format_address(text: str) -> str:
    """Convert a hexadecimal address, made of little-endian 32-bit words, to HOST:PORT."""
    host, _, port = text.partition(":")
    words = (bytes.fromhex(host[start : start + 8])[::-1] for start in range(0, len(host), 8))
    return f"{ipaddress.ip_address(b''.join(words))}:{int(port, 16) or '*'}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
