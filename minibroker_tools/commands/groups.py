"""kafka-groups: lists groups of all types (`org.apache.kafka.tools.GroupsCommand` of Kafka 4, KIP-1043)."""

from collections.abc import Sequence
from typing import Final

from minibroker_tools.client.groups import CONSUMER_TYPE, Listing, list_groups
from minibroker_tools.client.settings import load_properties
from minibroker_tools.commands.common import add_connection, cluster_of
from minibroker_tools.failures import ToolError, UsageError
from minibroker_tools.options import Options, Values
from minibroker_tools.output import format_row, write_line

_TYPES: Final = {"consumer": "Consumer", "classic": "Classic", "share": "Share", "streams": "Streams"}
"""The printed name of each group type in `--group-type` and ListGroups."""
_FILTERS: Final = ("consumer", "share", "streams")
_PATIENCE_S: Final = 30.0
_WIDTH: Final = 20


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-groups."""
    options = Options(tool, "This tool helps to list groups of all types.")
    add_connection(options)
    options.flag("list", help="list the groups")
    options.value("group-type", help=f"only groups of a type: {', '.join(_TYPES)}", metavar="TYPE")
    options.value("protocol", help="only groups of a protocol type")
    options.flag("consumer", help="only consumer groups of all kinds")
    options.flag("share", help="only share groups")
    options.flag("streams", help="only streams groups")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """List the groups."""
    values = options.parse(arguments)
    _check_options(values)
    has_timeout = "default.api.timeout.ms" in load_properties(values.text("command-config"))
    try:
        with cluster_of(values, timeout=None if has_timeout else _PATIENCE_S) as cluster:
            listings = list_groups(cluster)
    except UsageError:
        raise
    except ToolError as failure:
        write_line(f"Error while executing groups command : {failure.message}")
        return 1
    _print_groups([listing for listing in listings if _matches_filters(listing, values)])
    return 0


def _check_options(values: Values) -> None:
    if not values.has("bootstrap-server"):
        raise UsageError("Missing required option(s) [bootstrap-server]")
    if not values.has("list"):
        raise UsageError("Command must include exactly one action: --list.")
    group_type = values.text("group-type")
    if group_type is not None and group_type.lower() not in _TYPES:
        raise ToolError("--group-type must be a valid group type.")
    for name in _FILTERS:
        values.exclude(name, *(other for other in _FILTERS if other != name), "group-type", "protocol")


def _matches_filters(group: Listing, values: Values) -> bool:
    kind, protocol = group.group_type.lower(), group.protocol_type
    if values.has("group-type") or values.has("protocol"):
        expected = values.text("group-type")
        return (expected is None or kind == expected.lower()) and values.text("protocol") in {None, protocol}
    if values.has("consumer"):
        return protocol in {CONSUMER_TYPE, ""} or kind == "consumer"
    return not any(values.has(name) and kind != name for name in ("share", "streams"))


def _print_groups(groups: Sequence[Listing]) -> None:
    lines = [
        (listing.group_id, _TYPES.get(listing.group_type.lower(), listing.group_type), listing.protocol_type)
        for listing in groups
    ]
    width = max([_WIDTH, *(len(cell) for line in lines for cell in line)])
    write_line(format_row(("GROUP", "TYPE", "PROTOCOL"), [width] * 3))
    for line in lines:
        write_line(format_row(line, [width] * 3) + " ")
