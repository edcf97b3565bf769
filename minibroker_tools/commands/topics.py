"""kafka-topics: creates, lists, describes, alters and deletes topics (`org.apache.kafka.tools.TopicCommand`)."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.internal_topics import INTERNAL_TOPICS
from minibroker_protocol.java_text import to_long
from minibroker_protocol.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from minibroker_protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from minibroker_protocol.primitives import ZERO_UUID, uuid_text
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.configs import TOPIC, ConfigEntry, describe_configs, is_default
from minibroker_tools.client.offsets import TopicPartition
from minibroker_tools.client.reassignments import Reassignment, list_reassignments
from minibroker_tools.commands.common import (
    add_connection,
    cluster_of,
    find_duplicates,
    java_error,
    java_text,
    topic_filter,
)
from minibroker_tools.failures import ApiError, ToolError, UsageError, check_all, raise_if_failed
from minibroker_tools.options import Options, Values
from minibroker_tools.output import join_commas, log, write_line

_LOGGER: Final = "org.apache.kafka.tools.TopicCommand"
_ACTIONS: Final = ("create", "list", "alter", "describe", "delete")
_REPORT_OPTIONS: Final = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
_MAX_REPLICAS: Final = 32767
_COLLISION_WARNING: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)
_WITH_CONFIGS: Final = " (the kafka-configs CLI supports altering topic configs with a --bootstrap-server option)"
_PARTITIONS_PER_PAGE: Final = 2000


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-topics."""
    options = Options(
        tool,
        "This tool helps to create, delete, describe, or change a topic.",
        without_arguments="Create, delete, describe, or change a topic.",
    )
    add_connection(options)
    options.value("zookeeper", help="a broker on this machine replaces ZooKeeper", metavar="SERVERS")
    options.flag("list", help="list the topics")
    options.flag("create", help="create a topic")
    options.flag("delete", help="delete topics")
    options.flag("alter", help="increase the number of partitions of topics")
    options.flag("describe", help="show partitions and configurations of topics")
    options.value("topic", help="the topic; a regular expression, except with --create")
    options.value("topic-id", help="the id of the topic to describe", metavar="ID")
    options.value("config", help="a configuration of the new topic; repeatable", metavar="NAME=VALUE")
    options.value("delete-config", help="not supported", metavar="NAME")
    options.value("partitions", help="the number of partitions (default: the broker's setting)", type=int)
    options.value("replication-factor", help="the replicas of each partition (default: the broker's setting)", type=int)
    options.value("replica-assignment", help="the brokers of each partition: 0:1,1:2,...")
    for report in _REPORT_OPTIONS:
        options.flag(report, help="with --describe: only these partitions")
    options.flag("topics-with-overrides", help="with --describe: only topics that override configurations")
    options.flag("if-exists", help="do not fail if the topic does not exist")
    options.flag("if-not-exists", help="do not fail if the topic exists")
    options.flag("exclude-internal", help="leave out the internal topics")
    options.value("partition-size-limit-per-response", help="the maximum number of partitions per response", type=int)
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Run the action given on the command line."""
    values = options.parse(arguments)
    _check_options(values)
    actions = {
        "create": _create_topic, "list": _list_topics, "alter": _alter_topics, "describe": _describe_topics,
        "delete": _delete_topics,
    }  # fmt: skip
    name = next(name for name in _ACTIONS if values.has(name))
    try:
        with cluster_of(values) as cluster:
            actions[name](cluster, values)
    except UsageError:
        raise
    except ToolError as failure:
        write_line(f"Error while executing topic command : {failure.message}")
        log("ERROR", java_error(failure), _LOGGER)
        return failure.status
    return 0


def _check_options(values: Values) -> None:
    if sum(map(values.has, _ACTIONS)) != 1:
        raise UsageError("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    if not values.has("bootstrap-server") and not values.has("zookeeper"):
        raise ToolError("--bootstrap-server must be specified")
    if values.has("describe") and values.has("if-exists") and not values.has("topic") and not values.has("topic-id"):
        raise UsageError("--topic or --topic-id is required to describe a topic")
    if not values.has("list") and not values.has("describe"):
        values.require("topic")
    if values.has("alter"):
        if values.has("config"):
            raise UsageError(
                f'Option combination "[bootstrap-server],[config]" can\'t be used with option "[alter]"{_WITH_CONFIGS}'
            )
        values.require("partitions")
    _check_pairs(values)


def _check_pairs(values: Values) -> None:
    def only_with(name: str, *actions: str, also: Sequence[str] = ()) -> None:
        values.exclude(name, *(action for action in _ACTIONS if action not in actions), *also)

    only_with("config", "alter", "create")
    only_with("delete-config", "alter", also=("bootstrap-server",))
    only_with("partitions", "alter", "create")
    only_with("replication-factor", "create")
    only_with("replica-assignment", "alter", "create")
    if values.has("create"):
        values.exclude("replica-assignment", "partitions", "replication-factor")
    for report in _REPORT_OPTIONS:
        only_with(report, "describe", also=("topics-with-overrides",))
    only_with("topics-with-overrides", "describe", also=_REPORT_OPTIONS)
    only_with("if-exists", "alter", "delete", "describe")
    only_with("if-not-exists", "create")
    only_with("exclude-internal", "list", "describe")


def _create_topic(cluster: Cluster, values: Values) -> None:
    name = values.text("topic") or ""
    if "." in name or "_" in name:
        write_line(_COLLISION_WARNING)
    replicas = values.number("replication-factor", -1)
    if values.has("replication-factor") and not 1 <= replicas <= _MAX_REPLICAS:
        raise ToolError(f"The replication factor must be between 1 and {_MAX_REPLICAS} inclusive")
    partitions = values.number("partitions", -1)
    if values.has("partitions") and partitions < 1:
        raise ToolError("The partitions must be greater than 0")
    assignment = _parse_assignment(values)
    topic = CreatableTopic(
        name=name,
        num_partitions=-1 if assignment else partitions,
        replication_factor=-1 if assignment else replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in enumerate(assignment)
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in _parse_configs(values).items()],
    )

    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    try:
        cluster.retry(lambda: check_all(cluster.ask_controller(request).topics))
    except ApiError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS or not values.has("if-not-exists"):
            raise
    else:
        write_line(f"Created topic {name}.")


def _parse_configs(values: Values) -> dict[str, str]:
    configs: dict[str, str] = {}
    for pair in values.all("config"):
        key, equals, value = pair.partition("=")
        if not equals or not value.strip():
            raise ToolError(
                'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
            )
        configs[key.strip()] = value.strip()
    return configs


def _parse_assignment(values: Values) -> list[list[int]]:
    text = values.text("replica-assignment")
    assignment: list[list[int]] = []
    for index, part in enumerate(text.split(",") if text else ()):
        try:
            brokers = [to_long(broker) for broker in part.split(":")]
        except ValueError:
            raise ToolError(f"--replica-assignment: {part!r} is not a list of broker ids, such as 0:1") from None
        if duplicates := find_duplicates(brokers):
            raise ToolError(f"Partition replica lists may not contain duplicate entries: {join_commas(duplicates)}")
        if assignment and len(brokers) != len(assignment[0]):
            raise ToolError(f"Partition {index} has different replication factor: {brokers}")
        assignment.append(brokers)
    return assignment


def _select_topics(cluster: Cluster, values: Values) -> list[str]:
    matches = topic_filter(values.text("topic"))
    hides_internal = values.has("exclude-internal")
    names = sorted(topic.name for topic in cluster.metadata().topics if topic.name)
    return [name for name in names if matches(name) and not (hides_internal and name in INTERNAL_TOPICS)]


def _find_topics(cluster: Cluster, values: Values) -> list[str]:
    names = _select_topics(cluster, values)
    topic = values.text("topic")
    if topic and not names and not values.has("if-exists"):
        raise ToolError(f"Topic 'Optional[{topic}]' does not exist as expected")
    return names


def _list_topics(cluster: Cluster, values: Values) -> None:
    write_line("\n".join(_select_topics(cluster, values)))


def _alter_topics(cluster: Cluster, values: Values) -> None:
    names = _find_topics(cluster, values)
    if not names:
        return
    assignment = _parse_assignment(values)
    counts = {topic.name: len(topic.partitions) for topic in cluster.topics(names)}
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=values.number("partitions", -1),
                assignments=[CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignment[counts[name] :]]
                if assignment
                else None,
            )
            for name in names
        ],
        timeout_ms=30_000,
        validate_only=False,
    )
    check_all(cluster.ask_controller(request).results)


def _delete_topics(cluster: Cluster, values: Values) -> None:
    if names := _find_topics(cluster, values):
        check_all(cluster.ask_controller(DeleteTopicsRequest(topic_names=names, timeout_ms=30_000)).responses)


def _describe_topics(cluster: Cluster, values: Values) -> None:
    topic_id = values.text("topic-id")
    names = _find_by_id(cluster, values, topic_id) if topic_id else _find_topics(cluster, values)
    if not names:
        return
    topics = _fetch_topics(cluster, names, values.number("partition-size-limit-per-response", _PARTITIONS_PER_PAGE))
    configs = describe_configs(cluster, [(TOPIC, name) for name in names])
    alive = {broker.node_id for broker in cluster.brokers()}
    try:
        moves = list_reassignments(cluster)
    except ApiError:  # As in Kafka, show topics even if listing reassignments is not authorized or not supported.
        moves = {}
    for topic in topics:
        _print_topic(topic, configs[TOPIC, topic.name], alive, moves, values)


def _find_by_id(cluster: Cluster, values: Values, topic_id: str) -> list[str]:
    names = [topic.name for topic in cluster.metadata().topics if topic.name and uuid_text(topic.topic_id) == topic_id]
    if not names and not values.has("if-exists"):
        raise ToolError(f"TopicId '{topic_id}' does not exist as expected")
    return names


def _print_topic(
    topic: Any,
    configs: Sequence[ConfigEntry],
    alive: set[int],
    moves: dict[TopicPartition, Reassignment],
    values: Values,
) -> None:
    overrides = [f"{entry.name}={java_text(entry.value)}" for entry in configs if not is_default(entry)]
    min_isr = next((int(entry.value or 1) for entry in configs if entry.name == "min.insync.replicas"), 1)

    def replicas_of(partition: Any) -> int:
        move = moves.get((topic.name, partition.partition_index))
        if move is None or not {*move.adding_replicas, *move.removing_replicas} & set(partition.replica_nodes):
            return len(partition.replica_nodes)
        return len(move.replicas) - len(move.adding_replicas)

    reports: dict[str, Callable[[Any], bool]] = {
        "under-replicated-partitions": lambda partition: replicas_of(partition) > len(partition.isr_nodes),
        "under-min-isr-partitions": lambda partition: partition.leader_id < 0 or len(partition.isr_nodes) < min_isr,
        "at-min-isr-partitions": lambda partition: len(partition.isr_nodes) == min_isr,
        "unavailable-partitions": lambda partition: partition.leader_id not in alive,
    }
    partitions = sorted(topic.partitions, key=lambda partition: int(partition.partition_index))
    requested_reports = [report for name, report in reports.items() if values.has(name)]
    overridden_only = values.has("topics-with-overrides")
    if not requested_reports and (overrides or not overridden_only):
        topic_id = "" if topic.topic_id == ZERO_UUID else f"\tTopicId: {uuid_text(topic.topic_id)}"
        write_line(
            f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(topic.partitions)}"
            f"\tReplicationFactor: {replicas_of(partitions[0])}\tConfigs: {','.join(overrides)}"
        )
    if overridden_only:
        return
    for partition in partitions:
        if not requested_reports or any(report(partition) for report in requested_reports):
            _print_partition(topic.name, partition, moves.get((topic.name, partition.partition_index)))


def _print_partition(topic: str, partition: Any, move: Reassignment | None) -> None:
    leader = "none" if partition.leader_id < 0 else partition.leader_id
    line = (
        f"\tTopic: {topic}\tPartition: {partition.partition_index}\tLeader: {leader}"
        f"\tReplicas: {join_commas(partition.replica_nodes)}\tIsr: {join_commas(partition.isr_nodes)}"
    )
    if move is not None:
        adding, removing = join_commas(move.adding_replicas), join_commas(move.removing_replicas)
        line += f"\tAdding Replicas: {adding}\tRemoving Replicas: {removing}"
    elr = last_known = "N/A"
    if hasattr(partition, "last_known_elr"):
        elr, last_known = map(join_commas, (partition.eligible_leader_replicas or (), partition.last_known_elr or ()))
    write_line(f"{line}\tElr: {elr}\tLastKnownElr: {last_known}")


def _fetch_topics(cluster: Cluster, names: Sequence[str], page_size: int) -> list[Any]:
    """Fetch topics with DescribeTopicPartitions, or with Metadata if the broker does not support it."""
    if ApiKey.DESCRIBE_TOPIC_PARTITIONS not in cluster.any().versions:
        return list(cluster.topics(names))
    topics: dict[str | None, DescribeTopicPartitionsResponseTopic] = {}
    cursor: Cursor | None = None
    while True:
        requested = [TopicRequest(name=name) for name in sorted(names)]
        request = DescribeTopicPartitionsRequest(topics=requested, response_partition_limit=page_size, cursor=cursor)
        response: DescribeTopicPartitionsResponse = cluster.ask(request)
        for topic in map(raise_if_failed, response.topics):
            if topics.setdefault(topic.name, topic) is not topic:
                topics[topic.name].partitions.extend(topic.partitions)
        cursor = response.next_cursor
        if cursor is None:
            return list(topics.values())
