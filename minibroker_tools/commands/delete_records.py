"""kafka-delete-records: advances the log start offset of partitions (`org.apache.kafka.tools.DeleteRecordsCommand`)."""

from collections.abc import Mapping, Sequence
from typing import Final

from minibroker_protocol.messages import log_offsets as api
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import TopicPartition, by_partition, group_by_leader, group_by_topic
from minibroker_tools.commands.common import (
    add_connection,
    cluster_of,
    find_duplicates,
    members_of_object,
    partition_entries,
    partition_name,
    read_json,
)
from minibroker_tools.failures import ApiError, ToolError, UnreachableError, find_error
from minibroker_tools.options import Options
from minibroker_tools.output import write_line

_TIMEOUT_MS: Final = 30_000


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-delete-records."""
    options = Options(tool, "This tool helps to delete records of the given partitions down to the specified offset.")
    add_connection(options)
    options.value("offset-json-file", help="a JSON file with the new start offset of each partition", metavar="FILE")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Delete records. As in Kafka's tool, the exit status is 0 even if a broker refuses some deletions."""
    values = options.parse(arguments)
    values.require("bootstrap-server", "offset-json-file")
    starts = _parse_start_offsets(values.text("offset-json-file") or "")
    with cluster_of(values) as cluster:
        write_line("Executing records delete operation")
        results = _delete_records(cluster, starts)
        write_line("Records delete operation completed:")
    for partition, result in results.items():
        outcome = f"error: {result.described}" if isinstance(result, ApiError) else f"low_watermark: {result}"
        write_line(f"partition: {partition_name(partition)}\t{outcome}")
    return 0


def _parse_start_offsets(path: str) -> dict[TopicPartition, int]:
    content = read_json(path)
    version = members_of_object(content).get("version", 1)
    if version != 1:
        raise ToolError(f"Not supported version field value {version}")
    entries = partition_entries(path, content, "Missing partitions field")
    for partition, entry in entries:
        if not isinstance(entry.get("offset"), int):
            raise ToolError(f"{path}: {partition_name(partition)} has no offset")
    if duplicates := find_duplicates(partition_name(partition) for partition, _ in entries):
        raise ToolError(f"Offset json file contains duplicate topic partitions: {','.join(duplicates)}")
    return {partition: entry["offset"] for partition, entry in entries}


def _delete_records(cluster: Cluster, starts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | ApiError]:
    groups, errors = group_by_leader(cluster, starts)
    results: dict[TopicPartition, int | ApiError] = {**errors}
    for leader, group in groups.items():
        topics = [
            api.DeleteRecordsTopic(
                name=name,
                partitions=[
                    api.DeleteRecordsPartition(partition_index=index, offset=starts[name, index]) for index in indexes
                ],
            )
            for name, indexes in group_by_topic(group).items()
        ]
        request = api.DeleteRecordsRequest(topics=topics, timeout_ms=_TIMEOUT_MS)
        response: api.DeleteRecordsResponse = cluster.node(leader).ask(request)
        for key, result in by_partition(response.topics).items():
            results[key] = find_error(result) or result.low_watermark
    missing = starts.keys() - results.keys()
    if missing:
        raise UnreachableError(f"No broker answered for {', '.join(sorted(map(partition_name, missing)))}")
    return {partition: results[partition] for partition in starts}
