"""ListConfigResources: the names of what has a configuration (KIP-1142).

Versions 0-1. Version 0 is Kafka 3.9's ListClientMetricsResources. Client metrics and groups are those that have
something set, brokers and their loggers those that are up. UNSUPPORTED_VERSION for a type that does not exist.
"""

from collections.abc import Iterable
from typing import Final

from minibroker.config.keys import ConfigResourceType
from minibroker.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import on_cluster
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.configs import ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse

NEEDS: Final = on_cluster(Operation.DESCRIBE_CONFIGS)


def handle(request: ListConfigResourcesRequest, call: Call) -> ListConfigResourcesResponse:
    """List them, one type after the other."""
    if not call.allows(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, config_resources=[])
    known = list(ConfigResourceType) if call.api_version else [ConfigResourceType.CLIENT_METRICS]
    kinds = dict.fromkeys(request.resource_types or known)
    if not kinds.keys() <= set(known):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
    listed = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in kinds
        for name in _names(ConfigResourceType(kind), call)
    ]
    return ListConfigResourcesResponse(error_code=ErrorCode.NONE, config_resources=listed)


def _names(kind: ConfigResourceType, call: Call) -> Iterable[str]:
    if kind is ConfigResourceType.TOPIC:
        return [topic.name for topic in call.core.topics]
    if kind in {ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER}:
        return [str(node.id) for node in call.core.cluster.nodes.values() if node.is_up]
    return call.core.configs.all_of(kind)
