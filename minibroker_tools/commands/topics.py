"""kafka-topics: creates, lists, describes, alters and deletes topics (`org.apache.kafka.tools.TopicCommand`)."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.internal_topics import INTERNAL_TOPICS
from minibroker_protocol.java_text import to_long
from minibroker_protocol.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
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
from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.uuids import uuid_text
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.configs import TOPIC, ConfigEntry, describe_configs, is_default
from minibroker_tools.client.offsets import TopicPartition
from minibroker_tools.client.reassignments import Reassignment, list_reassignments
from minibroker_tools.commands.common import add_connection, cluster_of, java_error, java_text, topic_filter
from minibroker_tools.failures import ApiError, ToolError, UsageError, check_all, checked
from minibroker_tools.options import Options, Values
from minibroker_tools.output import joined, log, out

_LOGGER: Final = "org.apache.kafka.tools.TopicCommand"
_ACTIONS: Final = ("create", "list", "alter", "describe", "delete")
_REPORTS: Final = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
_MOST_REPLICAS: Final = 32767
_COLLISIONS: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)
_WITH_CONFIGS: Final = " (the kafka-configs CLI supports altering topic configs with a --bootstrap-server option)"
_PAGE: Final = 2000


def options(tool: str) -> Options:
    """Declare the options of kafka-topics."""
    known = Options(
        tool,
        "This tool helps to create, delete, describe, or change a topic.",
        without_arguments="Create, delete, describe, or change a topic.",
    )
    add_connection(known)
    known.value("zookeeper", help="a broker on this machine replaces ZooKeeper", metavar="SERVERS")
    known.flag("list", help="list the topics")
    known.flag("create", help="create a topic")
    known.flag("delete", help="delete topics")
    known.flag("alter", help="increase the number of partitions of topics")
    known.flag("describe", help="show partitions and configurations of topics")
    known.value("topic", help="the topic; a regular expression, except with --create")
    known.value("topic-id", help="the id of the topic to describe", metavar="ID")
    known.value("config", help="a configuration of the new topic; repeatable", metavar="NAME=VALUE")
    known.value("delete-config", help="not supported", metavar="NAME")
    known.value("partitions", help="the number of partitions (default: the broker's setting)", type=int)
    known.value("replication-factor", help="the replicas of each partition (default: the broker's setting)", type=int)
    known.value("replica-assignment", help="the brokers of each partition: 0:1,1:2,...")
    for report in _REPORTS:
        known.flag(report, help="with --describe: only these partitions")
    known.flag("topics-with-overrides", help="with --describe: only topics that override configurations")
    known.flag("if-exists", help="do not fail if the topic does not exist")
    known.flag("if-not-exists", help="do not fail if the topic exists")
    known.flag("exclude-internal", help="leave out the internal topics")
    known.value("partition-size-limit-per-response", help="the maximum number of partitions per response", type=int)
    return known


def run(known: Options, arguments: Sequence[str]) -> int:
    """Run the action given on the command line."""
    values = known.parse(arguments)
    _check(values)
    action = {"create": _create, "list": _list, "alter": _alter, "describe": _describe, "delete": _delete}
    name = next(name for name in _ACTIONS if values.has(name))
    try:
        with cluster_of(values) as cluster:
            action[name](cluster, values)
    except UsageError:
        raise
    except ToolError as failure:
        out(f"Error while executing topic command : {failure.message}")
        log("ERROR", java_error(failure), _LOGGER)
        return failure.status
    return 0


def _check(values: Values) -> None:
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
    for report in _REPORTS:
        only_with(report, "describe", also=("topics-with-overrides",))
    only_with("topics-with-overrides", "describe", also=_REPORTS)
    only_with("if-exists", "alter", "delete", "describe")
    only_with("if-not-exists", "create")
    only_with("exclude-internal", "list", "describe")


def _create(cluster: Cluster, values: Values) -> None:
    name = values.text("topic") or ""
    if "." in name or "_" in name:
        out(_COLLISIONS)
    replicas = values.number("replication-factor", -1)
    if values.has("replication-factor") and not 1 <= replicas <= _MOST_REPLICAS:
        raise ToolError(f"The replication factor must be between 1 and {_MOST_REPLICAS} inclusive")
    partitions = values.number("partitions", -1)
    if values.has("partitions") and partitions < 1:
        raise ToolError("The partitions must be greater than 0")
    placed = _assignment(values)
    topic = CreatableTopic(
        name=name,
        num_partitions=-1 if placed else partitions,
        replication_factor=-1 if placed else replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in enumerate(placed)
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in _configs(values).items()],
    )

    def create() -> None:
        check_all(cluster.ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics)

    try:
        cluster.retried(create)
    except ApiError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS or not values.has("if-not-exists"):
            raise
    else:
        out(f"Created topic {name}.")


def _configs(values: Values) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in values.all("config"):
        key, equals, value = pair.partition("=")
        if not equals or not value.strip():
            raise ToolError(
                'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
            )
        found[key.strip()] = value.strip()
    return found


def _assignment(values: Values) -> list[list[int]]:
    text = values.text("replica-assignment")
    if not text:
        return []
    placed: list[list[int]] = []
    for index, part in enumerate(text.split(",")):
        try:
            brokers = [to_long(broker) for broker in part.split(":")]
        except ValueError:
            raise ToolError(f"--replica-assignment: {part!r} is not a list of broker ids, such as 0:1") from None
        twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        if twice:
            raise ToolError(f"Partition replica lists may not contain duplicate entries: {','.join(map(str, twice))}")
        if placed and len(brokers) != len(placed[0]):
            raise ToolError(f"Partition {index} has different replication factor: {brokers}")
        placed.append(brokers)
    return placed


def _names(cluster: Cluster, values: Values) -> list[str]:
    matches = topic_filter(values.text("topic"))
    hides = values.has("exclude-internal")
    found = sorted(topic.name for topic in cluster.metadata().topics if topic.name)
    return [name for name in found if matches(name) and not (hides and name in INTERNAL_TOPICS)]


def _existing(cluster: Cluster, values: Values) -> list[str]:
    names = _names(cluster, values)
    topic = values.text("topic")
    if topic and not names and not values.has("if-exists"):
        raise ToolError(f"Topic 'Optional[{topic}]' does not exist as expected")
    return names


def _list(cluster: Cluster, values: Values) -> None:
    out("\n".join(_names(cluster, values)))


def _alter(cluster: Cluster, values: Values) -> None:
    names = _existing(cluster, values)
    if not names:
        return
    placed = _assignment(values)
    counts = {topic.name: len(topic.partitions) for topic in cluster.topics(names)}
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=values.number("partitions", -1),
                assignments=[CreatePartitionsAssignment(broker_ids=brokers) for brokers in placed[counts[name] :]]
                if placed
                else None,
            )
            for name in names
        ],
        timeout_ms=30_000,
        validate_only=False,
    )
    check_all(cluster.ask_controller(request).results)


def _delete(cluster: Cluster, values: Values) -> None:
    names = _existing(cluster, values)
    if not names:
        return
    check_all(cluster.ask_controller(DeleteTopicsRequest(topic_names=names, timeout_ms=30_000)).responses)


def _describe(cluster: Cluster, values: Values) -> None:
    topic_id = values.text("topic-id")
    if topic_id:
        describe(cluster, values, _named_by_id(cluster, values, topic_id))
    else:
        describe(cluster, values, _existing(cluster, values))


def _named_by_id(cluster: Cluster, values: Values, topic_id: str) -> list[str]:
    found = [topic.name for topic in cluster.metadata().topics if topic.name and uuid_text(topic.topic_id) == topic_id]
    if not found and not values.has("if-exists"):
        raise ToolError(f"TopicId '{topic_id}' does not exist as expected")
    return found


class _Partition(NamedTuple):
    number: int
    leader: int
    replicas: list[int]
    isr: list[int]
    elr: list[int] | None
    last_known_elr: list[int] | None


class _Topic(NamedTuple):
    name: str
    topic_id: bytes
    partitions: list[_Partition]


def describe(cluster: Cluster, values: Values, names: Sequence[str]) -> None:
    """Print the topics with these names as selected by the options."""
    if not names:
        return
    topics = _topics(cluster, names, values.number("partition-size-limit-per-response", _PAGE))
    configs = describe_configs(cluster, [(TOPIC, name) for name in names])
    alive = {broker.node_id for broker in cluster.brokers()}
    moves = _moves(cluster)
    for topic in topics:
        _describe_topic(topic, configs[TOPIC, topic.name], alive, moves, values)


def _describe_topic(
    topic: _Topic,
    configs: Sequence[ConfigEntry],
    alive: set[int],
    moves: dict[TopicPartition, Reassignment],
    values: Values,
) -> None:
    own = [f"{entry.name}={java_text(entry.value)}" for entry in configs if not is_default(entry)]
    minimum = next((int(entry.value or 1) for entry in configs if entry.name == "min.insync.replicas"), 1)

    def replicas_of(partition: _Partition) -> int:
        move = moves.get((topic.name, partition.number))
        if move is None or not {*move.adding, *move.removing} & set(partition.replicas):
            return len(partition.replicas)
        return len(move.replicas) - len(move.adding)

    reports: dict[str, Callable[[_Partition], bool]] = {
        "under-replicated-partitions": lambda each: replicas_of(each) > len(each.isr),
        "under-min-isr-partitions": lambda each: each.leader < 0 or len(each.isr) < minimum,
        "at-min-isr-partitions": lambda each: len(each.isr) == minimum,
        "unavailable-partitions": lambda each: each.leader not in alive,
    }
    asked = [report for name, report in reports.items() if values.has(name)]
    overridden_only = values.has("topics-with-overrides")
    if not asked and (own or not overridden_only):
        topic_id = "" if topic.topic_id == ZERO_UUID else f"\tTopicId: {uuid_text(topic.topic_id)}"
        out(
            f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(topic.partitions)}"
            f"\tReplicationFactor: {replicas_of(topic.partitions[0])}\tConfigs: {','.join(own)}"
        )
    if overridden_only:
        return
    for partition in topic.partitions:
        if not asked or any(report(partition) for report in asked):
            _print_partition(topic.name, partition, moves.get((topic.name, partition.number)))


def _print_partition(topic: str, partition: _Partition, move: Reassignment | None) -> None:
    leader = "none" if partition.leader < 0 else partition.leader
    line = (
        f"\tTopic: {topic}\tPartition: {partition.number}\tLeader: {leader}"
        f"\tReplicas: {joined(partition.replicas)}\tIsr: {joined(partition.isr)}"
    )
    if move is not None:
        line += f"\tAdding Replicas: {joined(move.adding)}\tRemoving Replicas: {joined(move.removing)}"
    elr = "N/A" if partition.elr is None else joined(partition.elr)
    last_known = "N/A" if partition.last_known_elr is None else joined(partition.last_known_elr)
    out(f"{line}\tElr: {elr}\tLastKnownElr: {last_known}")


def _topics(cluster: Cluster, names: Sequence[str], page: int) -> list[_Topic]:
    if ApiKey.DESCRIBE_TOPIC_PARTITIONS not in cluster.any().versions:
        return [
            _Topic(topic.name or "", topic.topic_id, _sorted(topic.partitions, known=False))
            for topic in cluster.topics(names)
        ]
    return _paged(cluster, names, page)


def _paged(cluster: Cluster, names: Sequence[str], page: int) -> list[_Topic]:
    found: dict[str, _Topic] = {}
    cursor: Cursor | None = None
    while True:
        topics = [TopicRequest(name=name) for name in sorted(names)]
        request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=page, cursor=cursor)
        response: DescribeTopicPartitionsResponse = cluster.ask(request)
        for topic in map(checked, response.topics):
            name = topic.name or ""
            known = found.setdefault(name, _Topic(name, topic.topic_id, []))
            known.partitions.extend(_sorted(topic.partitions, known=True))
        cursor = response.next_cursor
        if cursor is None:
            return list(found.values())


def _sorted(partitions: Sequence[Any], *, known: bool) -> list[_Partition]:
    """Return the partitions sorted by index.

    Args:
        partitions: The partitions of a response.
        known: Whether the response includes eligible leader replicas.
    """
    return [
        _Partition(
            each.partition_index,
            each.leader_id,
            each.replica_nodes,
            each.isr_nodes,
            each.eligible_leader_replicas or [] if known else None,
            each.last_known_elr or [] if known else None,
        )
        for each in sorted(partitions, key=lambda each: int(each.partition_index))
    ]


def _moves(cluster: Cluster) -> dict[TopicPartition, Reassignment]:
    try:
        return list_reassignments(cluster)
    except ApiError:  # As in Kafka, topics are shown even if reassignments are not authorized or not supported.
        return {}
