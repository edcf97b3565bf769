"""DescribeConfigs and IncrementalAlterConfigs, sent to the brokers that answer them."""

from collections.abc import Sequence
from typing import TypeAlias

from minibroker_protocol.messages import describe_configs as api
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.failures import check

Resource: TypeAlias = tuple[int, str]
"""The type of a resource and its name."""
ConfigEntry: TypeAlias = api.DescribeConfigsResourceResult
BROKER, LOGGER, DEFAULT_SOURCE = 4, 8, 5


def describe_configs(
    cluster: Cluster, resources: Sequence[Resource], *, synonyms: bool = False
) -> dict[Resource, list[ConfigEntry]]:
    """The configurations of the resources. ApiError for one that cannot be described."""
    found: dict[Resource, list[ConfigEntry]] = {}
    for asked in _by_node(resources):
        node, group = asked
        request = api.DescribeConfigsRequest(
            resources=[
                api.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
                for kind, name in group
            ],
            include_synonyms=synonyms,
        )
        response: api.DescribeConfigsResponse = (
            cluster.ask(request) if node is None else cluster.node(node).ask(request)
        )
        for result in response.results:
            check(result.error_code, result.error_message)
            found[result.resource_type, result.resource_name] = result.configs
    return found


def is_default(entry: ConfigEntry) -> bool:
    """Does nobody have set the key?"""
    return entry.is_default or entry.config_source == DEFAULT_SOURCE


def node_of(resource: Resource) -> int | None:
    """The broker that must answer for a resource: itself for a broker and its loggers."""
    kind, name = resource
    return int(name) if kind in {BROKER, LOGGER} and name.isdecimal() else None


def _by_node(resources: Sequence[Resource]) -> list[tuple[int | None, list[Resource]]]:
    groups: dict[int | None, list[Resource]] = {}
    for resource in resources:
        groups.setdefault(node_of(resource), []).append(resource)
    return list(groups.items())
