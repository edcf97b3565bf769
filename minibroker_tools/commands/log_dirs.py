"""kafka-log-dirs: shows the replica sizes in brokers' log directories (`org.apache.kafka.tools.LogDirsCommand`)."""

import json
from collections.abc import Sequence
from typing import Any

from minibroker_protocol.java_text import to_long
from minibroker_protocol.messages import log_dirs as api
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.commands.common import add_connection, cluster_of
from minibroker_tools.failures import ApiError, ToolError, checked
from minibroker_tools.options import Options, Values
from minibroker_tools.output import joined, out


def options(tool: str) -> Options:
    """Declare the options of kafka-log-dirs."""
    known = Options(tool, "This tool helps to query log directory usage on the specified brokers.")
    add_connection(known)
    known.flag("describe", help="describe the log directories")
    known.value("topic-list", help="only these topics, separated by commas", metavar="TOPICS")
    known.value("broker-list", help="only the brokers with these ids, separated by commas", metavar="IDS")
    return known


def run(known: Options, arguments: Sequence[str]) -> int:
    """Print the log directories of the brokers as JSON."""
    values = known.parse(arguments)
    values.require("bootstrap-server", "describe")
    topics = _parts(values, "topic-list")
    try:
        asked = [to_long(part) for part in _parts(values, "broker-list")]
    except ValueError:
        raise ToolError(f"--broker-list: {values.text('broker-list')!r} is not a list of numbers") from None
    with cluster_of(values) as cluster:
        present = [broker.node_id for broker in cluster.brokers()]
        missing = set(asked) - set(present)
        if missing:
            raise ToolError(
                f"ERROR: The given brokers do not exist from --broker-list: {joined(sorted(missing))}. Current "
                f"existent brokers: {joined(sorted(present))}"
            )
        ids = sorted(set(asked or present))
        out("Querying brokers for log directories information")
        brokers = [{"broker": node_id, "logDirs": _directories(cluster, node_id, topics)} for node_id in ids]
    out(f"Received log directory information from brokers {joined(sorted(ids))}")
    out(json.dumps({"brokers": brokers, "version": 1}, separators=(",", ":")))
    return 0


def _parts(values: Values, name: str) -> list[str]:
    return [part for part in (values.text(name) or "").split(",") if part]


def _directories(cluster: Cluster, node_id: int, topics: Sequence[str]) -> list[dict[str, Any]]:
    request = api.DescribeLogDirsRequest(topics=None)
    response: api.DescribeLogDirsResponse = checked(cluster.node(node_id).ask(request))
    return [
        {
            "partitions": [
                {
                    "partition": f"{topic.name}-{each.partition_index}",
                    "size": each.partition_size,
                    "offsetLag": each.offset_lag,
                    "isFuture": each.is_future_key,
                }
                for topic in result.topics
                if not topics or topic.name in topics
                for each in topic.partitions
            ],
            "error": ApiError(result.error_code).class_name if result.error_code else None,
            "logDir": result.log_dir,
        }
        for result in response.results
    ]
