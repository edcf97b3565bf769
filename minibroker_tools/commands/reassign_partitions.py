"""kafka-reassign-partitions: moves replicas between brokers and log directories (`ReassignPartitionsCommand`)."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.metadata import MetadataResponseTopic
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import TopicPartition, by_partition, group_by_topic
from minibroker_tools.client.reassignments import (
    Reassignment,
    Replica,
    alter_reassignments,
    list_reassignments,
    move_directories,
    replica_directories,
)
from minibroker_tools.commands.common import add_connection, cluster_of, java_error, partition_name, read_json
from minibroker_tools.commands.reassignment_plans import (
    Plan,
    check_executable,
    clear_throttles,
    parse_broker_ids,
    parse_plan,
    parse_topics,
    plan_json,
    propose,
    throttle_brokers,
    throttle_directories,
)
from minibroker_tools.failures import ApiError, ToolError, UsageError, error_code
from minibroker_tools.options import Options, Values
from minibroker_tools.output import join_commas, plural_suffix, write, write_line

_CONNECTION: Final = ("bootstrap-server", "bootstrap-controller")
_KEEP_FACTOR: Final = "disallow-replication-factor-change"
_ACTIONS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "generate": (("topics-to-move-json-file", "broker-list"), ("disable-rack-aware",)),
    "execute": (
        ("reassignment-json-file",),
        ("additional", "throttle", "replica-alter-log-dirs-throttle", "timeout", _KEEP_FACTOR),
    ),
    "verify": (("reassignment-json-file",), ("preserve-throttles",)),
    "cancel": (("reassignment-json-file",), ("preserve-throttles", "timeout")),
    "list": ((), ()),
}
"""The required and the permitted options of each action."""
_CONTROLLER_ACTIONS: Final = ("cancel", "list")
_TIMEOUT_MS: Final = 10_000
_PAUSE_S: Final = 0.1
_UNTHROTTLED: Final = -1


class _TerseError(ToolError):
    """A failure printed without the `Error:` prefix (`TerseException`)."""


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-reassign-partitions."""
    options = Options(tool, "This tool helps to move topic partitions between replicas.")
    add_connection(options, controller=True)
    options.flag("verify", help="show the progress of a plan; remove the throttles once it is complete")
    options.flag("generate", help="propose a plan for topics and brokers")
    options.flag("execute", help="start the moves of a plan")
    options.flag("cancel", help="cancel the moves of a plan")
    options.flag("list", help="list all moves in progress")
    options.value("reassignment-json-file", help="the plan", metavar="FILE")
    options.value("topics-to-move-json-file", help="with --generate: the topics", metavar="FILE")
    options.value("broker-list", help="with --generate: the broker ids, such as 0,1,2", metavar="IDS")
    options.flag("disable-rack-aware", help="with --generate: ignore racks")
    options.value("throttle", help="limit of moves between brokers, in bytes per second", type=int, metavar="RATE")
    options.value("replica-alter-log-dirs-throttle", help="limit of directory moves, in bytes per second", type=int)
    options.value("timeout", help="for starting directory moves, in ms (default: 10000)", type=int, metavar="MS")
    options.flag("additional", help="with --execute: in addition to moves in progress")
    options.flag(_KEEP_FACTOR, help="with --execute: refuse a different replication factor")
    options.flag("preserve-throttles", help="with --verify and --cancel: keep the throttles")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Run the action given on the command line."""
    values = options.parse(arguments)
    action = _select_action(values)
    try:
        with cluster_of(values) as cluster:
            if action == "list":
                _list_moves(cluster)
            elif action == "generate":
                _propose_plan(cluster, values)
            else:
                plan = parse_plan(read_json(values.text("reassignment-json-file") or ""))
                work = {"verify": _verify_plan, "execute": _execute_plan, "cancel": _cancel_plan}[action]
                work(cluster, plan, values)
    except _TerseError as failure:
        write_line(failure.message)
        return 1
    except ToolError as failure:
        write_line(f"Error: {java_error(failure)}")
        return 1
    return 0


def _select_action(values: Values) -> str:
    actions = [name for name in _ACTIONS if values.has(name)]
    if len(actions) != 1:
        choices = ", ".join(f"--{name}" for name in _ACTIONS)
        raise UsageError(f"Command must include exactly one action: {choices}")
    action = actions[0]
    if all(map(values.has, _CONNECTION)):
        raise UsageError("Please don't specify both --bootstrap-server and --bootstrap-controller")
    if not any(map(values.has, _CONNECTION)):
        raise UsageError("Please specify --bootstrap-server")
    required, permitted = _ACTIONS[action]
    values.require(*required)
    connection = _CONNECTION if action in _CONTROLLER_ACTIONS else _CONNECTION[:1]
    allowed = {action, "command-config", *connection, *required, *permitted}
    names = [*_CONNECTION, *(name for groups in _ACTIONS.values() for group in groups for name in group)]
    for name in names:
        if name not in allowed and values.has(name):
            raise UsageError(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    return action


def _list_moves(cluster: Cluster) -> None:
    moves = list_reassignments(cluster)
    if not moves:
        write_line("No partition reassignments found.")
        return
    write_line("Current partition reassignments:")
    for partition, move in sorted(moves.items()):
        adding = f" adding: {join_commas(move.adding_replicas)}." if move.adding_replicas else ""
        removing = f" removing: {join_commas(move.removing_replicas)}." if move.removing_replicas else ""
        write_line(f"{partition_name(partition)}: replicas: {join_commas(move.replicas)}.{adding}{removing}")


def _propose_plan(cluster: Cluster, values: Values) -> None:
    nodes = parse_broker_ids(values.text("broker-list") or "")
    topics = parse_topics(read_json(values.text("topics-to-move-json-file") or ""))
    current = _replicas_of(_describe_topics(cluster, topics))
    racks = _broker_racks(cluster, nodes, aware=not values.has("disable-rack-aware"))
    proposed: dict[TopicPartition, list[int]] = {}
    for topic, indexes in group_by_topic(current).items():
        replicas = propose(racks, len(indexes), len(current[topic, indexes[0]]))
        proposed |= {(topic, index): partition_replicas for index, partition_replicas in enumerate(replicas)}
    write_line(f"Current partition replica assignment\n{plan_json(current)}\n")
    write_line(f"Proposed partition reassignment configuration\n{plan_json(proposed)}")


def _broker_racks(cluster: Cluster, nodes: Sequence[int], *, aware: bool) -> dict[int, str | None]:
    """Return the racks of the existing brokers among `nodes`. If `aware` is False, all racks are None.

    Raises:
        ToolError: Only some of the brokers have racks.
    """
    racks = {broker.node_id: broker.rack if aware else None for broker in cluster.brokers() if broker.node_id in nodes}
    if any(racks.values()) and not all(racks.values()):
        raise ToolError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    return racks


def _describe_topics(cluster: Cluster, topics: Iterable[str]) -> list[MetadataResponseTopic]:
    """Return the metadata of these topics.

    Raises:
        ApiError: A topic does not exist. The message names it.
    """
    described = cluster.metadata(sorted(set(topics))).topics
    for topic in described:
        if topic.error_code:
            is_unknown = error_code(topic.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise ApiError(topic.error_code, f"Topic {topic.name} not found." if is_unknown else None)
    return described


def _replicas_of(topics: Iterable[MetadataResponseTopic]) -> dict[TopicPartition, list[int]]:
    return {key: list(partition.replica_nodes) for key, partition in by_partition(topics).items()}


def _execute_plan(cluster: Cluster, plan: Plan, values: Values) -> None:
    check_executable(plan)
    moves = list_reassignments(cluster)
    if moves and not values.has("additional"):
        raise _TerseError(
            "Cannot execute because there is an existing partition assignment.  Use --additional to override this and "
            "create a new partition assignment in addition to the existing one. The --additional flag can also be used "
            "to change the throttle by resubmitting the current reassignment."
        )
    targets = dict(plan.partitions)
    current = _current_replicas(cluster, targets)
    write_line(
        f"Current partition replica assignment\n\n{plan_json(current)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )
    _throttle_moves(cluster, values, plan, moves, current)
    errors = alter_reassignments(cluster, targets, keep_factor=values.has(_KEEP_FACTOR))
    _raise_if_any("Error reassigning partition(s):", errors)
    write_line(f"Successfully started partition reassignment{plural_suffix(targets)} for {_partition_names(targets)}")
    if plan.directories:
        _move_directories(cluster, plan.directories, values)


def _current_replicas(cluster: Cluster, targets: Mapping[TopicPartition, list[int]]) -> dict[TopicPartition, list[int]]:
    """Return the current replicas of the partitions.

    Raises:
        ToolError: A broker or a partition does not exist.
    """
    existing = {broker.node_id for broker in cluster.brokers()}
    unknown = sorted({node for replicas in targets.values() for node in replicas} - existing)
    if unknown:
        raise ToolError(f"Unknown broker id {unknown[0]}")
    replicas = _replicas_of(_describe_topics(cluster, (topic for topic, _ in targets)))
    current = {partition: nodes for partition, nodes in replicas.items() if partition in targets}
    missing = sorted(targets.keys() - current.keys())
    if missing:
        names = ", ".join(map(partition_name, missing))
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition: {names}")
    return current


def _throttle_moves(
    cluster: Cluster,
    values: Values,
    plan: Plan,
    moves: Mapping[TopicPartition, Reassignment],
    current: Mapping[TopicPartition, list[int]],
) -> None:
    between_brokers = values.number("throttle", _UNTHROTTLED)
    between_directories = values.number("replica-alter-log-dirs-throttle", _UNTHROTTLED)
    if between_brokers < 0 and between_directories < 0:
        return
    write_line(
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
        "removed."
    )
    if between_brokers >= 0:
        throttle_brokers(cluster, dict(plan.partitions), moves, current, between_brokers)
    if between_directories >= 0:
        throttle_directories(cluster, plan.directories, between_directories)


def _move_directories(cluster: Cluster, targets: Mapping[Replica, str], values: Values) -> None:
    """Start moves between log directories. A move is retried until its replica is on the broker.

    Raises:
        ToolError: A move cannot be started, or the timeout expired.
    """
    deadline = time.monotonic() + values.number("timeout", _TIMEOUT_MS) / 1000
    pending = dict(targets)
    while True:
        for replica, error in sorted(move_directories(cluster, pending).items()):
            if error is None:
                write_line(
                    f"Successfully started moving log directory to {pending.pop(replica)} for replica "
                    f"{replica.topic}-{replica.partition} with broker {replica.node} "
                )
            elif error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                raise ToolError(f"Failed to alter dir for {replica}: {error.described}")
        if not pending:
            return
        if time.monotonic() > deadline:
            names = ",".join(map(str, sorted(pending)))
            raise _TerseError(
                f"Timed out before log directory move{plural_suffix(pending)} could be started for: {names}"
            )
        time.sleep(_PAUSE_S)


def _verify_plan(cluster: Cluster, plan: Plan, values: Values) -> None:
    moves = list_reassignments(cluster)
    write_line("Status of partition reassignment:")
    current = _existing_replicas(cluster, [partition for partition, _ in plan.partitions if partition not in moves])
    for partition, replicas in sorted(plan.partitions):
        if partition in moves:
            write_line(f"Reassignment of partition {partition_name(partition)} is still in progress.")
        elif current[partition] == replicas:
            write_line(f"Reassignment of partition {partition_name(partition)} is completed.")
        else:
            write_line(
                f"There is no active reassignment of partition {partition_name(partition)}, but replica set is "
                f"{join_commas(current[partition])} rather than {join_commas(replicas)}."
            )
    are_moving = _verify_directories(cluster, plan.directories)
    if not moves and not are_moving and not values.has("preserve-throttles"):
        clear_throttles(cluster, plan.partitions)


def _existing_replicas(cluster: Cluster, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, list[int]]:
    """Return the current replicas of the partitions. A partition that does not exist has an empty list."""
    names = sorted({topic for topic, _ in partitions})
    current = _replicas_of(cluster.metadata(names).topics if names else ())
    return {partition: current.get(partition, []) for partition in partitions}


def _verify_directories(cluster: Cluster, targets: Mapping[Replica, str]) -> bool:
    """Print the state of each move between log directories, and return whether any move is in progress."""
    are_moving = False
    states: list[str] = []
    for replica, (current, future) in sorted(replica_directories(cluster, targets).items()):
        target, name = targets[replica], f"{replica.topic}-{replica.partition}"
        if current is None:
            states.append(
                f"Partition {name} is not found in any live log dir on broker {replica.node}. There is likely an "
                "offline log directory on the broker."
            )
        elif future is not None:
            are_moving = True
            states.append(
                f"Reassignment of replica {replica} is still in progress."
                if future == target
                else f"Partition {name} on broker {replica.node} is being moved to log dir {future} instead of "
                f"{target}."
            )
        elif current == target:
            states.append(f"Reassignment of replica {replica} completed successfully.")
        else:
            states.append(
                f"Partition {name} on broker {replica.node} is not being moved from log dir {current} to {target}."
            )
    write_line("\n".join(states))
    return are_moving


def _cancel_plan(cluster: Cluster, plan: Plan, values: Values) -> None:
    targets = [partition for partition, _ in plan.partitions]
    active = sorted(list_reassignments(cluster, targets))
    if active:
        errors = alter_reassignments(cluster, dict.fromkeys(active))
        _raise_if_any(f"Error cancelling partition reassignment{plural_suffix(errors)} for:", errors)
        write_line(
            f"Successfully cancelled partition reassignment{plural_suffix(active)} for: {_partition_names(active)}"
        )
    else:
        write_line("None of the specified partition reassignments are active.")
    directories = replica_directories(cluster, plan.directories).items()
    moving = {replica: current for replica, (current, future) in directories if current is not None and future}
    if moving:
        _move_directories(cluster, moving, values)
    else:
        write("None of the specified partition moves are active.")
    if not values.has("preserve-throttles"):
        clear_throttles(cluster, plan.partitions)


def _raise_if_any(title: str, errors: Mapping[TopicPartition, ApiError]) -> None:
    if errors:
        lines = [f"{partition_name(partition)}: {error.message}" for partition, error in sorted(errors.items())]
        raise _TerseError("\n".join([title, *lines]))


def _partition_names(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(map(partition_name, sorted(partitions)))
