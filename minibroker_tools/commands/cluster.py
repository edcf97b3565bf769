"""kafka-cluster: shows the cluster id and endpoints, and unregisters nodes (`org.apache.kafka.tools.ClusterTool`)."""

from collections.abc import Sequence
from typing import Final

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    UnregisterBrokerRequest,
    UnregisterControllerRequest,
)
from minibroker_tools.client.cluster import BROKERS, CONTROLLERS, Cluster
from minibroker_tools.client.settings import Settings, load_properties
from minibroker_tools.commands.broker_api_versions import print_apis
from minibroker_tools.failures import ApiError, ToolError, UsageError, raise_if_failed
from minibroker_tools.options import Options
from minibroker_tools.output import format_row, write_line

_COMMANDS: Final = ("cluster-id", "unregister", "unregister-controller", "list-endpoints", "api-versions")
_FENCED_OPTION: Final = "include-fenced-brokers"
_WIDTH, _LAST_WIDTH = 10, 15
_FENCED_VERSION: Final = 2
"""The first DescribeCluster version that reports fenced brokers (KIP-1073)."""


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-cluster."""
    options = Options(tool, f"The Kafka cluster tool: {', '.join(_COMMANDS)}.")
    options.value("bootstrap-server", "b", help="the brokers to connect to", metavar="SERVERS")
    options.value("bootstrap-controller", "C", help="the controllers to connect to", metavar="CONTROLLERS")
    options.value("config", "command-config", "c", help="a file with client properties", metavar="FILE")
    options.value("id", "i", help="the broker or the controller to unregister", type=int)
    options.flag(_FENCED_OPTION, help="with list-endpoints: include registered brokers that are down")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Run the command given on the command line."""
    values = options.parse(arguments)
    servers = values.text("bootstrap-server") or values.text("bootstrap-controller")
    command = next(iter(values.words), None)
    if command not in _COMMANDS:
        raise UsageError(f"one of the commands {', '.join(_COMMANDS)} is required")
    if servers is None:
        raise UsageError("one of the arguments --bootstrap-server/-b --bootstrap-controller/-C is required")
    with Cluster(Settings(servers, load_properties(values.text("config")))) as cluster:
        if command in {"unregister", "unregister-controller"}:
            values.require("id")
            forget = _unregister if command == "unregister" else _unregister_controller
            forget(cluster, values.number("id", 0))
        elif command == "api-versions":
            print_apis(cluster)
        elif command == "list-endpoints":
            _list_endpoints(cluster, controllers=values.has("bootstrap-controller"), fenced=values.has(_FENCED_OPTION))
        else:
            cluster.refresh()
            if cluster.cluster_id is None:
                write_line("No cluster ID found. The Kafka version is probably too old.")
            else:
                write_line(f"Cluster ID: {cluster.cluster_id}")
    return 0


def _unregister(cluster: Cluster, broker_id: int) -> None:
    try:
        raise_if_failed(cluster.ask_controller(UnregisterBrokerRequest(broker_id=broker_id)))
    except ApiError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        write_line("The target cluster does not support the broker unregistration API.")
    else:
        write_line(f"Broker {broker_id} is no longer registered.")


def _unregister_controller(cluster: Cluster, controller_id: int) -> None:
    try:
        raise_if_failed(cluster.ask_controller(UnregisterControllerRequest(controller_id=controller_id)))
    except ApiError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            write_line("The target cluster does not support the controller unregistration API.")
        raise ToolError(error.described) from None
    write_line(f"Controller {controller_id} is no longer registered.")


def _list_endpoints(cluster: Cluster, *, controllers: bool, fenced: bool) -> None:
    """Print the addresses of the brokers or the controllers.

    Raises:
        ToolError: `fenced` is set together with `controllers`, or the request failed.
    """
    if controllers and fenced:
        raise ToolError(f"The option --{_FENCED_OPTION} is only supported with --bootstrap-server option")
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=CONTROLLERS if controllers else BROKERS,
        include_fenced_brokers=fenced,
    )
    version = cluster.any().version_for(request)
    if fenced and version < _FENCED_VERSION:
        write_line(f"Attempted to write a non-default includeFencedBrokers at version {version}")
        return
    response: DescribeClusterResponse = raise_if_failed(cluster.ask(request))
    nodes = sorted(response.brokers, key=lambda node: node.broker_id)
    host_width = max((len(node.host) for node in nodes), default=0)
    rack_width = max((len(node.rack) for node in nodes if node.rack), default=_WIDTH)
    shows_state = not controllers
    widths = [_WIDTH, host_width, _WIDTH, rack_width, *[_WIDTH] * shows_state, _LAST_WIDTH]
    kind = "controller" if controllers else "broker"
    table: list[list[object]] = [["ID", "HOST", "PORT", "RACK", *["STATE"] * shows_state, "ENDPOINT_TYPE"]]
    for node in nodes:
        state = ["fenced" if node.is_fenced else "unfenced"] * shows_state
        table.append([node.broker_id, node.host, node.port, node.rack or "null", *state, kind])
    for cells in table:
        write_line(format_row(cells, widths))
