"""kafka-leader-election: elects leaders of partitions (`org.apache.kafka.tools.LeaderElectionCommand`)."""

from collections.abc import Sequence
from typing import Final

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages import reassignments as api
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import TopicPartition, group_values
from minibroker_tools.client.settings import Settings, load_properties
from minibroker_tools.commands.common import find_duplicates, partition_entries, partition_name, read_json
from minibroker_tools.failures import ApiError, ToolError, UnreachableError, find_error
from minibroker_tools.options import Options, Values
from minibroker_tools.output import write_line

_TYPES: Final = {"PREFERRED": 0, "UNCLEAN": 1}
_CHOICES: Final = ("topic", "all-topic-partitions", "path-to-json-file")
_TIMEOUT_S: Final = 30.0


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-leader-election."""
    options = Options(
        tool,
        "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported are "
        "preferred replicas and unclean replicas.",
    )
    options.value("bootstrap-server", help="the brokers to connect to", metavar="SERVERS")
    options.value("admin.config", "command-config", help="a file with client properties", metavar="FILE")
    options.value("path-to-json-file", help="a JSON file with the partitions", metavar="FILE")
    options.value("topic", help="the topic, with --partition")
    options.value("partition", help="the partition of --topic", type=int)
    options.flag("all-topic-partitions", help="all partitions")
    options.value("election-type", help="preferred or unclean", type=_parse_election_type, metavar="TYPE")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Elect leaders. The exit status is 1 if the election fails for any partition."""
    values = options.parse(arguments)
    _check_options(values)
    partitions = _parse_partitions(values)
    kind: str = values.get("election-type")
    properties = load_properties(values.text("admin.config"))
    timeout = None if "default.api.timeout.ms" in properties else _TIMEOUT_S
    try:
        with Cluster(Settings(values.text("bootstrap-server") or "", properties), timeout=timeout) as cluster:
            results = _elect_leaders(cluster, _TYPES[kind], partitions)
    except UnreachableError:
        write_line("Timeout waiting for election results")
        raise
    except ApiError as error:
        if error.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise ToolError(error.described) from None
        write_line("Not authorized to perform leader election")
        raise ToolError("Not authorized to perform leader election") from None
    _report_results(kind, results)
    return 0


def _parse_election_type(text: str) -> str:
    if text.upper() not in _TYPES:
        raise ValueError(text)
    return text.upper()


def _check_options(values: Values) -> None:
    missing = [name for name in ("bootstrap-server", "election-type") if not values.has(name)]
    if missing:
        raise ToolError(f"Missing required option(s): {', '.join(missing)}")
    if sum(map(values.has, _CHOICES)) != 1:
        raise ToolError(f"One and only one of the following options is required: {', '.join(_CHOICES)}")
    if values.has("topic") and not values.has("partition"):
        raise ToolError("Missing required option(s): partition")
    if values.has("partition") and not values.has("topic"):
        raise ToolError("Option partition is only allowed if topic is used")


def _parse_partitions(values: Values) -> list[TopicPartition] | None:
    """Return the partitions on the command line or in the JSON file, or None for all partitions."""
    path = values.text("path-to-json-file")
    if path is None:
        return [(values.text("topic") or "", values.number("partition", 0))] if values.has("topic") else None
    missing = 'Replica election data is missing "partitions" field'
    partitions = [partition for partition, _ in partition_entries(path, read_json(path), missing)]
    if duplicates := find_duplicates(map(partition_name, partitions)):
        raise ToolError(f"Replica election data contains duplicate partitions: [{', '.join(duplicates)}]")
    return partitions


def _elect_leaders(
    cluster: Cluster, kind: int, partitions: Sequence[TopicPartition] | None
) -> dict[TopicPartition, ApiError | None]:
    topics = None
    if partitions is not None:
        indexes_by_topic = group_values(partitions).items()
        topics = [api.TopicPartitions(topic=name, partitions=indexes) for name, indexes in indexes_by_topic]
    request = api.ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=int(_TIMEOUT_S * 1000))
    response: api.ElectLeadersResponse = cluster.ask_with_retries(cluster.controller, request)
    return {
        (result.topic, partition.partition_id): find_error(partition)
        for result in response.replica_election_results
        for partition in result.partition_result
    }


def _report_results(kind: str, results: dict[TopicPartition, ApiError | None]) -> None:
    errors = {partition_name(partition): error for partition, error in results.items()}
    elected = [name for name, error in errors.items() if error is None]
    unneeded = [name for name, error in errors.items() if error and error.code is ErrorCode.ELECTION_NOT_NEEDED]
    failed = {name: error for name, error in errors.items() if error and name not in unneeded}
    if elected:
        write_line(f"Successfully completed leader election ({kind}) for partitions {', '.join(elected)}")
    if unneeded:
        write_line(f"Valid replica already elected for partitions {', '.join(unneeded)}")
    for name, error in failed.items():
        write_line(f"Error completing leader election ({kind}) for partition: {name}: {error.described}")
    if failed:
        raise ToolError(f"{len(failed)} replica(s) could not be elected")
