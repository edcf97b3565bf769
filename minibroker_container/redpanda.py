"""Converts the options and files of `redpanda start` to the variables of Kafka's images.

Options override /etc/redpanda/redpanda.yaml, which overrides /etc/redpanda/.bootstrap.yaml, the properties of a new
cluster. Options for shards, memory and RPC between nodes have no effect on a single process.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from minibroker_container.files import opened

NODE_CONFIG: Final = "/etc/redpanda/redpanda.yaml"
BOOTSTRAP_CONFIG: Final = "/etc/redpanda/.bootstrap.yaml"
DATA_DIR: Final = "/var/lib/redpanda/data"
_FLAGS: Final = frozenset({"overprovisioned", "check", "lock-memory", "unsafe-bypass-fsync", "verbose", "v"})
_BOOLEANS: Final = frozenset({"true", "false", "0", "1"})
_ADDRESS: Final = re.compile(r"(?:(?P<name>[^:/,]+)://)?(?P<host>\[[^\]]*\]|[^:/,]*):(?P<port>\d{1,5})", re.ASCII)
_SPACED: Final = re.compile(r"-[^\s=]+\s")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Z0-9_-]")
_ALL: Final = "0.0.0.0"  # noqa: S104 - as Redpanda's image does
_KAFKA: Final = "kafka_api"
_ABSENT: Final = (("schema_registry", "schema_registry_api", 8081), ("pandaproxy", "pandaproxy_api", 8082))
_MECHANISMS: Final = "SCRAM-SHA-256,SCRAM-SHA-512"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class _Listener(NamedTuple):
    """A listener for the Kafka API."""

    name: str
    host: str
    port: int
    login: str = ""


def environment(arguments: Sequence[str], given: Mapping[str, str], warn: Callable[[str], None]) -> dict[str, str]:
    """Return the environment that starts an equivalent broker.

    Raises:
        OSError: a file cannot be read.
        ValueError: an option or a file is invalid.
    """
    options = _options(arguments)
    node, cluster = _read(NODE_CONFIG), _read(BOOTSTRAP_CONFIG)
    settings: dict[str, Any] = {**cluster, **_section(node, "redpanda")}
    for pair in options.get("set", ()):
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"redpanda start: --set {pair!r} is not KEY=VALUE")
        settings[key.removeprefix("redpanda.")] = value
    found = {name: value for name, value in given.items() if not name.startswith("KAFKA_")}
    found |= _listening(options, settings)
    node_id = _last(options, "node-id") or str(settings.get("node_id", 0))
    automatic = settings.get("auto_create_topics_enabled", _last(options, "mode") == "dev-container")
    found |= {
        "KAFKA_NODE_ID": node_id,
        "KAFKA_LOG_DIRS": str(settings.get("data_directory") or DATA_DIR),
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": str(_is_true(automatic)).lower(),
        "MINIBROKER_LOG_LINES": given.get("MINIBROKER_LOG_LINES") or "redpanda",
    }
    for key, name in (
        ("default_topic_partitions", "KAFKA_NUM_PARTITIONS"),
        ("log_segment_size", "KAFKA_LOG_SEGMENT_BYTES"),
    ):
        if key in settings:
            found[name] = str(settings[key])
    found |= _security(settings, given, warn)
    if _last(options, "seeds") or settings.get("seed_servers"):
        warn("--seeds: each container is a cluster of its own here; topics and records of one are not on the others")
    admin = _addresses("admin", settings.get("admin"), 9644)
    ports = [f"redpanda={each.host}:{each.port}" for each in admin]
    for section, key, port in _ABSENT:
        listed = _parsed(options, key.removesuffix("_api").replace("_", "-") + "-addr")
        listed = listed or _addresses(key, _section(node, section).get(key), port)
        ports += [f"absent={each.host}:{each.port}" for each in listed]
    found.setdefault("MINIBROKER_ADMIN_API", " ".join(ports))
    return found


def _options(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each option, given as `--name value`, in one or two arguments, or as `--name=value`."""
    found: dict[str, list[str]] = {}
    rest = [word for item in arguments for word in (item.split(None, 1) if _SPACED.match(item) else [item])]
    while rest:
        name, equals, value = rest.pop(0).lstrip("-").partition("=")
        follows = bool(rest) and not rest[0].startswith("-")
        if not equals and follows and (name not in _FLAGS or rest[0] in _BOOLEANS):
            value = rest.pop(0)
        found.setdefault(name, []).append(value)
    return found


def _last(options: Mapping[str, Sequence[str]], name: str) -> str:
    return options[name][-1] if name in options else ""


def _read(path: str) -> dict[str, Any]:
    if not os.path.exists(path):
        return {}
    import yaml  # type: ignore[import-untyped] # noqa: PLC0415 - no stubs; most containers have no such file

    with opened("redpanda start", path) as file:
        try:
            content = cast("object", yaml.safe_load(file) or {})
        except yaml.YAMLError as error:
            raise ValueError(f"{path}: {' '.join(str(error).split())}") from None
    found = _mapping(content)
    if found is None:
        raise ValueError(f"{path}: it is not a YAML mapping")
    return found


def _mapping(content: object) -> dict[str, Any] | None:
    return cast("dict[str, Any]", content) if isinstance(content, dict) else None


def _items(content: object) -> list[object]:
    """Return the elements of a list. Any other value that is not empty counts as one element."""
    return cast("list[object]", content) if isinstance(content, list) else [content] if content else []


def _section(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    return _mapping(content.get(name)) or {}


def _is_true(value: object) -> bool:
    return str(value).lower() in {"true", "1", "yes"}


def _parsed(options: Mapping[str, Sequence[str]], option: str) -> list[_Listener]:
    """Return the comma-separated addresses of an option such as --kafka-addr."""
    found: list[_Listener] = []
    for entry in filter(None, (each.strip() for each in ",".join(options.get(option, ())).split(","))):
        match = _ADDRESS.fullmatch(entry)
        if match is None:
            raise ValueError(f"redpanda start: --{option}: {entry!r} is not [NAME://]HOST:PORT")
        found.append(_Listener(match["name"] or "", match["host"] or _ALL, int(match["port"])))
    return found


def _addresses(key: str, content: object, port: int) -> list[_Listener]:
    """Return the listeners of a YAML value, which is a mapping or a list of mappings."""
    found: list[_Listener] = []
    for entry in _items(content) or [{"port": port}]:
        each = _mapping(entry)
        if each is None or not str(each.get("port", port)).isdecimal():
            raise ValueError(f"{NODE_CONFIG}: {key}: {entry!r} has no address and port")
        name, host = str(each.get("name") or ""), str(each.get("address") or _ALL)
        found.append(_Listener(name, host, int(each.get("port", port)), str(each.get("authentication_method") or "")))
    return found


def _listening(options: Mapping[str, Sequence[str]], settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables for listeners, their protocols and their advertised addresses."""
    listed = _parsed(options, "kafka-addr") or _addresses(_KAFKA, settings.get(_KAFKA), 9092)
    advertised = _parsed(options, "advertise-kafka-addr")
    if not advertised and settings.get("advertised_kafka_api"):
        advertised = _addresses("advertised_kafka_api", settings["advertised_kafka_api"], 9092)
    names = _names(each.name for each in listed)
    for each in advertised:
        if each.name not in names:
            raise ValueError(
                f"redpanda start: the advertised {each.name or each.host!r} is not one of the Kafka listeners"
            )
    has_login = _is_true(settings.get("enable_sasl")) or _is_true(settings.get("kafka_enable_authorization"))
    tls = _tls(settings)
    protocols: dict[str, str] = {}
    found: dict[str, str] = {}
    for each in listed:
        logs_in = each.login == "sasl" or (not each.login and has_login)
        files = tls.get(each.name)
        name = names[each.name]
        protocols[name] = ("SASL_" if logs_in else "") + ("SSL" if files else "PLAINTEXT")
        if files:
            prefix = f"KAFKA_LISTENER_NAME_{name.replace('_', '__').replace('-', '___')}_SSL_"
            found |= {f"{prefix}{key}": value for key, value in files.items()}
    found["KAFKA_LISTENERS"] = ",".join(f"{names[each.name]}://{each.host}:{each.port}" for each in listed)
    found["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"] = ",".join(f"{name}:{each}" for name, each in protocols.items())
    if advertised:
        found["KAFKA_ADVERTISED_LISTENERS"] = ",".join(
            f"{names[each.name]}://{each.host}:{each.port}" for each in advertised
        )
    if any(each.startswith("SASL") for each in protocols.values()):
        found["KAFKA_SASL_ENABLED_MECHANISMS"] = _MECHANISMS
    return found


def _names(given: Iterable[str]) -> dict[str, str]:
    """Return Kafka's names of the listeners by their names in Redpanda.

    Raises:
        ValueError: two listeners have the same name.
    """
    found: dict[str, str] = {}
    for each in given:
        name = _NOT_IN_NAMES.sub("_", each.upper()) or "REDPANDA"
        if each in found or name in found.values():
            raise ValueError(f"redpanda start: two Kafka listeners have the name {each!r}; give each one of its own")
        found[each] = name
    return found


def _tls(settings: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the TLS settings of each listener, by Redpanda's name, with the last parts of Kafka's keys."""
    found: dict[str, dict[str, str]] = {}
    for entry in _items(settings.get("kafka_api_tls")):
        each = _mapping(entry)
        if each is None or not _is_true(each.get("enabled")):
            continue
        texts: dict[str, str] = {"KEYSTORE_TYPE": "PEM"}
        files = (("cert_file", "KEYSTORE_CERTIFICATE_CHAIN"), ("key_file", "KEYSTORE_KEY"))
        for key, name in (*files, ("truststore_file", "TRUSTSTORE_CERTIFICATES")):
            if each.get(key):
                with opened(f"kafka_api_tls.{key}", str(each[key])) as file:
                    texts[name] = file.read()
        if "TRUSTSTORE_CERTIFICATES" in texts:
            texts["TRUSTSTORE_TYPE"] = "PEM"
        if _is_true(each.get("require_client_auth")):
            texts["CLIENT_AUTH"] = "required"
        found[str(each.get("name") or "")] = texts
    return found


def _security(settings: Mapping[str, Any], given: Mapping[str, str], warn: Callable[[str], None]) -> dict[str, str]:
    """Return the variables for superusers, the authorizer and the first user."""
    found: dict[str, str] = {}
    superusers = _items(settings.get("superusers"))
    if superusers:
        found["KAFKA_SUPER_USERS"] = ";".join(f"User:{each}" for each in superusers)
    if _is_true(settings.get("kafka_enable_authorization")) or _is_true(settings.get("enable_sasl")):
        found["KAFKA_AUTHORIZER_CLASS_NAME"] = _AUTHORIZER
    if _is_true(settings.get("admin_api_require_auth")) or settings.get("admin_api_tls"):
        warn("admin_api_require_auth, admin_api_tls: the admin API asks for no login here, and speaks no TLS")
    user, colon, rest = given.get("RP_BOOTSTRAP_USER", "").partition(":")
    if colon:
        mechanism = rest.rpartition(":")
        secret = mechanism[0] if mechanism[2] in _MECHANISMS.split(",") else rest
        found |= {"KAFKA_CLIENT_USERS": user, "KAFKA_CLIENT_PASSWORDS": secret}
    return found
