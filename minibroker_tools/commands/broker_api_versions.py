"""kafka-broker-api-versions: prints each broker's APIs (`kafka.admin.BrokerApiVersionsCommand`)."""

from collections.abc import Sequence
from typing import Final

from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.messages.api_versions import ApiVersion
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.connection import Connection
from minibroker_tools.commands.common import add_connection, cluster_of
from minibroker_tools.failures import ToolError
from minibroker_tools.options import Options
from minibroker_tools.output import write_line

_CONTROLLER_APIS: Final = frozenset({52, 53, 54, 59, 62, 63, 70, 73, 82})
"""The APIs that only controllers serve."""
_LAST_API_KEY: Final = 87
"""The last API of Kafka 3.9. Newer APIs are not reported as unsupported."""


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-broker-api-versions."""
    options = Options(tool, "This tool helps to retrieve broker version information.")
    add_connection(options)
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Print the APIs of all brokers."""
    values = options.parse(arguments)
    values.require("bootstrap-server")
    with cluster_of(values) as cluster:
        print_apis(cluster)
    return 0


def print_apis(cluster: Cluster) -> None:
    """Print the APIs of each broker, or an error for a broker that cannot be reached."""
    for broker in cluster.brokers():
        name = f"{broker.host}:{broker.port} (id: {broker.node_id} rack: {broker.rack or 'null'})"
        try:
            apis_text = _format_apis(cluster.node(broker.node_id))
        except ToolError as failure:
            apis_text = f"ERROR: {failure.message}"
        write_line(f"{name} -> {apis_text}")


def _format_apis(connection: Connection) -> str:
    lines = {key: _format_api(api) for key, api in connection.versions.items()}
    for key in ApiKey:
        if key not in lines and key not in _CONTROLLER_APIS and key <= _LAST_API_KEY:
            lines[int(key)] = f"{_api_name(key, 0)}({int(key)}): UNSUPPORTED"
    return "(\n\t" + ",\n\t".join(lines[key] for key in sorted(lines)) + "\n)"


def _format_api(api: ApiVersion) -> str:
    """Return the output line for an API.

    All versions count as usable because importing the codec to check its versions would take 200 ms.
    """
    served = str(api.min_version) if api.min_version == api.max_version else f"{api.min_version} to {api.max_version}"
    try:
        key = ApiKey(api.api_key)
    except ValueError:
        return f"UNKNOWN({api.api_key}): {served}"
    return f"{_api_name(key, api.max_version)}({int(key)}): {served} [usable: {api.max_version}]"


def _api_name(key: ApiKey, last: int) -> str:
    if key is ApiKey.LIST_CONFIG_RESOURCES and last == 0:
        return "ListClientMetricsResources"  # The API had this name before Kafka 4.1 added version 1.
    return key.message
