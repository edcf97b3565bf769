"""kafka-metadata-quorum: shows and changes the metadata quorum (`org.apache.kafka.tools.MetadataQuorumCommand`)."""

import base64
import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Final

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.java_text import to_long, trim
from minibroker_protocol.messages import cluster as api
from minibroker_protocol.primitives import uuid_text
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.settings import load_properties
from minibroker_tools.commands.common import add_connection, cluster_of
from minibroker_tools.failures import ApiError, ToolError, raise_if_failed, reword_failures
from minibroker_tools.options import Options, Values
from minibroker_tools.output import print_table, write_line

_TOPIC: Final = "__cluster_metadata"
_NO_DIRECTORY: Final = bytes(16)
_COLUMNS: Final = "NodeId DirectoryId LogEndOffset Lag LastFetchTimestamp LastCaughtUpTimestamp Status"
_COMMANDS: Final = ("describe", "add-controller", "remove-controller")
_UUID_BYTES: Final = 16
_UUID_LETTERS: Final = 24
_TIMEOUT_MS: Final = 30_000
_ENDPOINT: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?\d+)")
_STILL_REGISTERED: Final = (
    "To unregister the controller from the cluster, run `kafka-cluster.sh unregister-controller --id {}`."
)
"""The end of the error message for a controller that stays registered."""
_FILE_QUESTION: Final = "Is this a valid controller configuration file?"


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-metadata-quorum."""
    options = Options(
        tool, "The quorum of the controllers: describe --status or --replication, add-controller, remove-controller."
    )
    add_connection(options, controller=True)
    options.flag("status", help="with describe: a summary")
    options.flag("replication", help="with describe: a row for each replica")
    options.flag("human-readable", help="with --replication: print ages instead of timestamps")
    options.flag("dry-run", help="with add-controller and remove-controller: change nothing")
    options.value("controller-id", "i", help="with remove-controller: the controller", type=int)
    options.value("controller-directory-id", "d", help="with remove-controller: the id of its directory")
    options.flag("unregister", help="with remove-controller: also unregister the controller")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Describe the quorum, or add or remove a voter."""
    values = options.parse(arguments)
    _check_options(values)
    with cluster_of(values) as cluster:
        if values.words[0] != "describe":
            change = add_voter if values.words[0] == "add-controller" else remove_voter
            change(cluster, values)
            return 0
        response = _describe_quorum(cluster)
        if values.has("status"):
            _print_status(cluster, response)
        else:
            _print_replication(response.topics[0].partitions[0], is_readable=values.has("human-readable"))
    return 0


def _check_options(values: Values) -> None:
    """Check the command line as Kafka's tool does.

    Raises:
        ToolError: The command line is invalid.
    """
    if not values.has("bootstrap-server") and not values.has("bootstrap-controller"):
        raise ToolError(
            "kafka-metadata-quorum: error: one of the arguments --bootstrap-server --bootstrap-controller is required"
        )
    command = next(iter(values.words), None)
    if command not in _COMMANDS:
        problem = f"invalid choice: '{command}'" if values.words else "too few arguments"
        raise ToolError(f"kafka-metadata-quorum: error: {problem} (choose from {', '.join(_COMMANDS)})")
    if command == "remove-controller":
        for name, short in (("controller-id", "i"), ("controller-directory-id", "d")):
            if not values.has(name):
                raise ToolError(f"kafka-metadata-quorum: error: argument --{name}/-{short} is required")
    if command != "describe":
        return
    if values.has("status") and values.has("replication"):
        raise ToolError("Only one of --status or --replication should be specified with describe sub-command")
    if values.has("status") and values.has("human-readable"):
        raise ToolError("The option --human-readable is only supported along with --replication")
    if not values.has("status") and not values.has("replication"):
        raise ToolError("One of --status or --replication must be specified with describe sub-command")


def _describe_quorum(cluster: Cluster) -> api.DescribeQuorumResponse:
    topic = api.TopicData(topic_name=_TOPIC, partitions=[api.PartitionData(partition_index=0)])
    response: api.DescribeQuorumResponse = raise_if_failed(cluster.ask(api.DescribeQuorumRequest(topics=[topic])))
    raise_if_failed(response.topics[0].partitions[0])
    return response


def _print_status(cluster: Cluster, response: api.DescribeQuorumResponse) -> None:
    cluster.refresh()
    quorum = response.topics[0].partitions[0]
    leader = next((replica for replica in quorum.current_voters if replica.replica_id == quorum.leader_id), None)
    end = 0 if leader is None else leader.log_end_offset
    caught_up = 0 if leader is None else leader.last_caught_up_timestamp
    slowest = min(quorum.current_voters, key=lambda replica: replica.log_end_offset, default=leader)
    lag = 0 if slowest is None else end - slowest.log_end_offset
    lag_ms = 0
    if slowest is not None and slowest is not leader:
        times = (caught_up, slowest.last_caught_up_timestamp)
        lag_ms = -1 if -1 in times else times[0] - times[1]
    endpoints = {
        node.node_id: [f'"{peer.name}://{peer.host}:{peer.port}"' for peer in node.listeners] for node in response.nodes
    }
    rows = {
        "ClusterId": cluster.cluster_id,
        "LeaderId": quorum.leader_id,
        "LeaderEpoch": quorum.leader_epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": lag,
        "MaxFollowerLagTimeMs": lag_ms,
        "CurrentVoters": _format_nodes(quorum.current_voters, endpoints),
        "CurrentObservers": _format_nodes(quorum.observers, {}),
    }
    for name, value in rows.items():
        write_line(f"{name + ':':<24}{value}")


def _format_nodes(replicas: Sequence[api.ReplicaState], endpoints: Mapping[int, Sequence[str]]) -> str:
    def node(replica: api.ReplicaState) -> str:
        directory = bytes(replica.replica_directory_id)
        directory_id = "null" if directory == _NO_DIRECTORY else f'"{uuid_text(directory)}"'
        replica_endpoints = endpoints.get(replica.replica_id)
        endpoints_text = f', "endpoints": [{", ".join(replica_endpoints)}]' if replica_endpoints else ""
        return f'{{"id": {replica.replica_id}, "directoryId": {directory_id}{endpoints_text}}}'

    return f"[{', '.join(map(node, replicas))}]"


def _print_replication(quorum: api.PartitionState, *, is_readable: bool) -> None:
    leaders = [replica for replica in quorum.current_voters if replica.replica_id == quorum.leader_id]
    end = leaders[0].log_end_offset if leaders else 0
    now = int(time.time() * 1000)

    def moment(timestamp: int) -> str:
        return str(timestamp) if timestamp == -1 or not is_readable else f"{now - timestamp} ms ago"

    followers = [replica for replica in quorum.current_voters if replica not in leaders]
    rows = [
        (
            replica.replica_id,
            uuid_text(bytes(replica.replica_directory_id)),
            replica.log_end_offset,
            end - replica.log_end_offset,
            moment(replica.last_fetch_timestamp),
            moment(replica.last_caught_up_timestamp),
            status,
        )
        for replicas, status in ((leaders, "Leader"), (followers, "Follower"), (quorum.observers, "Observer"))
        for replica in replicas
    ]
    print_table(_COLUMNS, rows)


def add_voter(cluster: Cluster, values: Values) -> None:
    """Add the controller described by a configuration file to the voters.

    Raises:
        ToolError: The configuration is invalid, or the request failed.
    """
    if not values.has("command-config"):
        raise ToolError(
            "You must supply the configuration file of the controller you are adding when using add-controller."
        )
    properties = load_properties(values.text("command-config"))
    controller = _controller_id(properties)
    directory_id = _directory_id(_metadata_directory(properties))
    listeners = _controller_listeners(properties)
    if not values.has("dry-run"):
        request = api.AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=_TIMEOUT_MS,
            voter_id=controller,
            voter_directory_id=_parse_uuid(directory_id),
            listeners=listeners,
        )
        with reword_failures(lambda error: error.described, ApiError):
            raise_if_failed(cluster.ask(request))
    endpoints = ", ".join(
        f"{listener.name}://{f'[{listener.host}]' if ':' in listener.host else listener.host}:{listener.port}"
        for listener in listeners
    )
    verb = "DRY RUN of adding" if values.has("dry-run") else "Added"
    write_line(f"{verb} controller {controller} with directory id {directory_id} and endpoints: {endpoints}")


def remove_voter(cluster: Cluster, values: Values) -> None:
    """Remove a controller from the voters.

    Raises:
        ToolError: The command line is invalid, or the request failed.
    """
    controller, directory_id = values.number("controller-id", -1), values.text("controller-directory-id") or ""
    if controller < 0:
        raise ToolError(f"Invalid negative --controller-id: {controller}")
    try:
        uuid = _parse_uuid(directory_id)
    except ValueError as error:
        raise ToolError(f"Failed to parse --controller-directory-id: {error}") from None
    is_dry_run, unregisters = values.has("dry-run"), values.has("unregister")
    if not is_dry_run:
        request = api.RemoveRaftVoterRequest(cluster_id=None, voter_id=controller, voter_directory_id=uuid)
        try:
            raise_if_failed(cluster.ask(request))
        except ApiError as error:
            if unregisters and error.code in {ErrorCode.UNSUPPORTED_VERSION, ErrorCode.VOTER_NOT_FOUND}:
                problem = f"Failed to remove KRaft voter {controller}: {error.message}"
                raise ToolError(f"{problem}. {_STILL_REGISTERED.format(controller)}") from None
            raise ToolError(error.described) from None
    verb = "DRY RUN of removing" if is_dry_run else "Removed"
    write_line(f"{verb} KRaft controller {controller} with directory id {uuid_text(uuid)}")
    if unregisters:
        if not is_dry_run:
            problem, advice = f"Failed to unregister controller {controller}", _STILL_REGISTERED.format(controller)
            with reword_failures(lambda error: f"{problem}: {error.message}. {advice}", ApiError):
                raise_if_failed(cluster.ask(api.UnregisterControllerRequest(controller_id=controller)))
        write_line(f"{'DRY RUN of unregistering' if is_dry_run else 'Unregistered'} KRaft controller {controller}")


def _controller_id(properties: Mapping[str, str]) -> int:
    text = properties.get("node.id")
    if text is None:
        raise ToolError(f"node.id not found in configuration file. {_FILE_QUESTION}")
    try:
        controller = to_long(trim(text))
    except ValueError:
        raise ToolError(f"node.id: {text} is not a number") from None
    if controller < 0:
        raise ToolError(f"node.id was negative in configuration file. {_FILE_QUESTION}")
    if "controller" not in properties.get("process.roles", ""):
        raise ToolError(f"process.roles did not contain 'controller' in configuration file. {_FILE_QUESTION}")
    return controller


def _metadata_directory(properties: Mapping[str, str]) -> str:
    if "metadata.log.dir" in properties:
        return properties["metadata.log.dir"]
    if properties.get("log.dirs"):
        return properties["log.dirs"].strip().split(",")[0]
    raise ToolError(f"Neither metadata.log.dir nor log.dirs were found. {_FILE_QUESTION}")


def _directory_id(directory: str) -> str:
    path = os.path.join(directory, "meta.properties")
    if not os.path.isfile(path):
        raise ToolError(f"Unable to read meta.properties from {directory}")
    directory_id = load_properties(path).get("directory.id")
    if directory_id is None:
        raise ToolError(f"No directory id found in {directory}")
    try:
        _parse_uuid(directory_id)
    except ValueError as error:
        raise ToolError(f"{path}: directory.id: {error}") from None
    return directory_id


def _controller_listeners(properties: Mapping[str, str]) -> list[api.VoterListener]:
    """Return the listeners named in controller.listener.names. Advertised addresses take precedence."""
    listeners: dict[str, api.VoterListener] = {}
    for key in ("listeners", "advertised.listeners"):
        for text in filter(None, (part.strip() for part in properties.get(key, "").split(","))):
            endpoint = _ENDPOINT.fullmatch(text)
            if endpoint is None:
                raise ToolError(f"{key}: {text} is no endpoint")
            name = endpoint[1].upper()
            listeners[name] = api.VoterListener(name=name, host=endpoint[2] or "localhost", port=int(endpoint[3]))
    if "controller.listener.names" not in properties:
        raise ToolError(f"controller.listener.names was not found. {_FILE_QUESTION}")
    names = [name.strip().upper() for name in properties["controller.listener.names"].split(",")]
    missing = next((name for name in names if name not in listeners), None)
    if missing is not None:
        raise ToolError(f"Cannot find information about controller listener name: {missing}")
    return [listeners[name] for name in dict.fromkeys(names)]


def _parse_uuid(text: str) -> bytes:
    """Decode a UUID.

    Raises:
        ValueError: The text is invalid. The message is from Kafka's `Uuid.fromString` or Java's base64 decoder.
    """
    if len(text) > _UUID_LETTERS:
        start = text[:_UUID_LETTERS]
        raise ValueError(f"Input string with prefix `{start}` is too long to be decoded as a base64 UUID")
    letters = text.rstrip("=")
    if invalid := re.search(r"[^\w-]", letters, re.ASCII):
        raise ValueError(f"Illegal base64 character {ord(invalid[0]):x}")
    if len(letters) % 4 == 1:
        raise ValueError("Last unit does not have enough valid bits")
    decoded = base64.urlsafe_b64decode(letters + "=" * (-len(letters) % 4))
    if len(decoded) != _UUID_BYTES:
        raise ValueError(
            f"Input string `{text}` decoded as {len(decoded)} bytes, which is not equal to the expected "
            f"{_UUID_BYTES} bytes of a base64-encoded UUID"
        )
    return decoded
