"""zookeeper-server-start: a port that scripts can wait for. No ZooKeeper runs behind it.

Stacks of older releases start one and look only whether its port is open. So this program opens `clientPort`, answers
the words that probes send, `ruok` and `srvr`, and closes every other connection at once.
"""

import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from minibroker_tools.client.settings import load_properties
from minibroker_tools.commands.common import StoppedError, stopped_by_signals
from minibroker_tools.failures import ToolError, UsageError
from minibroker_tools.options import Options, Values
from minibroker_tools.output import flush, out_log

_LOGGER: Final = "org.apache.zookeeper.server.NIOServerCnxnFactory"
_PORTS: Final = range(0x10000)
_DEFAULT_PORT: Final = "2181"
_WORD: Final = 4
_ANSWERS: Final = {
    b"ruok": b"imok",
    b"srvr": b"Zookeeper version: none, minibroker keeps this port open\nMode: standalone\n",
}


def options(tool: str) -> Options:
    """The options of zookeeper-server-start."""
    known = Options(tool, "Open the port of a ZooKeeper and keep it open: zookeeper-server-start zookeeper.properties")
    known.flag("daemon", help="go to the background")
    return known


def run(known: Options, arguments: Sequence[str]) -> int:
    """Open the port until a signal ends it."""
    values = known.parse(arguments)
    if not values.words:
        raise UsageError("zookeeper-server-start needs a file with the property clientPort")
    if values.has("daemon"):
        start_in_background([sys.executable, "-m", "minibroker_tools", "zookeeper-server-start", values.words[0]])
        return 0
    return _serve(_listener(values))


def start_in_background(words: Sequence[str]) -> None:
    """Start a program that outlives this one and writes nowhere."""
    subprocess.Popen(  # noqa: S603 - the words are our own, beside the path that the user names
        list(words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _listener(values: Values) -> socket.socket:
    properties = load_properties(values.words[0])
    host, port = properties.get("clientPortAddress", ""), properties.get("clientPort", _DEFAULT_PORT)
    if not port.isdecimal() or int(port) not in _PORTS:
        raise ToolError(f"{values.words[0]}: clientPort: {port!r} is no port")
    try:
        return socket.create_server((host, int(port)))
    except OSError as error:
        raise ToolError(f"clientPort {port} cannot be opened: {os.strerror(error.errno or 0)}") from None


def _serve(listener: socket.socket) -> int:
    try:
        with stopped_by_signals(signal.SIGINT, signal.SIGTERM), listener, selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            host, port = listener.getsockname()[:2]
            out_log("INFO", f"binding to port {host}/{host}:{port}", _LOGGER)
            out_log("INFO", "No ZooKeeper runs here: the port is open for scripts that wait for it", _LOGGER)
            flush()
            while True:
                for key, _ in selector.select():
                    _take(selector, listener, key.fileobj)
    except StoppedError:
        return 0


def _take(selector: selectors.BaseSelector, listener: socket.socket, ready: object) -> None:
    """Accept a connection, or answer the word of one and close it."""
    if ready is listener:
        peer, _ = listener.accept()
        selector.register(peer, selectors.EVENT_READ)
        return
    assert isinstance(ready, socket.socket)
    selector.unregister(ready)
    with ready:
        try:
            ready.sendall(_ANSWERS.get(ready.recv(_WORD), b""))
        except OSError:
            return
