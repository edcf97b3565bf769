"""kafka-metadata-quorum: the quorum that keeps the metadata (`org.apache.kafka.tools.MetadataQuorumCommand`)."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.messages import describe_quorum as api
from minibroker_protocol.uuids import uuid_text
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.commands.common import add_connection, cluster_of
from minibroker_tools.failures import ApiError, ToolError, check
from minibroker_tools.options import Options, Values
from minibroker_tools.output import out

with lazy:
    from minibroker_tools.commands import quorum_voters

_TOPIC: Final = "__cluster_metadata"
_NO_DIRECTORY: Final = bytes(16)
_HEADER: Final = (
    "NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"
)  # fmt: skip
_COMMANDS: Final = ("describe", "add-controller", "remove-controller")


def options(tool: str) -> Options:
    """The options of kafka-metadata-quorum."""
    known = Options(
        tool, "The quorum of the controllers: describe --status or --replication, add-controller, remove-controller."
    )
    add_connection(known, controller=True)
    known.flag("status", help="with describe: a summary")
    known.flag("replication", help="with describe: a row for each replica")
    known.flag("human-readable", help="with --replication: how long ago, in place of times")
    known.flag("dry-run", help="with add-controller and remove-controller: change nothing")
    known.value("controller-id", "i", help="with remove-controller: the controller", type=int)
    known.value("controller-directory-id", "d", help="with remove-controller: the id of its directory")
    known.flag("unregister", help="with remove-controller: forget the controller, too")
    return known


def run(known: Options, arguments: Sequence[str]) -> int:
    """Describe the quorum, or have a controller become a voter of it, or be one no more."""
    values = known.parse(arguments)
    _check(values)
    with cluster_of(values) as cluster:
        if values.words[0] != "describe":
            change = quorum_voters.add if values.words[0] == "add-controller" else quorum_voters.remove
            change(cluster, values)
            return 0
        response = _quorum(cluster)
        if values.has("status"):
            _print_status(cluster, response)
        else:
            _print_replication(response.topics[0].partitions[0], is_readable=values.has("human-readable"))
    return 0


def _check(values: Values) -> None:
    """ToolError unless Kafka's tool takes the command line."""
    if not values.has("bootstrap-server") and not values.has("bootstrap-controller"):
        raise ToolError(
            "kafka-metadata-quorum: error: one of the arguments --bootstrap-server --bootstrap-controller is required"
        )
    if values.words[:1] == [] or values.words[0] not in _COMMANDS:
        found = f"invalid choice: '{values.words[0]}'" if values.words else "too few arguments"
        raise ToolError(f"kafka-metadata-quorum: error: {found} (choose from {', '.join(_COMMANDS)})")
    if values.words[0] == "remove-controller":
        for name, short in (("controller-id", "i"), ("controller-directory-id", "d")):
            if not values.has(name):
                raise ToolError(f"kafka-metadata-quorum: error: argument --{name}/-{short} is required")
    if values.words[0] != "describe":
        return
    if values.has("status") and values.has("replication"):
        raise ToolError("Only one of --status or --replication should be specified with describe sub-command")
    if values.has("status") and values.has("human-readable"):
        raise ToolError("The option --human-readable is only supported along with --replication")
    if not values.has("status") and not values.has("replication"):
        raise ToolError("One of --status or --replication must be specified with describe sub-command")


def _quorum(cluster: Cluster) -> api.DescribeQuorumResponse:
    asked = api.TopicData(topic_name=_TOPIC, partitions=[api.PartitionData(partition_index=0)])
    response: api.DescribeQuorumResponse = cluster.ask(api.DescribeQuorumRequest(topics=[asked]))
    check(response.error_code, response.error_message)
    partition = response.topics[0].partitions[0]
    if partition.error_code:
        raise ApiError(partition.error_code, partition.error_message)
    return response


def _print_status(cluster: Cluster, response: api.DescribeQuorumResponse) -> None:
    cluster.look()
    quorum = response.topics[0].partitions[0]
    leader = next((each for each in quorum.current_voters if each.replica_id == quorum.leader_id), None)
    end = 0 if leader is None else leader.log_end_offset
    caught_up = 0 if leader is None else leader.last_caught_up_timestamp
    slowest = min(quorum.current_voters, key=lambda each: each.log_end_offset, default=leader)
    lag = 0 if slowest is None else end - slowest.log_end_offset
    behind = 0
    if slowest is not None and slowest is not leader:
        times = (caught_up, slowest.last_caught_up_timestamp)
        behind = -1 if -1 in times else times[0] - times[1]
    endpoints = {
        node.node_id: [f'"{each.name}://{each.host}:{each.port}"' for each in node.listeners] for node in response.nodes
    }
    rows = {
        "ClusterId": cluster.cluster_id,
        "LeaderId": quorum.leader_id,
        "LeaderEpoch": quorum.leader_epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": lag,
        "MaxFollowerLagTimeMs": behind,
        "CurrentVoters": _nodes(quorum.current_voters, endpoints),
        "CurrentObservers": _nodes(quorum.observers, {}),
    }
    for name, value in rows.items():
        out(f"{name + ':':<24}{value}")


def _nodes(replicas: Sequence[api.ReplicaState], endpoints: Mapping[int, Sequence[str]]) -> str:
    def node(replica: api.ReplicaState) -> str:
        directory = bytes(replica.replica_directory_id)
        written = "null" if directory == _NO_DIRECTORY else f'"{uuid_text(directory)}"'
        known = endpoints.get(replica.replica_id)
        where = f', "endpoints": [{", ".join(known)}]' if known else ""
        return f'{{"id": {replica.replica_id}, "directoryId": {written}{where}}}'

    return f"[{', '.join(map(node, replicas))}]"


def _print_replication(quorum: api.PartitionState, *, is_readable: bool) -> None:
    leaders = [each for each in quorum.current_voters if each.replica_id == quorum.leader_id]
    end = leaders[0].log_end_offset if leaders else 0
    now = int(time.time() * 1000)

    def moment(timestamp: int) -> str:
        return str(timestamp) if timestamp == -1 or not is_readable else f"{now - timestamp} ms ago"

    def rows(replicas: Sequence[api.ReplicaState], status: str) -> Iterator[tuple[str, ...]]:
        for each in replicas:
            yield (
                str(each.replica_id),
                uuid_text(bytes(each.replica_directory_id)),
                str(each.log_end_offset),
                str(end - each.log_end_offset),
                moment(each.last_fetch_timestamp),
                moment(each.last_caught_up_timestamp),
                status,
            )

    followers = [each for each in quorum.current_voters if each not in leaders]
    table = [_HEADER, *rows(leaders, "Leader"), *rows(followers, "Follower"), *rows(quorum.observers, "Observer")]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        out("".join(f"{text:<{width}}\t" for text, width in zip(row, widths, strict=True)))
