"""kafka-configs: shows and changes configurations of topics, brokers, users, clients and more (`ConfigCommand`)."""

import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker.security.sasl.scram import (
    HASHES,
    MECHANISM_NAMES,
    MECHANISM_NUMBERS,
    MIN_ITERATIONS,
    derive_credential,
)
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.java_text import to_double
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    OpData,
)
from minibroker_protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.configs import ConfigEntry, alter_configs, describe_configs, list_resources
from minibroker_tools.client.settings import load_properties
from minibroker_tools.commands.common import add_connection, cluster_of, java_text
from minibroker_tools.failures import ApiError, ToolError, UsageError, check_all, error_code, raise_if_failed
from minibroker_tools.options import Options, Values
from minibroker_tools.output import write_line

with lazy:
    from minibroker_tools.client import zookeeper as zookeeper_tree

if TYPE_CHECKING:
    from minibroker_tools.client.zookeeper import ZooKeeperTree


_CREDENTIAL: Final = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)", re.DOTALL)
_SALT_BYTES: Final = 24
_QUOTA_TYPES: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
_QUOTA_TITLES: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
_QUOTAS: Final = {
    "users": {"consumer_byte_rate", "producer_byte_rate", "request_percentage", "controller_mutation_rate"},
    "ips": {"connection_creation_rate"},
}
_EXACT, _DEFAULT, _ANY = 0, 1, 2


def alter_scram(cluster: Cluster, user: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    """Set and delete the SCRAM credentials of a user.

    Raises:
        ToolError: The user, a mechanism or a credential is invalid.
        ApiError: The broker refused a change.
    """
    upsertions: list[ScramCredentialUpsertion] = []
    for mechanism, (iterations, password) in _parse_scram(user, added, deleted).items():
        salt = secrets.token_bytes(_SALT_BYTES)
        salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
        upsertions.append(
            ScramCredentialUpsertion(
                name=user,
                mechanism=MECHANISM_NUMBERS[mechanism],
                iterations=iterations,
                salt=salt,
                salted_password=salted,
            )
        )
    deletions = [ScramCredentialDeletion(name=user, mechanism=MECHANISM_NUMBERS[name]) for name in deleted]
    request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    check_all(cluster.ask_controller(request).results)


def store_scram(tree: "ZooKeeperTree", user: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    """Set and delete the SCRAM credentials of a user in ZooKeeper.

    Raises:
        ToolError: The user, a mechanism or a credential is invalid.
    """
    credentials = {
        mechanism: derive_credential(mechanism, password, iterations=iterations)
        for mechanism, (iterations, password) in _parse_scram(user, added, deleted).items()
    }
    tree.alter_user(user, credentials, deleted)


def _parse_scram(user: str, added: Mapping[str, str], deleted: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Return the iterations and the password for each mechanism to add."""
    if not user:
        raise ToolError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
            "--bootstrap-server."
        )
    _refuse_unknown("users", [name for name in added if name not in MECHANISM_NUMBERS], "added")
    _refuse_unknown("users", [name for name in deleted if name not in MECHANISM_NUMBERS], "deleted")
    return {mechanism: _parse_credential(mechanism, text) for mechanism, text in added.items()}


def _parse_credential(mechanism: str, text: str) -> tuple[int, str]:
    match = _CREDENTIAL.fullmatch(text)
    if match is None:
        raise ToolError(f"Invalid credential property {mechanism.replace('-', '_')}={text}")
    iterations = MIN_ITERATIONS if match[1] in {None, "", "-1"} else int(match[1])
    if iterations < MIN_ITERATIONS:
        raise ToolError(f"Iterations {iterations} is less than the minimum {MIN_ITERATIONS} required for {mechanism}")
    return iterations, match[2]


def describe_scram(cluster: Cluster, user: str | None) -> None:
    """Print the SCRAM mechanisms of a user, or of all users if `user` is None."""
    users = None if user is None else [UserName(name=user)]
    response: DescribeUserScramCredentialsResponse = raise_if_failed(
        cluster.ask_controller(DescribeUserScramCredentialsRequest(users=users))
    )
    for result in response.results:
        if error_code(result.error_code) is ErrorCode.RESOURCE_NOT_FOUND:
            continue
        infos = ", ".join(
            f"{MECHANISM_NAMES.get(info.mechanism, 'UNKNOWN')}=iterations={info.iterations}"
            for info in raise_if_failed(result).credential_infos
        )
        write_line(f"SCRAM credential configs for user-principal '{result.user}' are {infos}")


def alter_quotas(
    cluster: Cluster, entities: Sequence[tuple[str, str]], added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    """Set and delete quotas of users, clients or IP addresses.

    Raises:
        ToolError: A quota name or value is invalid.
        ApiError: The broker refused a change.
    """
    kind = entities[0][0] if len(entities) == 1 else "clients"
    valid_names = _QUOTAS["ips" if kind == "ips" else "users"]
    _refuse_unknown(kind, [name for name in added if name not in valid_names], "added")
    _refuse_unknown(kind, [name for name in deleted if name not in valid_names], "deleted")
    changes: list[OpData] = []
    for name, text in added.items():
        try:
            changes.append(OpData(key=name, value=to_double(text), remove=False))
        except ValueError:
            raise ToolError(f"Cannot parse quota configuration value for {name}: {text}") from None
    changes += [OpData(key=name, value=0.0, remove=True) for name in deleted]
    entity = [EntityData(entity_type=_QUOTA_TYPES[kind], entity_name=name or None) for kind, name in entities]
    request = AlterClientQuotasRequest(entries=[AlterEntryData(entity=entity, ops=changes)], validate_only=False)
    check_all(cluster.ask_controller(request).entries)


def _refuse_unknown(kind: str, names: Sequence[str], verb: str) -> None:
    if not names:
        return
    if kind == "ips":
        raise ToolError(
            "Only connection quota configs can be added for 'ips' using --bootstrap-server. "
            f"Unexpected config names: {','.join(names)}"
        )
    allowed = "quota and SCRAM credential configs" if kind == "users" else "quota configs"
    names_list = f"Set({', '.join(names)})" if verb == "added" else f"List({', '.join(names)})"
    raise ToolError(
        f"Only {allowed} can be {verb} for '{kind}' using --bootstrap-server. Unexpected config names: {names_list}"
    )


def describe_quotas(cluster: Cluster, entities: Sequence["Entity"]) -> None:
    """Print the quotas of entities."""
    components = [
        ComponentData(
            entity_type=_QUOTA_TYPES[kind],
            match_type=_ANY if name is None else _EXACT if name else _DEFAULT,
            match=name or None,
        )
        for kind, name in entities
    ]
    response: DescribeClientQuotasResponse = raise_if_failed(
        cluster.ask(DescribeClientQuotasRequest(components=components, strict=True))
    )
    for entry in response.entries or []:
        parts = {item.entity_type: item.entity_name for item in entry.entity}
        entity_text = ", ".join(
            f"the default {word}" if parts[kind] is None else f"{word} '{parts[kind]}'"
            for kind, word in _QUOTA_TITLES.items()
            if kind in parts
        )
        write_line(
            f"Quota configs for {entity_text} are {', '.join(f'{item.key}={item.value}' for item in entry.values)}"
        )


RESOURCES: Final = {"topics": 2, "brokers": 4, "broker-loggers": 8, "client-metrics": 16, "groups": 32}
"""The resource type in DescribeConfigs for each entity type."""
_TYPES: Final = ("topics", "clients", "users", "brokers", "ips", "broker-loggers", "client-metrics")
_NEWER_TYPES: Final = ("groups",)
"""Entity types added in Kafka 4. Error messages list only the types of Kafka 3.9."""
_SHORT_OPTIONS: Final = {
    "topic": "topics", "client": "clients", "user": "users", "broker": "brokers", "broker-logger": "broker-loggers",
    "ip": "ips", "client-metrics": "client-metrics", "group": "groups",
}  # fmt: skip
_DEFAULT_OPTIONS: Final = {
    "client-defaults": "clients",
    "user-defaults": "users",
    "broker-defaults": "brokers",
    "ip-defaults": "ips",
}
_OUTSIDE_BRACKETS: Final = r"(?=[^\]]*(?:\[|$))"
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]*")
_SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
_DYNAMIC: Final = {"topics": 1, "brokers": 2, "client-metrics": 7, "groups": 8}
_DYNAMIC_DEFAULT: Final = 3


class Entity(NamedTuple):
    """An entity to configure. The name "" means the default entity of the type, and None all its entities."""

    kind: str
    name: str | None


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-configs."""
    options = Options(
        tool,
        "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip or "
        "client-metrics",
    )
    add_connection(options, controller=True)
    options.value("zookeeper", help="a broker on this machine replaces ZooKeeper", metavar="SERVERS")
    options.flag("alter", help="change configurations")
    options.flag("describe", help="show configurations")
    options.flag("all", help="with --describe: include default values")
    options.value("entity-type", help=", ".join(_TYPES))
    options.value("entity-name", help="the name of the entity: a topic, a broker's id, a user ...")
    options.flag("entity-default", help="the default for all entities of the type")
    for short in _SHORT_OPTIONS:
        options.value(short, help=f"short for --entity-type {_SHORT_OPTIONS[short]} --entity-name")
    for short, kind in _DEFAULT_OPTIONS.items():
        options.flag(short, help=f"short for --entity-type {kind} --entity-default")
    options.value("add-config", help="the values to set: k1=v1,k2=[v1,v2]", metavar="CONFIGS")
    options.value("add-config-file", help="a properties file with the values to set", metavar="FILE")
    options.value("delete-config", help="the keys to remove, separated by commas", metavar="NAMES")
    options.value("zk-tls-config-file", help="accepted for old scripts", metavar="FILE")
    options.flag("force", help="accepted for old scripts")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Alter or describe configurations."""
    values = options.parse(arguments)
    entities = _parse_entities(values, arguments)
    _check_options(values, entities)
    if values.has("zookeeper") and _alter_before_brokers(values, entities):
        return 0
    try:
        with cluster_of(values) as cluster:
            if values.has("alter"):
                _alter_entities(cluster, values, entities)
            else:
                _describe_entities(cluster, entities, everything=values.has("all"))
    except ApiError as error:
        words = " ".join(arguments)
        raise ToolError(f"Error while executing config command with args '{words}'\n{error.described}") from None
    return 0


def _alter_before_brokers(values: Values, entities: Sequence[Entity]) -> bool:
    """Write a user's SCRAM credentials to ZooKeeper, where brokers that start later find them.

    Returns:
        False, if brokers have to be asked for the change.
    """
    added, deleted = (_parse_added(values), _parse_deleted(values)) if values.has("alter") else ({}, [])
    if [entity.kind for entity in entities] != ["users"] or not MECHANISM_NUMBERS.keys() & {*added, *deleted}:
        return False
    with zookeeper_tree.connect(values.text("zookeeper") or "") as tree:
        if tree is None or tree.has_brokers():
            return False
        user = entities[0].name or ""
        store_scram(tree, user, added, deleted)
    write_line(f"Completed updating config for entity: user-principal '{user}'.")
    return True


def _parse_entities(values: Values, arguments: Sequence[str]) -> list[Entity]:
    """Return the entities. The first --entity-name belongs to the first --entity-type, and so on."""
    kinds = [*values.all("entity-type")]
    names = _names_in_order(arguments)
    entities = [Entity(kind, names[index] if index < len(names) else None) for index, kind in enumerate(kinds)]
    entities += [Entity(kind, name) for short, kind in _SHORT_OPTIONS.items() for name in values.all(short)]
    entities += [Entity(kind, "") for short, kind in _DEFAULT_OPTIONS.items() if values.has(short)]
    return entities


def _names_in_order(arguments: Sequence[str]) -> list[str]:
    names: list[str] = []
    for index, word in enumerate(arguments):
        option, equals, value = word.lstrip("-").partition("=")
        if option == "entity-default":
            names.append("")
        elif option == "entity-name" and word.startswith("-"):
            names.append(value if equals else arguments[index + 1])
    return names


def _check_options(values: Values, entities: Sequence[Entity]) -> None:
    if values.has("alter") == values.has("describe"):
        raise UsageError("Command must include exactly one action: --describe, --alter")
    values.exclude("describe", "add-config", "delete-config")
    kinds = [entity.kind for entity in entities]
    for kind in kinds:
        if kind not in _TYPES + _NEWER_TYPES:
            raise ToolError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(_TYPES)} with a "
                "--bootstrap-server or --bootstrap-controller argument"
            )
    if not kinds:
        raise ToolError("At least one entity type must be specified")
    if len(kinds) > 1 and set(kinds) != {"users", "clients"}:
        raise ToolError("Only 'users' and 'clients' entity types may be specified together")
    connections = [name for name in ("bootstrap-server", "bootstrap-controller", "zookeeper") if values.has(name)]
    if not connections:
        raise ToolError(
            "One of the required --bootstrap-server, --boostrap-controller, or --zookeeper arguments must be specified"
        )
    if len(connections) > 1:
        raise ToolError("Only one of --bootstrap-server, --boostrap-controller, and --zookeeper can be specified")
    _check_names(values, entities)


def _check_names(values: Values, entities: Sequence[Entity]) -> None:
    kinds = ",".join(entity.kind for entity in entities)
    for kind, name in entities:
        if kind in {"brokers", "broker-loggers"} and name and not name.isdecimal():
            raise ToolError(f"The entity name for {kind} must be a valid integer broker id, but it is: {name}")
        if values.has("alter") and name is None:
            if kind in {"users", "clients", "brokers", "ips"}:
                raise ToolError(
                    "an entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
                )
            raise ToolError(f"an entity name must be specified with --alter of {kinds}")
        if kind == "broker-loggers" and name is None:
            raise ToolError(f"an entity name must be specified with --describe of {kinds}")
    if values.has("alter") and not any(map(values.has, ("add-config", "add-config-file", "delete-config"))):
        raise ToolError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    if values.has("add-config") and values.has("add-config-file"):
        raise ToolError("Only one of --add-config or --add-config-file must be specified")


def _alter_entities(cluster: Cluster, values: Values, entities: Sequence[Entity]) -> None:
    added, deleted = _parse_added(values), _parse_deleted(values)
    kind, name = entities[0].kind, entities[0].name or ""
    if kind in RESOURCES:
        _alter_resource(cluster, (RESOURCES[kind], name), added, deleted)
    elif kind == "users" and len(entities) == 1 and MECHANISM_NUMBERS.keys() & {*added, *deleted}:
        alter_scram(cluster, name, added, deleted)
    else:
        alter_quotas(cluster, [(entity.kind, entity.name or "") for entity in entities], added, deleted)
    if name:
        write_line(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        write_line(f"Completed updating default config for {kind} in the cluster.")


def _alter_resource(
    cluster: Cluster, resource: tuple[int, str], added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    if deleted:
        existing = {entry.name for entry in describe_configs(cluster, [resource])[resource]}
        unknown = [name for name in deleted if name not in existing]
        if unknown:
            raise ToolError(f"Invalid config(s): {','.join(unknown)}")
    alter_configs(cluster, {resource: [*added.items(), *((name, None) for name in deleted)]})


def _parse_added(values: Values) -> dict[str, str]:
    configs = load_properties(values.text("add-config-file"))
    text = values.text("add-config")
    for pair in re.split("," + _OUTSIDE_BRACKETS, text) if text is not None else ():
        parts = re.split(r"\s*=\s*" + _OUTSIDE_BRACKETS, pair)
        if len(parts) != len(("key", "value")):
            raise ToolError(
                'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val".'
            )
        configs[parts[0].strip()] = re.sub(r"\[?\]?", "", parts[1]).strip()
    for name in configs:
        if not _NAME.fullmatch(name):
            raise ToolError(f"Invalid character found for config key: {name}")
    return configs


def _parse_deleted(values: Values) -> list[str]:
    return [name.strip() for text in values.all("delete-config") for name in text.split(",")]


def _describe_entities(cluster: Cluster, entities: Sequence[Entity], *, everything: bool) -> None:
    """Print the configurations of entities. If `everything` is set, include default values."""
    kind, name = entities[0]
    if kind not in RESOURCES:
        describe_quotas(cluster, entities)
        if all(entity.kind == "users" and entity.name != "" for entity in entities):
            describe_scram(cluster, name)
        return
    for entity_name in _list_names(cluster, kind) if name is None else [name]:
        _describe_resource(cluster, kind, entity_name, everything=everything)


def _list_names(cluster: Cluster, kind: str) -> list[str]:
    """Return the names of all entities of a type, with "" for the default of all brokers."""
    if kind == "topics":
        names = sorted(topic.name for topic in cluster.metadata().topics if topic.name)
    elif kind in {"brokers", "broker-loggers"}:
        names = [str(broker.node_id) for broker in cluster.brokers()]
    else:
        names = list_resources(cluster, RESOURCES[kind])
    return [*names, ""] if kind == "brokers" else names


def _describe_resource(cluster: Cluster, kind: str, name: str, *, everything: bool) -> None:
    if kind == "brokers" and not name:
        write_line("Default configs for brokers in the cluster are:")
    else:
        write_line(f"{'All' if everything else 'Dynamic'} configs for {kind[:-1]} {name} are:")
    dynamic = _DYNAMIC_DEFAULT if kind == "brokers" and not name else _DYNAMIC.get(kind)
    resource = (RESOURCES[kind], name)
    for entry in sorted(describe_configs(cluster, [resource], synonyms=True)[resource], key=lambda entry: entry.name):
        if everything or dynamic is None or entry.config_source == dynamic:
            _print_entry(entry)


def _print_entry(entry: ConfigEntry) -> None:
    synonyms = ", ".join(
        f"{_SOURCES.get(synonym.source, 'UNKNOWN')}:{synonym.name}={java_text(synonym.value)}"
        for synonym in entry.synonyms
    )
    sensitive = str(entry.is_sensitive).lower()
    write_line(f"  {entry.name}={java_text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}")
