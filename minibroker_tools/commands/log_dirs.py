"""kafka-log-dirs: shows the replicas and their sizes in brokers' log directories (`LogDirsCommand`)."""

from collections.abc import Sequence
from typing import Any

from minibroker_protocol.java_text import to_long
from minibroker_protocol.messages import log_dirs as api
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.commands.common import add_connection, cluster_of
from minibroker_tools.failures import ApiError, ToolError, raise_if_failed
from minibroker_tools.options import Options, Values
from minibroker_tools.output import compact_json, join_commas, write_line


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-log-dirs."""
    options = Options(tool, "This tool helps to query log directory usage on the specified brokers.")
    add_connection(options)
    options.flag("describe", help="describe the log directories")
    options.value("topic-list", help="only these topics, separated by commas", metavar="TOPICS")
    options.value("broker-list", help="only the brokers with these ids, separated by commas", metavar="IDS")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Print the log directories of the brokers as JSON."""
    values = options.parse(arguments)
    values.require("bootstrap-server", "describe")
    topics = _split_option(values, "topic-list")
    try:
        requested = [to_long(part) for part in _split_option(values, "broker-list")]
    except ValueError:
        raise ToolError(f"--broker-list: {values.text('broker-list')!r} is not a list of numbers") from None
    with cluster_of(values) as cluster:
        existing = [broker.node_id for broker in cluster.brokers()]
        missing = set(requested) - set(existing)
        if missing:
            raise ToolError(
                f"ERROR: The given brokers do not exist from --broker-list: {join_commas(sorted(missing))}. Current "
                f"existent brokers: {join_commas(sorted(existing))}"
            )
        ids = sorted(set(requested or existing))
        write_line("Querying brokers for log directories information")
        brokers = [{"broker": node_id, "logDirs": _describe_directories(cluster, node_id, topics)} for node_id in ids]
    write_line(f"Received log directory information from brokers {join_commas(sorted(ids))}")
    write_line(compact_json({"brokers": brokers, "version": 1}))
    return 0


def _split_option(values: Values, name: str) -> list[str]:
    return [part for part in (values.text(name) or "").split(",") if part]


def _describe_directories(cluster: Cluster, node_id: int, topics: Sequence[str]) -> list[dict[str, Any]]:
    request = api.DescribeLogDirsRequest(topics=None)
    response: api.DescribeLogDirsResponse = raise_if_failed(cluster.node(node_id).ask(request))
    return [
        {
            "partitions": [
                {
                    "partition": f"{topic.name}-{partition.partition_index}",
                    "size": partition.partition_size,
                    "offsetLag": partition.offset_lag,
                    "isFuture": partition.is_future_key,
                }
                for topic in result.topics
                if not topics or topic.name in topics
                for partition in topic.partitions
            ],
            "error": ApiError(result.error_code).class_name if result.error_code else None,
            "logDir": result.log_dir,
        }
        for result in response.results
    ]
