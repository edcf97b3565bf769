"""zookeeper-server-start and zookeeper-shell, without a real ZooKeeper.

The server keeps its nodes in memory (`minibroker_tools.zookeeper_server`). The shell shows the nodes of a ZooKeeper.
Those in which Kafka kept its metadata are not there, so the shell builds them from the metadata of a broker.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from minibroker.clock import SystemClock
from minibroker.config.event_loops import make_stop_event
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.settings import load_properties
from minibroker_tools.client.zookeeper import connect
from minibroker_tools.commands.common import local_broker
from minibroker_tools.failures import ToolError, UsageError
from minibroker_tools.options import Options, Values
from minibroker_tools.output import compact_json, flush, log_line, write_line
from minibroker_tools.zookeeper_server import ZooKeeperServer

_SERVER: Final = "zookeeper-server-start"
_LOGGER: Final = "org.apache.zookeeper.server.NIOServerCnxnFactory"
_NOTICE: Final = "This is a small ZooKeeper of minibroker, which keeps its nodes in memory"
_PORTS: Final = range(0x10000)
_DEFAULT_PORT: Final = "2181"
_FILE: Final = "zookeeper.properties"
"""The file of Kafka's distributions. Without it, the server has the port that the file names there."""
_FindNode = Callable[[str, str], list[str] | str | None]
"""Returns the result of the command `ls` or `get` for a path: names, data, or None if there is no such node."""
_CONNECTED: Final = "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null"


def declare_options(tool: str) -> Options:
    """Declare the options of zookeeper-server-start or zookeeper-shell."""
    if tool == _SERVER:
        options = Options(
            tool,
            "Run a small ZooKeeper, in memory: zookeeper-server-start config/zookeeper.properties, or PORT DIRECTORY. "
            "Without a file of this name it listens on port 2181",
        )
        options.flag("daemon", help="run in the background")
        return options
    options = Options(
        tool, "Show nodes of ZooKeeper, or what Kafka would keep there: zookeeper-shell HOST:PORT [ls|get PATH]"
    )
    options.value("zk-tls-config-file", help="accepted for old scripts", metavar="FILE")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Keep the port open until a signal arrives, or run shell commands."""
    values = options.parse(arguments)
    if options.tool != _SERVER:
        return _run_shell(values)
    if not values.words:
        raise UsageError("zookeeper-server-start needs a file with the property clientPort, or a port and a directory")
    if values.has("daemon"):
        start_in_background([sys.executable, "-m", "minibroker_tools", _SERVER, *values.words])
        return 0
    asyncio.run(_serve(values.words[0], _read_properties(*values.words[:2])))
    return 0


def start_in_background(words: Sequence[str]) -> None:
    """Start a program that outlives this process and has no input or output."""
    subprocess.Popen(  # noqa: S603 - the words are our own, beside the path that the user names
        list(words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _read_properties(source: str, directory: str | None = None) -> dict[str, str]:
    """Return the properties of a file, or of a port beside a directory, as ZooKeeper's ServerConfig does."""
    if directory is not None:
        return {"clientPort": source}
    return {} if os.path.basename(source) == _FILE and not os.path.exists(source) else load_properties(source)


async def _serve(source: str, properties: Mapping[str, str]) -> None:
    """Serve ZooKeeper's clients until a signal arrives.

    Raises:
        ToolError: The port is invalid or cannot be opened.
    """
    host, port = properties.get("clientPortAddress") or None, properties.get("clientPort", _DEFAULT_PORT)
    if not port.isdecimal() or int(port) not in _PORTS:
        raise ToolError(f"{source}: clientPort: {port!r} is no port")
    stop = make_stop_event()
    zookeeper = ZooKeeperServer(SystemClock(asyncio.get_running_loop()))
    try:
        server = await asyncio.start_server(zookeeper.serve, host, int(port))
    except OSError as error:
        raise ToolError(f"clientPort {port} cannot be opened: {os.strerror(error.errno or 0)}") from None
    host, bound_port = server.sockets[0].getsockname()[:2]
    write_line(log_line("INFO", f"binding to port {host}/{host}:{bound_port}", _LOGGER))
    write_line(log_line("INFO", _NOTICE, _LOGGER))
    flush()
    await stop.wait()
    server.close()
    zookeeper.close()


def _run_shell(values: Values) -> int:
    """Run the command given on the command line, or the commands from standard input.

    Returns:
        The exit status of the last command: 1 if the node does not exist, or 127 if the command is unknown.
    """
    if not values.words:
        raise UsageError("zookeeper-shell needs the address of a ZooKeeper")
    write_line(f"Connecting to {values.words[0]}")
    command = values.words[1:]
    lines: Iterable[Sequence[str]] = [command] if command else (line.split() for line in sys.stdin)
    with contextlib.ExitStack() as ends:
        find = _node_finder(values.words[0], ends)
        write_line(_CONNECTED)
        status = 0
        for words in lines:
            if words[:1] == ["quit"]:
                break
            if words:
                status = _run_command(find, words)
    return status


def _node_finder(servers: str, ends: contextlib.ExitStack) -> _FindNode:
    """Return a function that finds nodes in ZooKeeper, or else in the metadata of the brokers."""
    tree = ends.enter_context(connect(servers))
    if tree is not None and not tree.has_brokers():
        return lambda command, path: tree.children(path) if command == "ls" else tree.text(path)
    cluster = ends.enter_context(Cluster(local_broker(servers)))
    cluster.metadata([])

    def find(command: str, path: str) -> list[str] | str | None:
        known = None if tree is None else tree.children(path) if command == "ls" else tree.text(path)
        return _find_in_metadata(_metadata_nodes(cluster), command, path) if known is None else known

    return find


def _run_command(find: _FindNode, words: Sequence[str]) -> int:
    command, path = words[0], next((word for word in words[1:] if word.startswith("/")), "/")
    if command not in {"ls", "get"}:
        write_line(f"Command not found: Command not found {command}")
        return 127
    result = find(command, path)
    if result is None:
        write_line(f"Node does not exist: {path}")
        return 1
    write_line(f"[{', '.join(result)}]" if isinstance(result, list) else result)
    return 0


def _find_in_metadata(nodes: Mapping[str, str], command: str, path: str) -> list[str] | str | None:
    if command == "get" or path not in nodes:
        return nodes.get(path)
    start = path.removesuffix("/") + "/"
    return sorted(
        {node.removeprefix(start).partition("/")[0] for node in nodes if node.startswith(start) and node != start}
    )


def _metadata_nodes(cluster: Cluster) -> dict[str, str]:
    """Return the data of the nodes that Kafka would have in ZooKeeper, by path."""
    controller = {"version": 2, "brokerid": cluster.controller_id, "timestamp": "0", "kraftControllerEpoch": -1}
    contents: dict[str, object] = {
        "/cluster/id": {"version": "1", "id": cluster.cluster_id or ""},
        "/controller": controller,
    }
    protocol = cluster.settings.protocol
    for broker in cluster.brokers():
        contents[f"/brokers/ids/{broker.node_id}"] = {
            "listener_security_protocol_map": {protocol: protocol},
            "endpoints": [f"{protocol}://{broker.host}:{broker.port}"],
            "jmx_port": -1,
            "features": {},
            "host": broker.host,
            "timestamp": "0",
            "port": broker.port,
            "version": 5,
        }
    for topic in cluster.metadata().topics:
        replicas = {str(partition.partition_index): partition.replica_nodes for partition in topic.partitions}
        content = {"partitions": replicas, "adding_replicas": {}, "removing_replicas": {}, "version": 3}
        contents[f"/brokers/topics/{topic.name}"] = content
    parents = dict.fromkeys(("/", "/brokers", "/brokers/ids", "/brokers/topics", "/cluster"), "null")
    return parents | {path: compact_json(content) for path, content in contents.items()}
