"""kafka-consumer-groups: lists, describes and deletes groups, and resets their offsets (`ConsumerGroupCommand`)."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.lazy_imports import lazy
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.groups import (
    DEAD,
    Description,
    Listing,
    attempt,
    delete_group,
    delete_offsets,
    describe_group,
    is_consumer_group,
    list_groups,
)
from minibroker_tools.client.offsets import (
    LATEST,
    TopicPartition,
    by_partition,
    fetch_committed_offsets,
    group_values,
    list_offsets_at,
)
from minibroker_tools.commands.common import add_connection, cluster_of, java_error
from minibroker_tools.commands.group_resets import EXECUTION_PREFIX, SCENARIOS, prefix_api_errors, reset, split_topics
from minibroker_tools.failures import ApiError, ToolError, UsageError
from minibroker_tools.options import Options, Values
from minibroker_tools.output import format_row, write_error_line, write_line

with lazy:
    from minibroker.config.names import regular_expressions

_ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
_TYPES: Final = ("Consumer", "Classic", "Share")
_NO_ACTION: Final = (
    "WARN: No action will be performed as the --execute option is missing."
    "In a future major release, the default behavior of this command will be to prompt the user before executing the "
    "reset rather than doing a dry run. You should add the --dry-run option explicitly if you are scripting this "
    "command and want to keep the current default behavior without prompting."
)
_PARTITION_ERRORS: Final = (
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
_GROUP_WIDTH: Final = 15
_NO_VALUE: Final = "-"
_COLUMNS: Final = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
_REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
_WIDTH: Final = 15
_INSTANCE_WIDTH: Final = 17
_COORDINATOR_WIDTH: Final = 25


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-consumer-groups."""
    options = Options(
        tool,
        "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or reset "
        "consumer group offsets.",
    )
    add_connection(options)
    options.flag("list", help="list the groups")
    options.flag("describe", help="describe groups: offsets and lag, or see --members and --state")
    options.flag("delete", help="delete groups")
    options.flag("reset-offsets", help="reset committed offsets of groups without members")
    options.flag("delete-offsets", help="delete committed offsets of a group")
    options.value("validate-regex", help="check an RE2 regular expression, without a broker")
    options.value("group", help="a group; repeatable")
    options.flag("all-groups", help="all groups")
    options.value("topic", help="a topic, or TOPIC:0,1,2; repeatable")
    options.flag("all-topics", help="all topics for which the group has committed offsets")
    options.value("timeout", help="the timeout in ms (default: 5000)", type=int, metavar="MS")
    options.flag("members", help="with --describe: the members")
    options.flag("offsets", help="with --describe: offsets and lag (the default)")
    options.optional_value("state", help="with --describe: show states; with --list: only groups in these states")
    options.optional_value("type", help="with --list: only groups of these types")
    options.flag("verbose", help="with --describe: more details, such as the partitions of members")
    options.flag("dry-run", help="show the new offsets without committing them")
    options.flag("execute", help="commit the new offsets")
    options.flag("export", help="print the new offsets as CSV")
    options.value("to-offset", help="reset to this offset", type=int)
    options.value("shift-by", help="shift by this many offsets, forward or back", type=int, metavar="N")
    options.value("to-datetime", help="reset to the first record at or after YYYY-MM-DDTHH:mm:SS.sss", metavar="TIME")
    options.value("by-duration", help="reset to the first record within the last PnDTnHnMnS", metavar="DURATION")
    options.flag("to-earliest", help="reset to the earliest offset")
    options.flag("to-latest", help="reset to the latest offset")
    options.flag("to-current", help="reset to the committed offset, or to the latest offset without one")
    options.value("from-file", help="reset to the offsets in a CSV file", metavar="FILE")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Run the action given on the command line.

    As in Kafka's tool, the exit status is 0 even if a broker refuses the action.
    """
    values = options.parse(arguments)
    _check_options(values)
    if values.has("validate-regex"):
        _validate_regex(values.text("validate-regex") or "")
        return 0
    states, types = _parse_states(values), _parse_types(values)
    try:
        with cluster_of(values, timeout=values.number("timeout", 5000) / 1000) as cluster:
            if values.has("list"):
                _list_groups(cluster, values, states, types)
            elif values.has("describe"):
                _print_descriptions(cluster, values)
            elif values.has("delete"):
                _delete_groups(cluster, values)
            elif values.has("reset-offsets"):
                reset(cluster, values, _select_groups(cluster, values))
            else:
                _delete_offsets(cluster, values)
    except UsageError:
        raise
    except ToolError as failure:
        _print_error(f"Executing consumer group command failed due to {java_error(failure)}")
    return 0


def _check_options(values: Values) -> None:
    values.only_with("members", "verbose", "offsets", any_of=("describe",))
    values.only_with("state", any_of=("describe", "list"))
    values.only_with("type", any_of=("list",))
    if not values.has("validate-regex"):
        values.require("bootstrap-server")
    if values.has("describe"):
        _check_describe(values)
    if values.has("delete"):
        _require_groups(values, "delete", "[group], [all-groups]")
        if values.has("topic"):
            raise UsageError("The consumer does not support topic-specific offset deletion from a consumer group.")
    if values.has("delete-offsets") and not (values.has("group") and values.has("topic")):
        raise UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
    if values.has("reset-offsets"):
        _check_reset(values)
    values.exclude("group", "all-groups", "list")
    values.exclude("topic", "list", "describe")
    if sum(map(values.has, (*_ACTIONS, "validate-regex"))) != 1:
        raise UsageError(f"Command must include exactly one action: {', '.join(f'--{action}' for action in _ACTIONS)}")


def _require_groups(values: Values, action: str, choice: str) -> None:
    if not values.has("group") and not values.has("all-groups"):
        raise UsageError(f"Option [{action}] takes one of these options: {choice}")


def _check_describe(values: Values) -> None:
    _require_groups(values, "describe", "[list], [describe], [delete], [reset-offsets]")
    if sum(map(values.has, ("members", "offsets", "state"))) > 1:
        raise UsageError("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    if values.has("state") and values.get("state") is not None:
        raise UsageError("Option [describe] does not take a value for [state]")


def _check_reset(values: Values) -> None:
    if values.has("dry-run") and values.has("execute"):
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not values.has("dry-run") and not values.has("execute"):
        write_error_line(_NO_ACTION)
    _require_groups(values, "reset-offsets", "[group], [all-groups]")
    scenarios = (*SCENARIOS, "from-file")
    for scenario in scenarios:
        values.exclude(scenario, *(other for other in scenarios if other != scenario))


def _validate_regex(pattern: str) -> None:
    try:
        regular_expressions.RegularExpression(pattern)
    except regular_expressions.RegularExpressionError as error:
        write_line(f"The regular expression `{pattern}` is invalid: {error.description}.")
    else:
        write_line(f"The regular expression `{pattern}` is valid.")


def _print_error(message: str) -> None:
    write_line(f"\nError: {message}")


def _parse_states(values: Values) -> list[str]:
    text = values.text("state") if values.has("list") else None
    return [] if text is None else _parse_choices(text, _STATES, f"Invalid state list '{text}'. Valid states are: ")


def _parse_types(values: Values) -> list[str]:
    text = values.text("type")
    return [] if text is None else _parse_choices(text, _TYPES, f"Invalid types list '{text}'. Valid types are: ")


def _parse_choices(text: str, choices: Sequence[str], refusal: str) -> list[str]:
    by_name = {name.lower(): name for name in choices}
    try:
        return [by_name[part.strip().lower()] for part in text.split(",")]
    except KeyError:
        raise UsageError(refusal + ", ".join(choices)) from None


def _find_all_groups(cluster: Cluster) -> list[str]:
    with prefix_api_errors():
        return [listing.group_id for listing in list_groups(cluster) if is_consumer_group(listing)]


def _select_groups(cluster: Cluster, values: Values) -> list[str]:
    return _find_all_groups(cluster) if values.has("all-groups") else list(dict.fromkeys(values.all("group")))


def _list_groups(cluster: Cluster, values: Values, states: Sequence[str], types: Sequence[str]) -> None:
    if not values.has("state") and not values.has("type"):
        for group in _find_all_groups(cluster):
            write_line(group)
        return
    listings = filter(is_consumer_group, list_groups(cluster, states=states, types=types))
    _print_groups(list(listings), with_type=values.has("type"), with_state=values.has("state"))


def _print_groups(listings: Sequence[Listing], *, with_type: bool, with_state: bool) -> None:
    """Print groups in columns."""
    width = max([_GROUP_WIDTH, *(len(listing.group_id) for listing in listings)]) + 10
    rows = [("GROUP", "TYPE", "STATE")]
    rows += [
        (listing.group_id, listing.group_type.capitalize() or "Unknown", listing.group_state or "Unknown")
        for listing in listings
    ]
    for group, kind, state in rows:
        cells = [group, *[kind] * with_type, *[state] * with_state]
        write_line(format_row(cells, [width, *[20] * (len(cells) - 1)]))


def _print_descriptions(cluster: Cluster, values: Values) -> None:
    groups = _select_groups(cluster, values)
    if values.has("members"):
        print_members(cluster, groups, verbose=values.has("verbose"))
    elif values.has("state"):
        print_states(cluster, groups)
    else:
        print_offsets(cluster, groups)


def _delete_groups(cluster: Cluster, values: Values) -> None:
    groups = _select_groups(cluster, values)
    errors = {group: attempt(partial(delete_group, cluster, group)) for group in groups}
    deleted = [group for group, error in errors.items() if error is None]
    if len(deleted) == len(errors):
        write_line(f"Deletion of requested consumer groups ('{', '.join(deleted)}') was successful.")
        return
    _print_error("Deletion of some consumer groups failed:")
    for group, error in errors.items():
        if error is not None:
            write_line(f"* Group '{group}' could not be deleted due to: {EXECUTION_PREFIX}{error.described}")
    if deleted:
        names = "'".join(deleted)
        write_line(f"\nThese consumer groups were deleted successfully: '{names}', '")


def _delete_offsets(cluster: Cluster, values: Values) -> None:
    group = values.text("group") or ""
    topics = values.all("topic")
    partitions, names = split_topics(topics)
    results: dict[TopicPartition, ApiError | None] = {}
    for topic in cluster.metadata(names).topics if names else ():
        if topic.error_code:
            results[topic.name or "", -1] = ApiError(topic.error_code)
        partitions += by_partition([topic])
    answer = attempt(lambda: delete_offsets(cluster, group, partitions))
    if isinstance(answer, ApiError):
        results.update(dict.fromkeys(partitions, answer))
        _print_refusal(group, answer)
    else:
        results.update(answer)
        first_error = next((error for error in answer.values() if error is not None), None)
        if first_error is None:
            write_line(f"Request succeed for deleting offsets with topic {', '.join(topics)} group {group}")
        else:
            _print_refusal(group, first_error)
    write_line()
    widths = (30, 15, 15)
    write_line(format_row(("TOPIC", "PARTITION", "STATUS"), widths))
    for (topic_name, index), error in sorted(results.items(), key=lambda item: f"{item[0][0]}{item[0][1]}"):
        status = "Successful" if error is None else f"Error: :{error.described}"
        write_line(format_row((topic_name, index if index >= 0 else "Not Provided", status), widths))


def _print_refusal(group: str, error: ApiError) -> None:
    messages = {
        ErrorCode.INVALID_GROUP_ID: f"'{group}' is not valid.",
        ErrorCode.GROUP_ID_NOT_FOUND: f"'{group}' does not exist.",
        ErrorCode.GROUP_AUTHORIZATION_FAILED: f"Access to '{group}' is not authorized.",
        ErrorCode.NON_EMPTY_GROUP: f"Deleting offsets of a consumer group '{group}' is forbidden if the group is not "
        "empty.",
        **dict.fromkeys(_PARTITION_ERRORS, "Encounter some partition level error, see the follow-up details:"),
    }
    _print_error(messages.get(error.code, f"Encounter some unknown error: {error.code.name}"))


def print_offsets(cluster: Cluster, groups: Sequence[str]) -> None:
    """Print the committed offset, end offset, lag and assigned member of each partition.

    Raises:
        ToolError: A broker returned an error, or the state of a group is unknown.
    """
    for description in _describe_groups(cluster, groups):
        rows = _offset_rows(cluster, description)
        if not _print_state(description, len(rows)):
            continue
        cells = [_COLUMNS.split(), *rows]
        text_widths = [_column_width(cells, column) for column in (0, 1, 6, 7)]
        widths = [*text_widths[:2], 10, 15, 15, 15, *text_widths[2:], 0]
        write_line()
        for line in cells:
            write_line(format_row(line, widths))


def _offset_rows(cluster: Cluster, description: Description) -> list[Sequence[object]]:
    """Return a row for each partition. Partitions of the members with the most partitions come first."""
    committed = fetch_committed_offsets(cluster, description.group)
    sorted_members = sorted(description.members, key=lambda member: -len(member.partitions))
    readers = [(partition, member) for member in sorted_members for partition in sorted(member.partitions)]
    unassigned = sorted(committed.keys() - {partition for partition, _ in readers})
    with prefix_api_errors():
        ends = list_offsets_at(cluster, {*committed, *(partition for partition, _ in readers)}, LATEST)
    rows: list[Sequence[object]] = []
    for partition, member in (*readers, *((partition, None) for partition in unassigned)):
        offset, end = committed.get(partition, _NO_VALUE), ends[partition]
        lag = end - offset if isinstance(offset, int) else _NO_VALUE
        reader = (_NO_VALUE,) * 3 if member is None else (member.member_id, member.host, member.client_id)
        rows.append((description.group, *partition, offset, end, lag, *reader))
    return rows


def print_members(cluster: Cluster, groups: Sequence[str], *, verbose: bool) -> None:
    """Print each member and its number of partitions. If `verbose` is set, also list the partitions."""
    for description in _describe_groups(cluster, groups):
        members = description.members
        _print_state(description, len(members))
        shows_instances = any(member.instance_id for member in members)
        header = ["GROUP", "CONSUMER-ID", *["GROUP-INSTANCE-ID"] * shows_instances, "HOST", "CLIENT-ID", "#PARTITIONS"]
        cells: list[Sequence[object]] = [header]
        for member in members:
            instance = [member.instance_id or ""] * shows_instances
            count = len(member.partitions)
            cells.append([description.group, member.member_id, *instance, member.host, member.client_id, count])
        widths = [_column_width(cells, index) for index in range(len(header) - 1)]
        if shows_instances:
            widths[2] = _column_width(cells, 2, _INSTANCE_WIDTH)
        assignments = [""] * len(cells)
        if verbose:
            assignments = ["ASSIGNMENT", *(_format_assignment(member.partitions) for member in members)]
        write_line()
        for line, assignment in zip(cells, assignments, strict=True):
            write_line(format_row(line, [*widths, _WIDTH]) + " " + assignment)


def _format_assignment(partitions: Sequence[TopicPartition]) -> str:
    if not partitions:
        return _NO_VALUE
    indexes_by_topic = group_values((topic, str(index)) for topic, index in partitions)
    return ", ".join(sorted(f"({','.join(sorted(indexes))})" for indexes in indexes_by_topic.values()))


def print_states(cluster: Cluster, groups: Sequence[str]) -> None:
    """Print each group's coordinator, assignment strategy, state and number of members."""
    for description in _describe_groups(cluster, groups):
        if not _print_state(description, 1):
            continue
        broker = description.coordinator
        coordinator = f"{broker.host}:{broker.port}  ({broker.node_id})"
        coordinator_width = max(_COORDINATOR_WIDTH, len(coordinator))
        widths = [coordinator_width, _COORDINATOR_WIDTH, 20, _WIDTH, 0]
        write_line("\n" + format_row(("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"), widths))
        count = len(description.members)
        cells = (description.group, coordinator, description.strategy, description.state, count)
        write_line(format_row(cells, widths))


def _describe_groups(cluster: Cluster, groups: Sequence[str]) -> list[Description]:
    return [describe_group(cluster, group) for group in sorted(groups)]


def _print_state(description: Description, rows: int) -> bool:
    """Print a message about the group's state, and return whether to print its rows."""
    group, state = description.group, description.state
    if state not in _STATES:
        raise ToolError(f"Expected a valid consumer group state, but found '{state or 'Unknown'}'.")
    if state == DEAD:
        write_line(f"\nError: Consumer group '{group}' does not exist.")
    elif state == "Empty":
        write_error_line(f"\nConsumer group '{group}' has no active members.")
    elif state in _REBALANCING:
        write_error_line(f"\nWarning: Consumer group '{group}' is rebalancing.")
    return state != DEAD and rows > 0


def _column_width(cells: Sequence[Sequence[object]], column: int, min_width: int = _WIDTH) -> int:
    return max(min_width, *(len(str(line[column])) for line in cells[1:]), 0)
