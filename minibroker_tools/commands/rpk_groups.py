"""rpk group: list, describe and delete."""

import argparse
from collections.abc import Callable
from typing import Any

from minibroker_tools.client.committed import committed_offsets
from minibroker_tools.client.groups import DEAD, delete_group, describe_group, list_groups
from minibroker_tools.client.offsets import LATEST, list_offsets
from minibroker_tools.commands.rpk_common import add_common, cluster_of, table
from minibroker_tools.failures import ApiError
from minibroker_tools.output import out

Work = Callable[[argparse.Namespace], int]


def add_group_commands(commands: Any, add: Callable[[Any, str, Work], argparse.ArgumentParser]) -> None:
    """Add the commands behind `rpk group`."""
    works = {"list": _list, "ls": _list, "describe": _describe, "delete": _delete}
    for name, work in works.items():
        parser = add(commands, name, work)
        add_common(parser)
        if work is not _list:
            parser.add_argument("groups", nargs="+", metavar="GROUP")


def _list(given: argparse.Namespace) -> int:
    with cluster_of(given) as cluster:
        coordinators = [
            (cluster.coordinator_node(each.group).node_id, each.group, each.state or "")
            for each in list_groups(cluster)
        ]
        table([("BROKER", "GROUP", "STATE"), *sorted(coordinators)])
    return 0


def _describe(given: argparse.Namespace) -> int:
    failed = False
    with cluster_of(given) as cluster:
        for group in given.groups:
            found = describe_group(cluster, group)
            failed |= found.state == DEAD
            committed = committed_offsets(cluster, group)
            readers = {place: member for member in found.members for place in member.partitions}
            places = sorted({*committed, *readers})
            ends = list_offsets(cluster, dict.fromkeys(places, LATEST)) if places else {}
            lags = {place: max(0, ends[place].offset - offset) for place, offset in committed.items()}
            head = {
                "GROUP": group,
                "COORDINATOR": cluster.coordinator_node(group).node_id,
                "STATE": found.state,
                "BALANCER": found.strategy,
                "MEMBERS": len(found.members),
                "TOTAL-LAG": sum(lags.values()),
            }
            for name, value in head.items():
                out(f"{name:<13}{value}".rstrip())
            out()
            rows = [
                (
                    *place,
                    committed.get(place, "-"),
                    ends[place].offset,
                    lags.get(place, "-"),
                    readers[place].member_id if place in readers else "",
                )
                for place in places
            ]
            if rows:
                columns = ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "MEMBER-ID")
                table([columns, *rows])
    return int(failed)


def _delete(given: argparse.Namespace) -> int:
    rows: list[tuple[str, str]] = []
    with cluster_of(given) as cluster:
        for group in given.groups:
            try:
                delete_group(cluster, group)
            except ApiError as error:
                rows.append((group, f"{error.code.name}: {error.message}"))
            else:
                rows.append((group, "OK"))
    table([("GROUP", "STATUS"), *rows])
    return int(any(status != "OK" for _, status in rows))
