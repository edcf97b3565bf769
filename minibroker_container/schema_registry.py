"""The environment of containers that are a schema registry only.

The images are confluentinc/cp-schema-registry, bitnami/schema-registry, Karapace and Apicurio Registry. They become
`minibroker registry`. SCHEMA_REGISTRY_KAFKASTORE_SSL_KEYSTORE_LOCATION and similar variables are client properties
under the names that follow KAFKASTORE_, SCHEMA_REGISTRY_SSL_KEYSTORE_LOCATION and similar ones the registry's own
certificate.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from minibroker.cli import container_variables as variables
from minibroker_container.vendors import Warn, describe, warn_of

_CONFLUENT: Final = "SCHEMA_REGISTRY_"
_STORE: Final = "SCHEMA_REGISTRY_KAFKASTORE_"
_ANY_HOST: Final = "0.0.0.0"  # noqa: S104 - containers listen on all interfaces
_TLS: Final = "SCHEMA_REGISTRY_SSL_KEY"
_KARAPACE: Final = "KARAPACE_"
_APICURIO: Final = ("APICURIO_KAFKASQL_BOOTSTRAP_SERVERS", "REGISTRY_KAFKASQL_BOOTSTRAP_SERVERS")
"""Variables of Apicurio Registry 3 and 2, which listens on port 8080."""
_BOOTSTRAPS: Final = (
    f"{_STORE}BOOTSTRAP_SERVERS", f"{_CONFLUENT}KAFKA_BROKERS", f"{_KARAPACE}BOOTSTRAP_URI", *_APICURIO,
)  # fmt: skip
_ZOOKEEPER: Final = f"{_STORE}CONNECTION_URL"
"""The ZooKeeper by which Confluent's registry found the brokers up to release 5."""
_BROKER: Final = ("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS", "KAFKA_PROCESS_ROLES", "KAFKA_BROKER_ID")
"""Variables of a broker. With one of them the container is a broker, whatever else it has."""
_PROGRAM: Final = re.compile(r"karapace|schema-registry|/etc/confluent/docker/run")
_LEVELS: Final = (
    f"{_CONFLUENT}SCHEMA_COMPATIBILITY_LEVEL",
    f"{_CONFLUENT}AVRO_COMPATIBILITY_LEVEL",
    f"{_KARAPACE}COMPATIBILITY",
)
_TOPICS: Final = (f"{_STORE}TOPIC", f"{_KARAPACE}TOPIC_NAME")
_REPLICATION: Final = (f"{_STORE}TOPIC_REPLICATION_FACTOR", f"{_KARAPACE}REPLICATION_FACTOR")
_KARAPACE_PROPERTIES: Final = {
    "SECURITY_PROTOCOL": "security.protocol",
    "SASL_MECHANISM": "sasl.mechanism",
    "SSL_CAFILE": "ssl.truststore.location",
}
_NO_EFFECT_NEEDED: Final = re.compile(
    r"SCHEMA_REGISTRY_(SCHEMA_REGISTRY_)?(HOST_NAME|LISTENERS|DEBUG|HEAP_OPTS|OPTS|JMX_\w+|LOG4J_\w+|JVM_\w+"
    r"|KAFKASTORE_(INIT_)?TIMEOUT_MS|CUB_KAFKA_TIMEOUT|GROUP_ID|MASTER_ELIGIBILITY|LEADER_ELIGIBILITY|INTER_INSTANCE_PROTOCOL)"
    r"|KARAPACE_(ADVERTISED_\w+|REGISTRY_HOST|HOST|PORT|REGISTRY_PORT|CLIENT_ID|GROUP_ID|MASTER_ELIGIBILITY|LOG_\w+|KARAPACE_REGISTRY"
    r"|REGISTRY_USER|KARAPACE_REST|REST_\w+|TAGS_\w+)"
)
"""Variables for the JVM, for logging and for several registries that choose a leader. There is nothing to change."""


def is_meant(environment: Mapping[str, str], arguments: Sequence[str]) -> bool:
    """Return whether a container is a schema registry and no broker."""
    if not any(map(environment.get, (*_BOOTSTRAPS, _ZOOKEEPER))) or any(map(environment.get, _BROKER)):
        return False
    return not arguments or _PROGRAM.search(" ".join(arguments)) is not None


def registry_options(environment: Mapping[str, str], warn: Warn) -> tuple[list[str], dict[str, str]]:
    """Return the options of `minibroker registry`, and the secret properties that must not be passed as options.

    Raises:
        ValueError: a variable is invalid.
    """
    bootstrap = _first(environment, _BOOTSTRAPS)
    addresses = [entry.strip() for entry in bootstrap.split(",")]
    servers = ",".join(entry.rpartition("://")[2] for entry in addresses)
    options = ["--bootstrap", servers or f"zookeeper://{environment[_ZOOKEEPER]}"]
    options += ["--listen", _listen_address(environment)]
    for option, names in (("--topic", _TOPICS), ("--replication-factor", _REPLICATION), ("--compatibility", _LEVELS)):
        if value := _first(environment, names):
            options += [option, value.upper() if option == "--compatibility" else value]
    properties = _client_properties(environment)
    scheme, has_scheme, _ = addresses[0].partition("://")
    if has_scheme:
        properties.setdefault("security.protocol", scheme.upper())
    known = {*_BOOTSTRAPS, *_TOPICS, *_REPLICATION, *_LEVELS}
    unused = [
        describe(name, value)
        for name, value in environment.items()
        if name.startswith((_CONFLUENT, _KARAPACE))
        and name not in known
        and not name.startswith((_STORE, _TLS))
        and name.removeprefix(_KARAPACE) not in _KARAPACE_PROPERTIES
        and not _NO_EFFECT_NEEDED.fullmatch(name)
        and value
    ]
    warn_of(unused, "the registry has no such setting", warn)
    secrets = {key: properties.pop(key) for key in list(properties) if variables.SECRET.fullmatch(key)}
    return [*options, *(word for key, value in properties.items() for word in ("--set", f"{key}={value}"))], secrets


def _client_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the client properties by which the registry reaches the brokers, and those of its certificate."""
    ours = {_ZOOKEEPER, *_BOOTSTRAPS, *_TOPICS, *_REPLICATION}
    properties = {
        name.removeprefix(_STORE).lower().replace("_", "."): value
        for name, value in environment.items()
        if name.startswith(_STORE) and name not in ours and not _NO_EFFECT_NEEDED.fullmatch(name)
    }
    for name in environment:
        if name.startswith(_TLS):
            properties[f"server.{name.removeprefix(_CONFLUENT).lower().replace('_', '.')}"] = environment[name]
    for name, key in _KARAPACE_PROPERTIES.items():
        if value := environment.get(f"{_KARAPACE}{name}"):
            properties[key] = value
    user, password = (environment.get(f"{_KARAPACE}SASL_PLAIN_{name}") for name in ("USERNAME", "PASSWORD"))
    if user:
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        properties["sasl.jaas.config"] = f'{module} required username="{user}" password="{password or ""}";'
    return properties


def _listen_address(environment: Mapping[str, str]) -> str:
    """Return [https://]HOST:PORT of the first listener."""
    listener = environment.get(f"{_CONFLUENT}LISTENERS", "").split(",")[0].strip()
    scheme, _, address = listener.rpartition("://")
    if address:
        address = f"{_ANY_HOST}{address}" if address.startswith(":") else address
        return f"https://{address}" if scheme == "https" else address
    karapace_port = environment.get(f"{_KARAPACE}PORT") or environment.get(f"{_KARAPACE}REGISTRY_PORT")
    default_port = 8080 if any(map(environment.get, _APICURIO)) else 8081
    return f"{_ANY_HOST}:{karapace_port or default_port}"


def _first(environment: Mapping[str, str], names: Sequence[str]) -> str:
    return next(filter(None, map(environment.get, names)), "")
