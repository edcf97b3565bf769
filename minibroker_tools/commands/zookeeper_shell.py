"""zookeeper-shell: the nodes that Kafka kept in ZooKeeper, shown from the metadata of the broker of this machine."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from minibroker_tools.client.cluster import Cluster
from minibroker_tools.commands.common import local_broker
from minibroker_tools.failures import ToolError, UsageError
from minibroker_tools.options import Options
from minibroker_tools.output import out

_ROOT: Final = ("brokers", "cluster", "controller")
_CONNECTED: Final = "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null"


def options(tool: str) -> Options:
    """The options of zookeeper-shell."""
    known = Options(
        tool, "Show what ZooKeeper would have of the broker of this machine: zookeeper-shell HOST:PORT [ls|get PATH]"
    )
    known.value("zk-tls-config-file", help="accepted for old scripts", metavar="FILE")
    return known


def run(known: Options, arguments: Sequence[str]) -> int:
    """Run the command of the command line, or those of standard input. Status 1 for a node that does not exist."""
    values = known.parse(arguments)
    if not values.words:
        raise UsageError("zookeeper-shell needs the address of a ZooKeeper")
    out(f"Connecting to {values.words[0]}")
    given = values.words[1:]
    lines: Iterable[Sequence[str]] = [given] if given else (line.split() for line in sys.stdin)
    with Cluster(local_broker(values.words[0])) as cluster:
        cluster.metadata([])
        out(_CONNECTED)
        status = 0
        for words in lines:
            if words[:1] == ["quit"]:
                break
            if words:
                status = _run(cluster, words)
    return status


def _run(cluster: Cluster, words: Sequence[str]) -> int:
    command, path = words[0], next((word for word in words[1:] if word.startswith("/")), "/")
    if command not in {"ls", "get"}:
        out(f"Command not found: Command not found {command}")
        return 127
    parts = [part for part in path.split("/") if part]
    found = _children(cluster, parts) if command == "ls" else _content(cluster, parts)
    if found is None:
        out(f"Node does not exist: {path}")
        return 1
    out(f"[{', '.join(found)}]" if isinstance(found, list) else found)
    return 0


def _children(cluster: Cluster, parts: Sequence[str]) -> list[str] | None:
    match list(parts):
        case []:
            return list(_ROOT)
        case ["brokers"]:
            return ["ids", "topics"]
        case ["brokers", "ids"]:
            return [str(broker.node_id) for broker in cluster.brokers()]
        case ["brokers", "topics"]:
            return sorted(topic.name for topic in cluster.metadata().topics if topic.name)
        case ["cluster"]:
            return ["id"]
        case _:
            return None if _content(cluster, parts) is None else []


def _content(cluster: Cluster, parts: Sequence[str]) -> str | None:
    match list(parts):
        case ["brokers", "ids", number]:
            return _broker(cluster, number)
        case ["brokers", "topics", name]:
            return _topic(cluster, name)
        case ["cluster", "id"]:
            return _json({"version": "1", "id": cluster.cluster_id or ""})
        case ["controller"]:
            return _json(
                {"version": 2, "brokerid": cluster.controller_id, "timestamp": "0", "kraftControllerEpoch": -1}
            )
        case _:
            return None


def _broker(cluster: Cluster, number: str) -> str | None:
    broker = next((each for each in cluster.brokers() if str(each.node_id) == number), None)
    if broker is None:
        return None
    protocol = cluster.settings.protocol
    return _json(
        {
            "listener_security_protocol_map": {protocol: protocol},
            "endpoints": [f"{protocol}://{broker.host}:{broker.port}"],
            "jmx_port": -1,
            "features": {},
            "host": broker.host,
            "timestamp": "0",
            "port": broker.port,
            "version": 5,
        }
    )


def _topic(cluster: Cluster, name: str) -> str | None:
    try:
        (topic,) = cluster.topics([name])
    except ToolError:
        return None
    replicas = {str(each.partition_index): each.replica_nodes for each in topic.partitions}
    return _json({"partitions": replicas, "adding_replicas": {}, "removing_replicas": {}, "version": 3})


def _json(content: object) -> str:
    return json.dumps(content, separators=(",", ":"))
