"""Handlers for the configurations of topics, brokers, loggers, client metrics and groups."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from minibroker.cluster.dynamic_configs import ALL_BROKERS
from minibroker.cluster.routing.outcomes import DelayedResponse
from minibroker.cluster.routing.routes import RefusedRequestError
from minibroker.cluster.routing.slices import ForEach, Served
from minibroker.cluster.topics import topic_name_error
from minibroker.config import ConfigEntry, ConfigKey, ConfigSource, ConfigType
from minibroker.config.client_metrics import ClientMetricsConfig
from minibroker.config.group import GroupConfig
from minibroker.config.keys import ConfigResourceType
from minibroker.config.releases import RELEASES, is_before
from minibroker.config.run_time import is_alterable, key_of
from minibroker.config.values import ConfigValues
from minibroker.security.authorization.acls import Operation
from minibroker.server.requests.call import Call
from minibroker.server.requests.configs import Change, Changes, Resource, ResourceError, alter, check_node, refusal
from minibroker.server.requests.declarations import Refusal, config_resources_at, handles
from minibroker.server.requests.held_for_metadata import hold
from minibroker.server.requests.requirements import asked_by_handler, on_cluster
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_INVALID: Final = ErrorCode.INVALID_REQUEST
_UNKNOWN_TYPE: Final = 0
_OWN_PREFIX: Final = "minibroker."
_FIRST_WITH_METRICS_DEFAULTS: Final = "4.1"
Rows = list[DescribeConfigsResourceResult]


@handles(
    ApiKey.DESCRIBE_CONFIGS,
    needs=asked_by_handler("DESCRIBE_CONFIGS on each topic or group; on the cluster, for brokers and client metrics"),
    names=config_resources_at("resources"),
    refusal=Refusal(explained=True),
)
def describe_configs(request: DescribeConfigsRequest, call: Call) -> Served[DescribeConfigsResponse]:
    """DescribeConfigs: return the configuration of topics, brokers, loggers, client metrics and groups.

    Versions 0-4 are served, with synonyms since version 1, and types and documentation since version 3. For its
    own id a broker returns its configuration, and for an empty name the dynamic configuration of all brokers. The
    documentation of keys is in minibroker's own words. A broker's configuration has the keys of
    `docs/configuration.md`, and any other keys that were set. In version 0 `is_default` is true for keys that are
    not set, while Kafka 3.9 returns false for all keys.

    Error codes:

    - INVALID_REQUEST: the resource is another broker. An unknown resource type fails the whole request.
    - UNKNOWN_TOPIC_OR_PARTITION: the topic does not exist.
    - INVALID_TOPIC_EXCEPTION: no topic can have that name.
    """
    if any(not _is_described(requested.resource_type, call) for requested in request.resources):
        raise RefusedRequestError(_INVALID, _INVALID.meaning)
    return ForEach(
        request.resources,
        lambda resource: _describe(resource, request, call),
        lambda results: DescribeConfigsResponse(results=results),
    )


def _describe(resource: DescribeConfigsResource, request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResult:
    name = resource.resource_name
    try:
        forbidden = refusal(Resource(resource.resource_type, name), call, Operation.DESCRIBE_CONFIGS)
        if forbidden:
            return _refuse_resource(resource, ResourceError(forbidden, forbidden.meaning))
        rows = _DESCRIBERS[resource.resource_type](name, call)
    except ResourceError as error:
        return _refuse_resource(resource, error)
    if resource.configuration_keys:
        requested = frozenset(resource.configuration_keys)
        rows = [row for row in rows if row.name in requested]
    for row in rows:
        if not request.include_synonyms:
            row.synonyms = []
        if not request.include_documentation:
            row.documentation = None
    return DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message="",
        resource_type=resource.resource_type,
        resource_name=name,
        configs=rows,
    )


def _refuse_resource(resource: DescribeConfigsResource, error: ResourceError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )


def _describe_topic(name: str, call: Call) -> Rows:
    reason = topic_name_error(name)
    if reason is not None:
        raise ResourceError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    topic = call.core.topics.get(name)
    if topic is None:
        raise ResourceError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return _build_rows(topic.config)


def _describe_broker(name: str, call: Call) -> Rows:
    if name == ALL_BROKERS:
        altered = call.core.configs.of(ConfigResourceType.BROKER, ALL_BROKERS)
        return _unparsed_rows([(altered, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)], call.core.config.keys)
    check_node(name, call, "expected {0} or empty string, but received {1}", "Broker id")
    config = call.core.configs.of_node(call.node.id)
    rows = _build_rows(config, is_read_only=lambda key: not is_alterable(key, config.keys))
    if config.release is not None:  # Kafka does not have minibroker's own keys, so an emulated release hides them.
        rows = [row for row in rows if not row.name.startswith(_OWN_PREFIX)]
    cluster, broker = config.run_time
    layers = [
        (broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (config.unknown, ConfigSource.STATIC_BROKER_CONFIG),
    ]
    return rows + [row for row in _unparsed_rows(layers, config.keys) if not config.knows(row.name)]


def _describe_loggers(name: str, call: Call) -> Rows:
    if not name:
        raise ResourceError(_INVALID, "Broker id must not be empty")
    check_node(name, call, "expected {0} but received {1}", "Broker id")
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [
        _build_row(ConfigEntry(logger, level, source), None) for logger, level in call.services.loggers.levels().items()
    ]


def _describe_client_metrics(name: str, call: Call) -> Rows:
    if not name:
        raise ResourceError(_INVALID, "Client metrics subscription name must not be empty")
    config = ClientMetricsConfig(call.core.configs.of(ConfigResourceType.CLIENT_METRICS, name))
    lists_defaults = not is_before(call.core.config.release, _FIRST_WITH_METRICS_DEFAULTS)
    return [row for row in _build_rows(config) if lists_defaults or row.name in config.overrides]


def _describe_group(name: str, call: Call) -> Rows:
    if not name:
        raise ResourceError(_INVALID, "Group name must not be empty")
    return _build_rows(GroupConfig(call.core.config, call.core.configs.of(ConfigResourceType.GROUP, name)))


_DESCRIBERS: Final[Mapping[int, Callable[[str, Call], Rows]]] = {
    ConfigResourceType.TOPIC: _describe_topic,
    ConfigResourceType.BROKER: _describe_broker,
    ConfigResourceType.BROKER_LOGGER: _describe_loggers,
    ConfigResourceType.CLIENT_METRICS: _describe_client_metrics,
    ConfigResourceType.GROUP: _describe_group,
}
_FIRST_RELEASES: Final[Mapping[int, str]] = {
    ConfigResourceType.BROKER_LOGGER: "2.4",
    ConfigResourceType.CLIENT_METRICS: "3.7",
    ConfigResourceType.GROUP: "4.0",
}


def _is_described(kind: int, call: Call) -> bool:
    """Return whether the broker, or the release that it emulates, describes resources of this type."""
    return kind in _DESCRIBERS and not is_before(call.core.config.release, _FIRST_RELEASES.get(kind, RELEASES[0]))


def _build_rows(config: ConfigValues, is_read_only: Callable[[str], bool] = lambda _: False) -> Rows:
    return [
        _build_row(
            entry, config.keys[entry.name], config.value_synonyms(entry.name), is_read_only=is_read_only(entry.name)
        )
        for entry in config.entries()
    ]


def _unparsed_rows(layers: Sequence[tuple[Mapping[str, str], ConfigSource]], keys: Mapping[str, ConfigKey]) -> Rows:
    """Return a row for each key in the layers, of which the first has priority. Values of unknown keys are hidden."""
    rows: Rows = []
    for name in dict.fromkeys(name for texts, _ in layers for name in texts):
        key = key_of(name, keys)
        hidden = key is None or key.type is ConfigType.PASSWORD
        synonyms = [
            ConfigEntry(name, None if hidden else texts[name], source, hidden)
            for texts, source in layers
            if name in texts
        ]
        rows.append(_build_row(synonyms[0], key, synonyms, is_read_only=not is_alterable(name, keys)))
    return rows


def _build_row(
    entry: ConfigEntry, key: ConfigKey | None, synonyms: list[ConfigEntry] | None = None, *, is_read_only: bool = False
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=is_read_only,
        is_default=entry.source is ConfigSource.DEFAULT_CONFIG,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in synonyms or ()
        ],
        config_type=_UNKNOWN_TYPE if key is None else key.reported_type or key.type,
        documentation=None if key is None else key.documentation,
    )


@handles(
    ApiKey.ALTER_CONFIGS,
    needs=asked_by_handler("ALTER_CONFIGS on each topic or group; on the cluster, for brokers and client metrics"),
    names=config_resources_at("resources"),
)
def alter_configs(request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse | DelayedResponse:
    """AlterConfigs: replace whole configurations, with a result for each resource.

    Versions 0-2 are served. Keys that are not in the request return to their defaults. The resources are topics,
    brokers (an empty name stands for all brokers), client metrics and groups. Allowed keys and errors are those of
    IncrementalAlterConfigs. Loggers are refused with INVALID_REQUEST.
    """
    return hold(AlterConfigsResponse(responses=_alter_resources(request, call)), request, call)


@handles(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    needs=asked_by_handler("ALTER_CONFIGS on each topic or group; on the cluster, for brokers and client metrics"),
    names=config_resources_at("resources"),
)
def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse | DelayedResponse:
    """IncrementalAlterConfigs: alter single keys of configurations, with a result for each resource (KIP-339).

    Versions 0-1 are served. The resources are topics, brokers (an empty name stands for all brokers), loggers
    (KIP-412), client metrics (KIP-714) and groups (KIP-848). Changes take effect immediately and are saved, except
    the levels of loggers, which last until the broker stops. Brokers refuse changes to their listeners and to keys
    that are read-only in Kafka.

    Error codes:

    - INVALID_CONFIG, INVALID_REQUEST: as in Kafka, with its messages. An unknown operation gets INVALID_REQUEST for
      all resources, while Kafka returns UNKNOWN_SERVER_ERROR for most of them.
    - UNKNOWN_TOPIC_OR_PARTITION: the topic does not exist.
    """
    return hold(IncrementalAlterConfigsResponse(responses=_alter_resources(request, call)), request, call)


def _alter_resources(
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest, call: Call
) -> list[AlterConfigsResourceResponse]:
    """Alter resources, and return the result of each (see `configs.changes.alter`)."""
    altered: list[tuple[Resource, Changes]] = [
        (
            Resource(resource.resource_type, resource.resource_name),
            [(key.name, getattr(key, "config_operation", Change.SET), key.value) for key in resource.configs],
        )
        for resource in request.resources
    ]
    replaces = isinstance(request, AlterConfigsRequest)
    return [
        AlterConfigsResourceResponse(
            error_code=code, error_message=message, resource_type=resource.kind, resource_name=resource.name
        )
        for resource, code, message in alter(altered, call, replaces=replaces, validate_only=request.validate_only)
    ]


@handles(ApiKey.LIST_CONFIG_RESOURCES, needs=on_cluster(Operation.DESCRIBE_CONFIGS))
def list_config_resources(request: ListConfigResourcesRequest, call: Call) -> ListConfigResourcesResponse:
    """ListConfigResources: list the names of resources that have a configuration (KIP-1142).

    Versions 0-1 are served. Version 0 is Kafka 3.9's ListClientMetricsResources. The response lists all topics, the
    client metrics and groups that have a key set, and the running brokers, both as brokers and as loggers. An
    unknown resource type gets UNSUPPORTED_VERSION.
    """
    supported = list(ConfigResourceType) if call.api_version else [ConfigResourceType.CLIENT_METRICS]
    kinds = dict.fromkeys(request.resource_types or supported)
    if not kinds.keys() <= set(supported):
        raise RefusedRequestError(ErrorCode.UNSUPPORTED_VERSION)
    resources = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in kinds
        for name in _resource_names(ConfigResourceType(kind), call)
    ]
    return ListConfigResourcesResponse(error_code=ErrorCode.NONE, config_resources=resources)


def _resource_names(kind: ConfigResourceType, call: Call) -> Iterable[str]:
    if kind is ConfigResourceType.TOPIC:
        return [topic.name for topic in call.core.topics]
    if kind in {ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER}:
        return [str(node.id) for node in call.core.cluster.nodes.values() if node.is_up]
    return call.core.configs.all_of(kind)
