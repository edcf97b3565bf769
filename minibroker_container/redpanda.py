"""Converts the options and files of `redpanda start` to the variables of Kafka's images.

Options override /etc/redpanda/redpanda.yaml. That file overrides /etc/redpanda/.bootstrap.yaml, which has the
properties of a new cluster. Options that tune the use of CPUs, memory and disks have no effect. All others without
effect are named on standard error.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from minibroker.cli.container_variables import variable_of
from minibroker.config.addresses import is_local, parse_address
from minibroker_container.files import open_named_file
from minibroker_container.vendors import AUTHORIZER, Warn, describe, warn_of
from minibroker_control.vendors.cluster_config import AT_START, PROPERTIES

NODE_CONFIG: Final = "/etc/redpanda/redpanda.yaml"
BOOTSTRAP_CONFIG: Final = "/etc/redpanda/.bootstrap.yaml"
DATA_DIR: Final = "/var/lib/redpanda/data"
_FLAGS: Final = "overprovisioned|check|lock-memory|unsafe-bypass-fsync|verbose|v|tune|mbind|thread-affinity"
# From `rpk redpanda start --help`, and Seastar's options for its reactor, memory, disks and logs.
_OPTIONS: Final = re.compile(
    "(advertise-)?(kafka|rpc)-addr|pandaproxy-addr|schema-registry-addr|node-id|set|mode|seeds|config|redpanda-cfg|smp"
    "|memory|reserve-memory|hugepages|cpuset|num-io-queues|max-io-requests|io-properties(-file)?|well-known-io|heapprof"
    "|timeout|install-dir|blocked-reactor-notify-ms|(default|logger)-log-level|logger-stdout-timestamps|log-to-(stdout|syslog)"
    "|log-with-color|abort-on-seastar-bad-alloc|dump-memory-diagnostics-on-alloc-failure-kind|reactor-backend|poll-aio"
    "|poll-mode|idle-poll-time-us|relaxed-dma|task-quota-ms|kernel-page-cache|aio-fsync|linux-aio-nowait"
    f"|max-networking-io-control-blocks|{_FLAGS}"
)
"""The options that have an effect, and those that tune the use of resources or configure logging."""
_SETTINGS: Final = re.compile(
    "redpanda|rpk|schema_registry|pandaproxy|(data_directory|node_id|(advertised_)?kafka_api(_tls)?|admin(_api_tls)?"
    "|seed_servers|(advertised_)?rpc_(server|api)|developer_mode|storage_min_free_bytes"
    "|topic_(partitions_per_shard|memory_per_partition)|fetch_reads_debounce_timeout|log_segment_size_(min|max)"
    f"|write_caching_default|crash_loop_limit|disable_(public_)?metrics|{'|'.join([*PROPERTIES, *AT_START])})"
)
"""The sections and settings that have an effect, and those that Redpanda documents for resources and development."""
_ALWAYS_TRUE: Final = frozenset({"enable_idempotence", "enable_transactions"})
_DEV_CONTAINER: Final = "dev-container"
_BOOLEANS: Final = frozenset({"true", "false", "0", "1"})
_ADDRESS: Final = re.compile(
    r"(?:(?P<name>[^:/,]+)://)?(?P<host>\[[^\]]*\]|[^:/,|]*)(?::(?P<port>\d{1,5}))?(?:\|(?P<login>\w+))?", re.ASCII
)
_SPACED: Final = re.compile(r"-[^\s=]+\s")
_NEXT_OPTION: Final = re.compile(r"\s+(?=-)")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Z0-9_-]")
_ALL: Final = "0.0.0.0"  # noqa: S104 - as Redpanda's image does
_KAFKA: Final = "kafka_api"
_RPC: Final = 33145
_HTTP: Final = (("schema_registry", "schema_registry_api", 8081), ("pandaproxy", "pandaproxy_api", 8082))
"""The section of the file, the key and the default port of the services besides Kafka's."""
_WITH_VARIABLES: Final = ("kafka-addr", "advertise-kafka-addr", "seeds", "schema-registry-addr", "pandaproxy-addr")
"""Options that a variable can replace; see `_variable_of`."""
_MECHANISMS: Final = "SCRAM-SHA-256,SCRAM-SHA-512"


class _Listener(NamedTuple):
    """A listener for the Kafka API."""

    name: str
    host: str
    port: int
    login: str = ""

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"{self.host}:{self.port}"


def environment(arguments: Sequence[str], inherited: Mapping[str, str], warn: Warn) -> dict[str, str]:
    """Return the environment that starts an equivalent broker.

    Raises:
        OSError: a file cannot be read.
        ValueError: an option or a file is invalid.
    """
    options = _parse_options(arguments)
    for option in _WITH_VARIABLES:
        if value := inherited.get(_variable_of(option)):
            options.setdefault(option, [value])
    path = _find_last_value(options, "config") or _find_last_value(options, "redpanda-cfg")
    node = _read_yaml(path, is_required=True) if path else _read_yaml(NODE_CONFIG)
    cluster = _read_yaml(BOOTSTRAP_CONFIG)
    settings: dict[str, Any] = {**cluster, **_get_section(node, "redpanda")}
    for pair in options.get("set", ()):
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"redpanda start: --set {pair!r} is not KEY=VALUE")
        settings[key.removeprefix("redpanda.")] = _parse_yaml(value, f"--set {key}") if value[:1] in "[{" else value
    mode = _find_last_value(options, "mode")
    if mode not in {"", _DEV_CONTAINER}:
        raise ValueError(f"redpanda start: --mode {mode!r} is not known; give {_DEV_CONTAINER}, or leave it out")
    _warn_unused(options, {**node, **settings}, inherited, warn)
    variables = {
        name: value for name, value in inherited.items() if not name.startswith(("KAFKA_", "REDPANDA_", "RP_"))
    }
    variables |= _listener_variables(options, settings)
    rpc_servers = _parse_addresses("rpc_server", settings.get("rpc_server"), _RPC)
    rpc = (_parse_listeners(options, "rpc-addr", _RPC) or rpc_servers)[0]
    seeds = _find_seeds(options, settings) or [f"{_ALL}:{rpc.port}"]
    # The first seed server founds the cluster. It gives ids to brokers without one.
    default_id = 0 if is_local(parse_address(seeds[0], "--seeds")) else -1
    is_development = mode == _DEV_CONTAINER or _is_true(settings.get("developer_mode"))
    settings.setdefault("auto_create_topics_enabled", is_development)
    variables |= {
        "KAFKA_NODE_ID": _find_last_value(options, "node-id") or str(settings.get("node_id") or default_id),
        "KAFKA_LOG_DIRS": str(settings.get("data_directory") or DATA_DIR),
        "MINIBROKER_LOG_LINES": inherited.get("MINIBROKER_LOG_LINES") or "redpanda",
    }
    if {"seeds", "rpc-addr", "advertise-rpc-addr"} & set(options) or {"seed_servers", "rpc_server"} & set(settings):
        variables |= {"MINIBROKER_MEET": " ".join(seeds), "MINIBROKER_LINK": rpc.address}
    for property_name, key in PROPERTIES.items():
        configured = settings.get(property_name)
        if configured is not None:
            variables[variable_of(key)] = str(configured).lower() if isinstance(configured, bool) else str(configured)
    variables |= _security_variables(settings, inherited, warn)
    admin = _parse_addresses("admin", settings.get("admin"), 9644)
    ports = [f"redpanda={listener.address}" for listener in admin]
    for section, key, port in _HTTP:
        listeners = _parse_listeners(options, key.removesuffix("_api").replace("_", "-") + "-addr", port)
        listeners = listeners or _parse_addresses(key, _get_section(node, section).get(key), port)
        if section == "schema_registry":
            variables.setdefault("MINIBROKER_REGISTRY", listeners.pop(0).address)
        ports += [f"absent={listener.address}" for listener in listeners]
    variables.setdefault("MINIBROKER_ADMIN_API", " ".join(ports))
    return variables


def _warn_unused(
    options: Mapping[str, Sequence[str]], settings: Mapping[str, Any], inherited: Mapping[str, str], warn: Warn
) -> None:
    """Name the options, the keys of files and the variables that have no effect and do not tune resources."""
    unused = [
        describe(f"--{name}", values[-1], " ") for name, values in options.items() if not _OPTIONS.fullmatch(name)
    ]
    unused += [
        describe(key, value)
        for key, value in settings.items()
        if not _SETTINGS.fullmatch(key.partition(".")[0]) and not (key in _ALWAYS_TRUE and _is_true(value))
    ]
    warn_of(unused, "minibroker does not have these features of Redpanda", warn)
    known = {*map(_variable_of, _WITH_VARIABLES), "RP_BOOTSTRAP_USER", "REDPANDA_BROKERS", "KAFKA_HOME"}
    others = [name for name in inherited if name.startswith(("KAFKA_", "REDPANDA_", "RP_")) and name not in known]
    warn_of([describe(name, inherited[name]) for name in others], "`redpanda start` does not read them", warn)


def _variable_of(option: str) -> str:
    """Return the variable that replaces an option, such as REDPANDA_KAFKA_ADDRESS for --kafka-addr."""
    return f"REDPANDA_{option.upper().replace('-ADDR', '_ADDRESS').replace('-', '_')}"


def _parse_options(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each option by name.

    An option is given as `--name value`, in one or two arguments, or as `--name=value`. An argument can have several
    options. Redpanda's image also splits arguments at spaces.
    """
    options: dict[str, list[str]] = {}
    items = [part for item in arguments for part in (_NEXT_OPTION.split(item) if item.startswith("-") else [item])]
    words = [word for item in items for word in (item.split(None, 1) if _SPACED.match(item) else [item])]
    while words:
        name, equals, value = words.pop(0).lstrip("-").partition("=")
        follows = bool(words) and not words[0].startswith("-")
        if not equals and follows and (name not in _FLAGS.split("|") or words[0] in _BOOLEANS):
            value = words.pop(0)
        options.setdefault(name, []).append(value.strip(" \"'"))
    return options


def _find_seeds(options: Mapping[str, Sequence[str]], settings: Mapping[str, Any]) -> list[str]:
    """Return HOST:PORT of each seed server. An entry of the file may have its address under the key `host`."""
    entries = [
        mapping.get("host", mapping) for mapping in map(_as_mapping, _as_list(settings.get("seed_servers"))) if mapping
    ]
    listed = _parse_addresses("seed_servers", entries, _RPC) if entries else []
    return [seed.address for seed in _parse_listeners(options, "seeds", _RPC) or listed]


def _find_last_value(options: Mapping[str, Sequence[str]], name: str) -> str:
    return options[name][-1] if name in options else ""


def _read_yaml(path: str, *, is_required: bool = False) -> dict[str, Any]:
    if not is_required and not os.path.exists(path):
        return {}
    with open_named_file("redpanda start", path) as file:
        mapping = _as_mapping(_parse_yaml(file.read(), path) or {})
    if mapping is None:
        raise ValueError(f"{path}: it is not a YAML mapping")
    return mapping


def _parse_yaml(text: str, source: str) -> object:
    import yaml  # type: ignore[import-untyped] # noqa: PLC0415 - no stubs; most containers have no such file

    try:
        return cast("object", yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise ValueError(f"{source}: {' '.join(str(error).split())}") from None


def _as_mapping(content: object) -> dict[str, Any] | None:
    return cast("dict[str, Any]", content) if isinstance(content, dict) else None


def _as_list(content: object) -> list[object]:
    """Return the elements of a list. A value that is not a list counts as its only element, unless it is empty."""
    return cast("list[object]", content) if isinstance(content, list) else [content] if content else []


def _get_section(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    return _as_mapping(content.get(name)) or {}


def _is_true(value: object) -> bool:
    return str(value).lower() in {"true", "1", "yes"}


def _parse_listeners(options: Mapping[str, Sequence[str]], option: str, default_port: int = 9092) -> list[_Listener]:
    """Return the comma-separated addresses of an option such as --kafka-addr."""
    listeners: list[_Listener] = []
    for entry in filter(None, (text.strip() for text in ",".join(options.get(option, ())).split(","))):
        match = _ADDRESS.fullmatch(entry)
        if match is None:
            raise ValueError(f"redpanda start: --{option}: {entry!r} is not [NAME://]HOST:PORT")
        port = int(match["port"] or default_port)
        listeners.append(_Listener(match["name"] or "", match["host"] or _ALL, port, match["login"] or ""))
    return listeners


def _parse_addresses(key: str, content: object, port: int) -> list[_Listener]:
    """Return the listeners in a YAML value: a mapping or a list of mappings."""
    listeners: list[_Listener] = []
    for entry in _as_list(content) or [{"port": port}]:
        mapping = _as_mapping(entry)
        if mapping is None or not str(mapping.get("port", port)).isdecimal():
            raise ValueError(f"{NODE_CONFIG}: {key}: {entry!r} has no address and port")
        name, host, login = (str(mapping.get(key) or "") for key in ("name", "address", "authentication_method"))
        listeners.append(_Listener(name, host or _ALL, int(mapping.get("port", port)), login))
    return listeners


def _listener_variables(options: Mapping[str, Sequence[str]], settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables for listeners, their protocols and their advertised addresses."""
    listeners = _parse_listeners(options, "kafka-addr") or _parse_addresses(_KAFKA, settings.get(_KAFKA), 9092)
    advertised = _parse_listeners(options, "advertise-kafka-addr")
    if not advertised and settings.get("advertised_kafka_api"):
        advertised = _parse_addresses("advertised_kafka_api", settings["advertised_kafka_api"], 9092)
    names = _name_listeners(listener.name for listener in listeners)
    for listener in advertised:
        if listener.name not in names:
            raise ValueError(
                f"redpanda start: the advertised {listener.name or listener.host!r} is not one of the Kafka listeners"
            )
    has_login = _is_true(settings.get("enable_sasl")) or _is_true(settings.get("kafka_enable_authorization"))
    tls = _read_tls_settings(settings)
    protocols: dict[str, str] = {}
    variables: dict[str, str] = {}
    for listener in listeners:
        logs_in = listener.login == "sasl" or (not listener.login and has_login)
        files = tls.get(listener.name)
        name = names[listener.name]
        protocols[name] = ("SASL_" if logs_in else "") + ("SSL" if files else "PLAINTEXT")
        if files:
            prefix = f"KAFKA_LISTENER_NAME_{name.replace('_', '__').replace('-', '___')}_SSL_"
            variables |= {f"{prefix}{key}": value for key, value in files.items()}
    for variable, entries in (("KAFKA_LISTENERS", listeners), ("KAFKA_ADVERTISED_LISTENERS", advertised)):
        if entries:
            variables[variable] = ",".join(f"{names[listener.name]}://{listener.address}" for listener in entries)
    protocol_map = ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())
    variables["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"] = protocol_map
    if any(protocol.startswith("SASL") for protocol in protocols.values()):
        variables["KAFKA_SASL_ENABLED_MECHANISMS"] = _MECHANISMS
    return variables


def _name_listeners(redpanda_names: Iterable[str]) -> dict[str, str]:
    """Return Kafka's names of the listeners, by their Redpanda names.

    Raises:
        ValueError: two listeners have the same name.
    """
    kafka_names: dict[str, str] = {}
    for name in redpanda_names:
        kafka_name = _NOT_IN_NAMES.sub("_", name.upper()) or "REDPANDA"
        if name in kafka_names or kafka_name in kafka_names.values():
            raise ValueError(f"redpanda start: two Kafka listeners have the name {name!r}; give each one of its own")
        kafka_names[name] = kafka_name
    return kafka_names


def _read_tls_settings(settings: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the TLS settings of each listener by its Redpanda name. The keys are the last parts of Kafka's keys."""
    settings_by_name: dict[str, dict[str, str]] = {}
    for entry in _as_list(settings.get("kafka_api_tls")):
        mapping = _as_mapping(entry)
        if mapping is None or not _is_true(mapping.get("enabled")):
            continue
        texts: dict[str, str] = {"KEYSTORE_TYPE": "PEM"}
        files = (("cert_file", "KEYSTORE_CERTIFICATE_CHAIN"), ("key_file", "KEYSTORE_KEY"))
        for key, name in (*files, ("truststore_file", "TRUSTSTORE_CERTIFICATES")):
            if mapping.get(key):
                with open_named_file(f"kafka_api_tls.{key}", str(mapping[key])) as file:
                    texts[name] = file.read()
        if "TRUSTSTORE_CERTIFICATES" in texts:
            texts["TRUSTSTORE_TYPE"] = "PEM"
        if _is_true(mapping.get("require_client_auth")):
            texts["CLIENT_AUTH"] = "required"
        settings_by_name[str(mapping.get("name") or "")] = texts
    return settings_by_name


def _security_variables(settings: Mapping[str, Any], inherited: Mapping[str, str], warn: Warn) -> dict[str, str]:
    """Return the variables for superusers, the authorizer and the first user."""
    variables: dict[str, str] = {}
    superusers = _as_list(settings.get("superusers"))
    if superusers:
        variables["KAFKA_SUPER_USERS"] = ";".join(f"User:{superuser}" for superuser in superusers)
    if _is_true(settings.get("kafka_enable_authorization")) or _is_true(settings.get("enable_sasl")):
        variables["KAFKA_AUTHORIZER_CLASS_NAME"] = AUTHORIZER
    if _is_true(settings.get("admin_api_require_auth")) or settings.get("admin_api_tls"):
        warn("admin_api_require_auth, admin_api_tls: the admin API asks for no login here, and speaks no TLS")
    user, colon, credentials = inherited.get("RP_BOOTSTRAP_USER", "").partition(":")
    if colon:
        mechanism = credentials.rpartition(":")
        secret = mechanism[0] if mechanism[2] in _MECHANISMS.split(",") else credentials
        variables |= {"KAFKA_CLIENT_USERS": user, "KAFKA_CLIENT_PASSWORDS": secret}
    return variables
