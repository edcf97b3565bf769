"""kafka-cluster: the cluster's id, and brokers that leave for ever (`org.apache.kafka.tools.ClusterTool`)."""

from collections.abc import Sequence

from minibroker_protocol.error_codes import ErrorCode
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.settings import Settings, load_properties
from minibroker_tools.failures import ApiError, UsageError, check
from minibroker_tools.options import Options
from minibroker_tools.output import out


def options(tool: str) -> Options:
    """The options of kafka-cluster."""
    known = Options(tool, "The Kafka cluster tool: cluster-id or unregister.")
    known.value("bootstrap-server", "b", help="the brokers to connect to", metavar="SERVERS")
    known.value("bootstrap-controller", "C", help="the controllers to connect to", metavar="CONTROLLERS")
    known.value("config", "c", help="a file with properties of the client", metavar="FILE")
    known.value("id", "i", help="the broker to unregister", type=int)
    return known


def run(known: Options, arguments: Sequence[str]) -> int:
    """Run cluster-id or unregister."""
    values = known.parse(arguments)
    servers = values.text("bootstrap-server") or values.text("bootstrap-controller")
    if values.words[:1] not in (["cluster-id"], ["unregister"]):
        raise UsageError("one of the commands cluster-id and unregister is required")
    if servers is None:
        raise UsageError("one of the arguments --bootstrap-server/-b --bootstrap-controller/-C is required")
    with Cluster(Settings(servers, load_properties(values.text("config")))) as cluster:
        if values.words[0] == "unregister":
            values.require("id")
            _unregister(cluster, values.number("id", 0))
            return 0
        cluster.metadata([])
        if cluster.cluster_id is None:
            out("No cluster ID found. The Kafka version is probably too old.")
        else:
            out(f"Cluster ID: {cluster.cluster_id}")
    return 0


def _unregister(cluster: Cluster, broker_id: int) -> None:
    from minibroker_protocol.messages.unregister_broker import UnregisterBrokerRequest  # noqa: PLC0415 - one command

    try:
        response = cluster.ask_controller(UnregisterBrokerRequest(broker_id=broker_id))
        check(response.error_code, response.error_message)
    except ApiError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        out("The target cluster does not support the broker unregistration API.")
    else:
        out(f"Broker {broker_id} is no longer registered.")
