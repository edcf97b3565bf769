"""kafka-client-metrics: selects which metrics clients push (`ClientMetricsCommand`, KIP-1000)."""

from collections.abc import Sequence
from typing import Final

from minibroker_protocol.java_text import INT_BITS, parse_integer
from minibroker_protocol.primitives import new_uuid, uuid_text
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.configs import alter_configs, describe_configs, list_resources
from minibroker_tools.commands.common import add_connection, cluster_of
from minibroker_tools.failures import ToolError, UsageError
from minibroker_tools.options import Options, Values
from minibroker_tools.output import write_line

_CLIENT_METRICS: Final = 16
_ACTIONS: Final = ("alter", "delete", "describe", "list")
_KEYS: Final = {"interval": "interval.ms", "metrics": "metrics", "match": "match"}
"""The configuration key that each option sets."""


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-client-metrics."""
    options = Options(tool, "This tool helps to manipulate and describe client metrics configurations.")
    add_connection(options)
    options.flag("alter", help="set or remove the given keys")
    options.flag("delete", help="delete a subscription")
    options.flag("describe", help="show the subscription --name, or all subscriptions")
    options.flag("list", help="list the names of all subscriptions")
    options.value("name", help="the subscription")
    options.flag("generate-name", help="with --alter: use a random name")
    options.value("interval", help="the push interval in milliseconds; empty for the default", metavar="MS")
    options.value("metrics", help="metric name prefixes, separated by commas", metavar="M1,M2")
    options.value("match", help="the clients: client_id=REGEX and others, separated by commas", metavar="K1=V1,K2=V2")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Run the action given on the command line."""
    values = options.parse(arguments)
    _check_options(values)
    try:
        with cluster_of(values) as cluster:
            if values.has("alter"):
                _alter_subscription(cluster, values)
            elif values.has("delete"):
                _delete_subscription(cluster, values.text("name") or "")
            elif values.has("describe"):
                _describe_subscriptions(cluster, values.text("name"))
            else:
                write_line("\n".join(list_resources(cluster, _CLIENT_METRICS)))
    except ToolError as failure:
        write_line(f"Error while executing client metrics command : {failure.message}")
        return 1
    return 0


def _check_options(values: Values) -> None:
    if sum(map(values.has, _ACTIONS)) != 1:
        raise UsageError("Command must include exactly one action: --alter, --delete, --describe or --list.")
    if not values.has("bootstrap-server"):
        raise ToolError("--bootstrap-server must be specified.")
    for action in ("delete", "describe", "list"):
        values.exclude(action, *(("name",) if action == "list" else ()), "generate-name", *_KEYS)
    if values.has("alter"):
        if values.has("name") == values.has("generate-name"):
            raise ToolError("One of --name or --generate-name must be specified with --alter.")
        interval = values.text("interval")
        if interval and parse_integer(interval, INT_BITS) is None:
            raise ToolError("Invalid interval value. Enter an integer, or leave empty to reset.")
    if values.has("delete") and not values.has("name"):
        raise ToolError("A client metrics resource name must be specified with --delete.")


def _alter_subscription(cluster: Cluster, values: Values) -> None:
    name = values.text("name") if values.has("name") else uuid_text(new_uuid())
    changes = [(key, ",".join(values.all(option)) or None) for option, key in _KEYS.items() if values.has(option)]
    alter_configs(cluster, {(_CLIENT_METRICS, name or ""): changes})
    write_line(f"Altered client metrics config for {name}.")


def _delete_subscription(cluster: Cluster, name: str) -> None:
    resource = (_CLIENT_METRICS, name)
    entries = describe_configs(cluster, [resource])[resource]
    alter_configs(cluster, {resource: [(entry.name, None) for entry in entries]})
    write_line(f"Deleted client metrics config for {name}.")


def _describe_subscriptions(cluster: Cluster, name: str | None) -> None:
    names = list_resources(cluster, _CLIENT_METRICS)
    if name is not None and name not in names:
        write_line(f"The client metric resource {name} doesn't exist and doesn't have dynamic config.")
        return
    for metric_name in names if name is None else [name]:
        write_line(f"Client metrics configs for {metric_name} are:")
        resource = (_CLIENT_METRICS, metric_name)
        for entry in describe_configs(cluster, [resource])[resource]:
            write_line(f"  {entry.name}={entry.value}")
