"""The output of `kafka-consumer-groups --describe`: offsets, members or states of groups."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.committed import committed_offsets
from minibroker_tools.client.groups import DEAD, Description, Member, describe_group
from minibroker_tools.client.offsets import LATEST, TopicPartition, list_offsets
from minibroker_tools.failures import ToolError
from minibroker_tools.output import err, out, row, write

_MISSING: Final = "-"
_COLUMNS: Final = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
)
_REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
_KNOWN: Final = _REBALANCING | {"Stable", "Empty", DEAD}
_WIDTH: Final = 15
_INSTANCE_WIDTH: Final = 17
_COORDINATOR_WIDTH: Final = 25


class _Row(NamedTuple):
    """Columns of an offset; `offset` and `end` are None where there is none."""

    partition: TopicPartition
    offset: int | None
    end: int
    member: Member | None


def print_offsets(cluster: Cluster, groups: Sequence[str]) -> None:
    """Print committed offsets, ends and lag of each partition, and who reads it. ToolError."""
    for description in _descriptions(cluster, groups):
        rows = _rows(cluster, description)
        if _announces(description, len(rows)):
            _print_rows(description.group, rows)


def _rows(cluster: Cluster, description: Description) -> list[_Row]:
    committed = committed_offsets(cluster, description.group)
    ends = _ends(cluster, {*committed, *(each for member in description.members for each in member.partitions)})
    busy = sorted(description.members, key=lambda member: -len(member.partitions))
    rows = [
        _Row(partition, committed.get(partition), ends[partition], member)
        for member in busy
        for partition in sorted(member.partitions)
    ]
    assigned = {each.partition for each in rows}
    rows += [_Row(each, committed[each], ends[each], None) for each in sorted(committed) if each not in assigned]
    return rows


def _ends(cluster: Cluster, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
    found = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    for place in found.values():
        if place.error is not None:
            raise ToolError(f"java.util.concurrent.ExecutionException: {place.error.described}")
    return {partition: place.offset for partition, place in found.items()}


def _print_rows(group: str, rows: Sequence[_Row]) -> None:
    cells: list[tuple[object, ...]] = [_COLUMNS]
    for each in rows:
        member = each.member
        lag = _MISSING if each.offset is None else each.end - each.offset
        reader = (_MISSING,) * 3 if member is None else (member.member_id, member.host, member.client_id)
        shown = _MISSING if each.offset is None else each.offset
        cells.append((group, *each.partition, shown, each.end, lag, *reader))
    widths = [_widest(cells, 0), _widest(cells, 1), 10, 15, 15, 15, _widest(cells, 6), _widest(cells, 7), 0]
    for line in cells:
        write("\n" + row(line, widths))
    # Kafka's tool leaves the end of the last line to the header of the next group.
    out()


def print_members(cluster: Cluster, groups: Sequence[str], *, verbose: bool) -> None:
    """Print the members of groups with the numbers of their partitions; `verbose` names the partitions."""
    for description in _descriptions(cluster, groups):
        members = description.members
        _announces(description, len(members))
        static = any(member.instance_id for member in members)
        header = ["GROUP", "CONSUMER-ID", *["GROUP-INSTANCE-ID"] * static, "HOST", "CLIENT-ID", "#PARTITIONS"]
        cells: list[Sequence[object]] = [header]
        for each in members:
            instance = [each.instance_id or ""] * static
            cells.append(
                [description.group, each.member_id, *instance, each.host, each.client_id, len(each.partitions)]
            )
        widths = [_widest(cells, index) for index in range(len(header) - 1)]
        if static:
            widths[2] = _widest(cells, 2, _INSTANCE_WIDTH)
        shares = ["ASSIGNMENT", *(_share(each.partitions) for each in members)] if verbose else [""] * len(cells)
        out()
        for line, share in zip(cells, shares, strict=True):
            out(row(line, [*widths, _WIDTH]) + " " + share)


def _share(partitions: Sequence[TopicPartition]) -> str:
    if not partitions:
        return _MISSING
    topics: dict[str, list[str]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(str(index))
    return ", ".join(sorted(f"({','.join(sorted(numbers))})" for numbers in topics.values()))


def print_states(cluster: Cluster, groups: Sequence[str]) -> None:
    """Print coordinator, strategy, state and number of members of groups."""
    for description in _descriptions(cluster, groups):
        if not _announces(description, 1):
            continue
        broker = description.coordinator
        coordinator = f"{broker.host}:{broker.port}  ({broker.node_id})"
        first = max(_COORDINATOR_WIDTH, len(coordinator))
        widths = [first, _COORDINATOR_WIDTH, 20, _WIDTH, 0]
        write("\n" + row(("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"), widths))
        count = len(description.members)
        cells = (description.group, coordinator, description.strategy, description.state, count)
        out("\n" + row(cells, widths))


def _descriptions(cluster: Cluster, groups: Sequence[str]) -> list[Description]:
    return [describe_group(cluster, group) for group in sorted(groups)]


def _announces(description: Description, rows: int) -> bool:
    """Say in which state the group is; are there rows to print?"""
    group, state = description.group, description.state
    if state not in _KNOWN:
        raise ToolError(f"Expected a valid consumer group state, but found '{state or 'Unknown'}'.")
    if state == DEAD:
        out(f"\nError: Consumer group '{group}' does not exist.")
    elif state == "Empty":
        err(f"\nConsumer group '{group}' has no active members.")
    elif state in _REBALANCING:
        err(f"\nWarning: Consumer group '{group}' is rebalancing.")
    return state != DEAD and rows > 0


def _widest(cells: Sequence[Sequence[object]], column: int, least: int = _WIDTH) -> int:
    return max(least, *(len(str(line[column])) for line in cells[1:]), 0)
