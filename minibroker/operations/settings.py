"""Changes the configurations, ACLs and quotas of a running broker without a client."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypedDict

from minibroker.cluster.dynamic_configs import ALL_BROKERS
from minibroker.cluster.errors import OperationError, is_the_callers, warn_caller
from minibroker.config import BrokerConfig, ConfigError, TopicConfig
from minibroker.config.keys import ConfigResourceType
from minibroker.config.run_time import check, key_of
from minibroker.config.topic import hint_of_unknown_key
from minibroker.operations.records import topic_of
from minibroker.operations.wording import config_text
from minibroker.security.authorization import acls as acl_types
from minibroker.security.authorization.authorizer import Authorizer
from minibroker.security.principals import USER
from minibroker.server.quotas import IP, QuotaError, check_value, keys_of
from minibroker.server.services import Services

Setting = str | float | bool | None


def topic_config(services: Services, name: str) -> dict[str, str | None]:
    """Return the current configuration of a topic by key.

    Raises:
        NotFoundError: the topic does not exist.
    """
    config = topic_of(services, name).config
    return {entry.name: entry.value for entry in config.entries()}


def configure_topic(services: Services, name: str, configs: Mapping[str, Setting]) -> None:
    """Change configuration keys of a topic. None restores the broker's value.

    Raises:
        OperationError: the topic does not exist or a value is invalid.
        OSError: the change cannot be saved.
    """
    topic = topic_of(services, name)
    try:
        config = TopicConfig(services.core.config, _merge_configs(topic.config.overrides, configs))
    except ConfigError as error:
        raise OperationError(f"topic {name!r}: {error}{hint_of_unknown_key(error, configs)}") from None
    services.core.writes.commit()
    services.core.topics.configure_all([(topic, config)])


def configure(services: Services, configs: Mapping[str, Setting]) -> None:
    """Change configuration keys of all brokers. None restores the value that a key had at the start.

    A MinibrokerWarning is issued for an unknown key. As in Kafka, such a key is stored and has no effect.

    Raises:
        OperationError: a value is invalid.
        OSError: the change cannot be saved.
    """
    texts = _merge_configs(services.core.configs.of(ConfigResourceType.BROKER, ALL_BROKERS), configs)
    try:
        check(texts, services.core.config, services.core.cluster.first.endpoints, is_of_one_broker=False)
        services.core.configs.with_broker(ALL_BROKERS, texts)
    except ConfigError as error:
        raise OperationError(str(error)) from None
    unknown = {name: "" for name in configs if key_of(name, services.core.config.keys) is None}
    for remark in BrokerConfig({}, unknown).remarks():
        warn_caller(f"configure: {remark}")
    services.core.writes.commit()
    services.core.configs.put_all({(ConfigResourceType.BROKER, ALL_BROKERS): texts})


def _merge_configs(before: Mapping[str, str], configs: Mapping[str, Setting]) -> dict[str, str]:
    texts = {**before, **{key: config_text(value) for key, value in configs.items() if value is not None}}
    return {key: text for key, text in texts.items() if configs.get(key, text) is not None}


class Resource(TypedDict, total=False):
    """The resource of an ACL: one topic, group, transactional id or the cluster.

    With `prefixed`, the ACL applies to all names that begin with the given one. The name `*` stands for all
    resources of a type. `host` is the address of the client to which the ACL applies.
    """

    topic: str
    group: str
    transactional_id: str
    cluster: bool
    prefixed: bool
    host: str


def create_acls(
    services: Services,
    permission: Literal["ALLOW", "DENY"],
    principal: str,
    operations: Iterable[str],
    resource: Resource,
) -> list[acl_types.AclBinding]:
    """Create ACLs that allow or deny operations.

    Raises:
        OperationError: an argument is invalid, or the broker has no authorizer.
    """
    authorizer = _get_authorizer(services)
    kind, name = _parse_resource(resource)
    bindings = [
        acl_types.AclBinding(
            kind,
            name,
            acl_types.PatternType.PREFIXED if resource.get("prefixed") else acl_types.PatternType.LITERAL,
            principal if ":" in principal else f"{USER}:{principal}",
            resource.get("host", acl_types.WILDCARD),
            _parse_operation(text),
            acl_types.PermissionType[permission],
        )
        for text in operations
    ]
    if not bindings:
        raise OperationError('no operation was named; "all" is all of them')
    try:
        authorizer.add(bindings)
    except acl_types.InvalidAclError as error:
        raise OperationError(str(error)) from None
    return bindings


def list_acls(services: Services) -> list[acl_types.AclBinding]:
    """Return all ACLs.

    Raises:
        OperationError: the broker has no authorizer.
    """
    return _get_authorizer(services).find(acl_types.AclFilter())


def remove_acls(services: Services, acls: Iterable[acl_types.AclBinding]) -> None:
    """Remove ACLs.

    Raises:
        OperationError: the broker has no authorizer.
    """
    _get_authorizer(services).remove(acls)


def _get_authorizer(services: Services) -> Authorizer:
    if services.authorizer is None:
        raise OperationError(
            "the broker has no authorizer; set authorizer.class.name in its configuration, such as to "
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        )
    return services.authorizer


def _parse_resource(resource: Resource) -> tuple[acl_types.ResourceType, str]:
    named = [
        (kind, name)
        for kind, name in (
            (acl_types.ResourceType.TOPIC, resource.get("topic")),
            (acl_types.ResourceType.GROUP, resource.get("group")),
            (acl_types.ResourceType.TRANSACTIONAL_ID, resource.get("transactional_id")),
            (acl_types.ResourceType.CLUSTER, acl_types.CLUSTER_NAME if resource.get("cluster") else None),
        )
        if name is not None
    ]
    if len(named) != 1:
        raise OperationError("a rule is about one topic, group or transactional_id, or about the cluster")
    return named[0]


def _parse_operation(text: str) -> acl_types.Operation:
    """Return an operation by name, ignoring case and underscores ("describe_configs", "DescribeConfigs")."""
    requested = str(text).replace("_", "").upper()
    for operation in acl_types.Operation:
        if operation > acl_types.Operation.ANY and operation.name.replace("_", "") == requested:
            return operation
    names = ", ".join(
        operation.name.lower() for operation in acl_types.Operation if operation > acl_types.Operation.ANY
    )
    raise OperationError(f"operation {text!r} is not known; there are {names}")


__tracebackhide__ = is_the_callers


_LOOK_UP_TIMEOUT_MS: Final = 20_000


async def set_quota(services: Services, entity: Mapping[str, str | None], limits: Mapping[str, float | None]) -> None:
    """Set the quotas of an entity. A value of None removes a quota.

    Raises:
        OperationError: the entity or a quota is invalid.
        OSError: the change cannot be saved.
    """
    try:
        keys = keys_of(entity.items(), await _look_up(services, entity.get(IP)))
        for key, limit in limits.items():
            if limit is not None:
                check_value(keys, key, limit)
    except QuotaError as error:
        raise OperationError(f"set_quota: {error}") from None
    services.quota_table.alter({frozenset(entity.items()): limits})


async def _look_up(services: Services, host: str | None) -> Mapping[str, frozenset[str]]:
    """Look up the addresses of a host in the background. The result is empty if that takes too long."""
    if not host:
        return {}
    future: asyncio.Future[Mapping[str, frozenset[str]]] = asyncio.get_running_loop().create_future()

    def set_result(addresses: Mapping[str, frozenset[str]]) -> None:
        if not future.cancelled():
            future.set_result(addresses)

    services.host_names.resolve_all([host], _LOOK_UP_TIMEOUT_MS, set_result)
    return await future
