"""DescribeConfigs and IncrementalAlterConfigs, sent to the broker responsible for each resource."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from minibroker_protocol.messages import configs as api
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.offsets import group_values
from minibroker_tools.failures import check_all, raise_if_failed

Resource: TypeAlias = tuple[int, str]
"""A resource's type and name."""
Change: TypeAlias = tuple[str, str | None]
"""A key and its new value, or None to delete the key."""
ConfigEntry: TypeAlias = api.DescribeConfigsResourceResult
TOPIC, BROKER, LOGGER, DEFAULT_SOURCE = 2, 4, 8, 5
_SET: Final = 0
_DELETE: Final = 1


def describe_configs(
    cluster: Cluster, resources: Sequence[Resource], *, synonyms: bool = False
) -> dict[Resource, list[ConfigEntry]]:
    """Return the configuration of each resource.

    Raises:
        ApiError: A resource cannot be described. Only the first error is raised.
    """
    configs: dict[Resource, list[ConfigEntry]] = {}
    for node, group in _group_by_node(resources).items():
        request = api.DescribeConfigsRequest(
            resources=[
                api.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
                for kind, name in group
            ],
            include_synonyms=synonyms,
        )
        response: api.DescribeConfigsResponse = (cluster.any() if node is None else cluster.node(node)).ask(request)
        check_all(response.results)
        configs |= {(result.resource_type, result.resource_name): result.configs for result in response.results}
    return configs


def alter_configs(cluster: Cluster, changes: Mapping[Resource, Sequence[Change]]) -> None:
    """Set and delete configuration keys of resources. A value of None deletes the key.

    Raises:
        ApiError: The broker refused to change a resource. Only the first error is raised.
    """
    for node, group in _group_by_node(changes).items():
        request = api.IncrementalAlterConfigsRequest(
            resources=[
                api.IncrementallyAlteredResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=[
                        api.IncrementallyAlteredConfig(
                            name=key, config_operation=_DELETE if value is None else _SET, value=value or ""
                        )
                        for key, value in changes[kind, name]
                    ],
                )
                for kind, name in group
            ],
            validate_only=False,
        )
        check_all((cluster.controller() if node is None else cluster.node(node)).ask(request).responses)


def list_resources(cluster: Cluster, kind: int) -> list[str]:
    """Return the sorted names of all configured resources of a type.

    Raises:
        ApiError: The broker returned an error.
    """
    response: api.ListConfigResourcesResponse = raise_if_failed(
        cluster.ask(api.ListConfigResourcesRequest(resource_types=[kind]))
    )
    return sorted(
        resource.resource_name for resource in response.config_resources if resource.resource_type in {kind, 16}
    )


def is_default(entry: ConfigEntry) -> bool:
    """Return whether the key has its default value."""
    return entry.is_default or entry.config_source == DEFAULT_SOURCE


def _group_by_node(resources: Iterable[Resource]) -> dict[int | None, list[Resource]]:
    """Group resources by the id of the broker that must handle them, or by None if any broker can."""
    return group_values(
        (int(name) if kind in {BROKER, LOGGER} and name.isdecimal() else None, (kind, name)) for kind, name in resources
    )
