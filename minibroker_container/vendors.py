"""Translates the variables of each vendor's image to the names that apache/kafka has for them.

- wurstmeister/kafka (`start-kafka.sh`), debezium/kafka, spotify/kafka: names for the advertised host and port
- lensesio/fast-data-dev: ADV_HOST
- moeenz/docker-kafka-kraft: KRAFT_... names
- bitnami/kafka: passwords from files (`..._FILE`), and key stores in a special directory
"""

import glob
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from minibroker.cli.container_variables import OPTIONS, variable_of
from minibroker_container.files import open_named_file

_SERVICES: Final = "no such service runs beside a broker, only a schema registry"
_KNOWN: Final = (
    "MINIBROKER_(TOPICS|MEET|ADMIN_API|LOG_LINES|CONTROL_TOKEN)|KAFKA_CONFLUENT_(HTTP|METADATA)_SERVER_LISTENERS"
    "|(KAFKA_)?CONFLUENT_SCHEMA_REGISTRY_URL|STRIMZI_(JAVA|KAFKA_GC_LOG)_\\w+|ZOOKEEPER_CONNECT|RPK_\\w+|REDPANDA_BROKERS"
)
_FEATURES: Final = (
    (re.compile("|".join([_KNOWN, *OPTIONS])), ""),
    (re.compile(r"MINIBROKER_\w+"), "minibroker has no such variable"),
    (re.compile(r"(KAFKA_)?CONFLUENT_\w+"), "these features of Confluent Server do not exist here"),
    (re.compile(r"(KAFKA_)+REST_\w+|(SCHEMA_REGISTRY|CONNECT|KSQL|CONTROL_CENTER|ZOOKEEPER|ZOO|ZK)_\w+"), _SERVICES),
    (re.compile(r"(BROKER_SSL|REST|WEB)_PORT|ENABLE_SSL|SSL_EXTRA_HOSTS|SAMPLEDATA|CONNECTORS"), _SERVICES),
    (re.compile(r"KAFKA_EXTRA_FLAGS|KAFKA_ZOOKEEPER_(PROTOCOL|USER|PASSWORD|TLS_\w+)"), "no script of Kafka runs here"),
    (re.compile(r"(REDPANDA|RP)_\w+"), "the command `redpanda start` reads them"),
    (re.compile(r"STRIMZI_\w+"), "no operator runs here"),
)
"""Patterns of names with the reason why they have no effect. The first match applies. "" means a known variable."""
_ZOOKEEPER: Final = re.compile(
    "ALLOW_ANONYMOUS_LOGIN|ZOOKEEPER_(CLIENT_PORT|SERVER_ID|SERVERS|TICK_TIME|DATA_DIR)"
    "|ZOO_(MY_ID|SERVERS|SERVER_ID|PORT|PORT_NUMBER|TICK_TIME|INIT_LIMIT|SYNC_LIMIT|STANDALONE_ENABLED|ENABLE_AUTH|CFG_EXTRA"
    "|4LW_COMMANDS_WHITELIST|ADMINSERVER_ENABLED|MAX_CLIENT_CNXNS|LOG_LEVEL|DATA_DIR)"
)
"""Variables of cp-zookeeper, bitnami/zookeeper and zookeeper."""
_SERVICE_LINK: Final = re.compile(r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP)(_\w+)?)")
_SECRET: Final = re.compile(
    r"PASSWORD|SECRET|JAAS|LICENSE$|API_KEY|CREDENTIAL|USER_INFO|PRIVATE_KEY|USERS?$", re.IGNORECASE
)
_USER_INFO: Final = re.compile(r"//[^/@\s]+@")
_MAX_VALUE_LENGTH: Final = 80


def zookeeper_port(environment: Mapping[str, str]) -> str | None:
    """Return the port of a container of ZooKeeper's images, or None if no variable is of such a container."""
    if not any(_ZOOKEEPER.fullmatch(name) and not value.startswith("tcp:") for name, value in environment.items()):
        return None
    ports = map(environment.get, ("ZOOKEEPER_CLIENT_PORT", "ZOO_PORT_NUMBER", "ZOO_PORT"))
    return next((port for port in ports if port and port.isdecimal()), "2181")


def warn_unused(environment: Mapping[str, str], configs: Mapping[str, str], warn: Callable[[str], None]) -> None:
    """Print one line for each reason why variables and Confluent's keys of a properties file have no effect."""
    keys = {variable_of(key): value for key, value in configs.items() if key.startswith("confluent.")}
    unused: dict[str, list[str]] = {}
    for name, value in ({**keys, **environment}).items():
        is_link = _SERVICE_LINK.fullmatch(name) or value.startswith(("tcp://", "udp://"))
        reason = next((reason for pattern, reason in _FEATURES if pattern.fullmatch(name)), "")
        if reason and value and not is_link:
            unused.setdefault(reason, []).append(describe(name, value))
    for reason, settings in unused.items():
        warn_of(settings, reason, warn)


def warn_of(settings: Iterable[str], reason: str, warn: Callable[[str], None]) -> None:
    """Print that settings have no effect, unless there are none."""
    if listed := ", ".join(settings):
        warn(f"no effect: {listed}; {reason}")


def describe(name: str, value: object, between: str = "=") -> str:
    """Return a setting as text on one line, without the value of a secret, and without user and password in a URL."""
    text = "[hidden]" if _SECRET.search(name) else _USER_INFO.sub("//[hidden]@", " ".join(str(value).split()))
    shown = text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 3]}..."
    return f"{name}{between}{shown}" if shown else name


Warn = Callable[[str], None]
"""Prints a remark about the environment, one line without the program's name."""

BITNAMI_CERTIFICATES: Final = "/opt/bitnami/kafka/config/certs"

_SYNONYMS: Final = {
    # The image debezium/kafka uses these names.
    "ADVERTISED_HOST_NAME": "KAFKA_ADVERTISED_HOST_NAME",
    "ADVERTISED_LISTENERS": "KAFKA_ADVERTISED_LISTENERS",
    "ADVERTISED_PORT": "KAFKA_ADVERTISED_PORT",
    "BROKER_ID": "KAFKA_BROKER_ID",
    "CREATE_TOPICS": "KAFKA_CREATE_TOPICS",
    "NODE_ID": "KAFKA_NODE_ID",
    "ZOOKEEPER_CONNECT": "KAFKA_ZOOKEEPER_CONNECT",
    # The images spotify/kafka and johnnypark/kafka-zookeeper use these names.
    "ADVERTISED_HOST": "KAFKA_ADVERTISED_HOST_NAME",
    "AUTO_CREATE_TOPICS": "KAFKA_AUTO_CREATE_TOPICS_ENABLE",
    "LOG_RETENTION_BYTES": "KAFKA_LOG_RETENTION_BYTES",
    "LOG_RETENTION_HOURS": "KAFKA_LOG_RETENTION_HOURS",
    "NUM_PARTITIONS": "KAFKA_NUM_PARTITIONS",
    # The image krisgeus/docker-kafka uses these names.
    "LISTENERS": "KAFKA_LISTENERS",
    "SECURITY_PROTOCOL_MAP": "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP",
    "INTER_BROKER": "KAFKA_INTER_BROKER_LISTENER_NAME",
    # The images lensesio/fast-data-dev and landoop/fast-data-dev use these names.
    "ADV_HOST": "KAFKA_ADVERTISED_HOST_NAME",
    "BROKER_PORT": "KAFKA_PORT",
}
_NODE_ROLES: Final = {"combined": "broker,controller", "broker": "broker", "controller": "controller"}
_COMMANDS: Final = {
    "HOSTNAME_COMMAND": "KAFKA_ADVERTISED_HOST_NAME",
    "PORT_COMMAND": "KAFKA_ADVERTISED_PORT",
    "BROKER_ID_COMMAND": "KAFKA_BROKER_ID",
    "RACK_COMMAND": "KAFKA_BROKER_RACK",
}
"""Variables of wurstmeister/kafka that contain a command, with the variable that defaults to the command's output."""
_COMMAND_TIMEOUT_S: Final = 10.0
_PORT: Final = re.compile(r"\d{1,5}", re.ASCII)
_DEFAULT_PORT: Final = "9092"
_SECRET_FILES: Final = re.compile(r"KAFKA_\w*(PASSWORD|PASSWORDS|USER|USERS|CLUSTER_ID)_FILE")
_CONTINUED_LINE: Final = re.compile(r"\\\n\s*")
_QUOTED_VALUE: Final = re.compile(r"""\s*(["'])(?P<value>[^"']*)\1\s*""")
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_ADMIN_API: Final = "MINIBROKER_ADMIN_API"
_HTTP_SERVERS: Final = ("KAFKA_CONFLUENT_HTTP_SERVER_LISTENERS", "KAFKA_CONFLUENT_METADATA_SERVER_LISTENERS")
_HTTP_LISTENER: Final = re.compile(r"http://(?P<host>[^:/]*):(?P<port>\d{1,5})", re.ASCII)
_CP_SERVER: Final = re.compile(r"KAFKA_CONFLUENT_(BALANCER|LICENSE|SCHEMA_REGISTRY|CLUSTER_LINK|TELEMETRY)_\w+")
"""Variables of cp-server, which serves HTTP on port 8090 by default."""
_REGISTRY_PORT: Final = "8081"
_BRIDGES: Final = "/sys/class/net/*/bridge"
"""The network bridges of an engine, which only a container in the host's network sees."""
_CP_SERVER_HTTP: Final = "http://0.0.0.0:8090"
_HOST_LISTENER: Final = "PLAINTEXT_HOST"
_LISTENERS: Final = ("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS")
_LOCAL_MAP: Final = f"CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,{_HOST_LISTENER}:PLAINTEXT"
"""The default protocol map of confluent-local."""
_BITNAMI: Final = ("ALLOW_PLAINTEXT_LISTENER", "BITNAMI_DEBUG", "KAFKA_ENABLE_KRAFT")


def translate(environment: Mapping[str, str], warn: Warn) -> dict[str, str]:
    """Return the environment with the variables of all vendors under the names that apache/kafka uses.

    Raises:
        OSError: a file with a secret cannot be read.
        ValueError: a port is invalid.
    """
    variables = {
        name: _without_quotes(name, _CONTINUED_LINE.sub("", value), warn) if name.startswith("KAFKA_") else value
        for name, value in environment.items()
    }
    for name, twin in _SYNONYMS.items():
        if variables.get(name):
            variables.setdefault(twin, variables[name])
    if role := _NODE_ROLES.get(variables.get("NODE_ROLE", "")):
        variables.setdefault("KAFKA_PROCESS_ROLES", role)
    for name in [name for name in variables if _SECRET_FILES.fullmatch(name) and variables[name]]:
        with open_named_file(name, variables.pop(name)) as file:
            variables[name.removesuffix("_FILE")] = file.read().strip()
    for name in [name for name in variables if name.startswith("KAFKA_CFG_")]:
        variables["KAFKA_" + name.removeprefix("KAFKA_CFG_")] = variables.pop(name)
    authorizer = variables.get("KAFKA_AUTHORIZER_CLASS_NAME", "")
    if authorizer.startswith("io.confluent."):
        warn(f"KAFKA_AUTHORIZER_CLASS_NAME: {authorizer} is Confluent's; {AUTHORIZER} keeps the ACLs in its place")
        variables["KAFKA_AUTHORIZER_CLASS_NAME"] = AUTHORIZER
    if "KAFKA_METRIC_REPORTERS" in variables and any(map(_CP_SERVER.fullmatch, variables)):
        variables.setdefault(_HTTP_SERVERS[0], _CP_SERVER_HTTP)
    _add_kraft_names(variables)
    if any(f"{_HOST_LISTENER}://" in variables.get(name, "") for name in _LISTENERS):
        variables.setdefault("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", _LOCAL_MAP)
    _add_admin_api(variables, warn)
    _run_commands(variables, warn)
    _add_listeners(variables, is_bitnami=_is_bitnami(environment))
    _add_certificates(variables)
    if variables.get("ADV_HOST"):
        port = variables.get("REGISTRY_PORT") or _REGISTRY_PORT
        variables.setdefault("MINIBROKER_REGISTRY", "" if port == "0" else port)
        warn("ADV_HOST: the broker and the schema registry of fast-data-dev run here, without Connect and web pages")
    # In the host's network, another container may be the registry at this port.
    variables.setdefault("MINIBROKER_REGISTRY", "" if glob.glob(_BRIDGES) else _REGISTRY_PORT)
    return variables


def _add_admin_api(variables: dict[str, str], warn: Warn) -> None:
    """Add the HTTP ports of cp-server. Health checks query them for the cluster id."""
    for name in _HTTP_SERVERS:
        for entry in filter(None, (text.strip() for text in variables.get(name, "").split(","))):
            match = _HTTP_LISTENER.fullmatch(entry)
            if match is None:
                warn(f"{name}: {entry} is passed over; the port of http://HOST:PORT would answer health checks here")
                continue
            port = f"confluent={match['host']}:{match['port']}"
            if port not in variables.get(_ADMIN_API, "").split():
                variables[_ADMIN_API] = f"{variables.get(_ADMIN_API, '')} {port}".strip()


def _add_kraft_names(variables: dict[str, str]) -> None:
    """Add the variables of moeenz/docker-kafka-kraft. That image also listens on 9093 for the host machine."""
    host = variables.get("KRAFT_CONTAINER_HOST_NAME")
    if host:
        variables.setdefault("KAFKA_LISTENERS", "PLAINTEXT://:9092,EXTERNAL://:9093")
        variables.setdefault("KAFKA_ADVERTISED_LISTENERS", f"PLAINTEXT://{host}:9092,EXTERNAL://localhost:9093")
        variables.setdefault("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT")
    partitions = variables.get("KRAFT_PARTITIONS_PER_TOPIC") or "1"
    topics = filter(None, map(str.strip, variables.get("KRAFT_CREATE_TOPICS", "").split(",")))
    if listed := ",".join(f"{topic}:{partitions}" for topic in topics):
        variables.setdefault("KAFKA_CREATE_TOPICS", listed)
    if variables.get("KRAFT_AUTO_CREATE_TOPICS"):
        variables.setdefault("KAFKA_AUTO_CREATE_TOPICS_ENABLE", variables["KRAFT_AUTO_CREATE_TOPICS"])


def _is_bitnami(environment: Mapping[str, str]) -> bool:
    return any(name.startswith("KAFKA_CFG_") or name in _BITNAMI for name in environment)


def _without_quotes(name: str, value: str, warn: Warn) -> str:
    """Remove quotes around a whole value.

    In a YAML list, the quotes in an item such as `- KAFKA_LISTENERS="..."` are part of the value.
    """
    match = _QUOTED_VALUE.fullmatch(value)
    if match is None:
        return value
    warn(f"{name}: the quotes around its value are passed over; YAML's list form keeps them, so leave them out")
    return match["value"]


def _run_commands(variables: dict[str, str], warn: Warn) -> None:
    """Replace `_{HOSTNAME_COMMAND}` and similar placeholders of wurstmeister/kafka with the output of the commands."""
    for command_variable, target in _COMMANDS.items():
        if not variables.get(command_variable):
            continue
        output = _run_command(command_variable, variables[command_variable], variables, warn)
        placeholder = f"_{{{command_variable}}}"
        for name in [name for name, value in variables.items() if name.startswith("KAFKA_") and placeholder in value]:
            variables[name] = variables[name].replace(placeholder, output)
        is_advertised = target.startswith("KAFKA_ADVERTISED_") and "KAFKA_ADVERTISED_LISTENERS" in variables
        if output and not is_advertised:
            variables.setdefault(target, output)


def _run_command(name: str, command: str, environment: Mapping[str, str], warn: Warn) -> str:
    """Return a command's output.

    If the command fails, return the container's host name for HOSTNAME_COMMAND, and "" for other commands.
    """
    problem = "has no output"
    try:
        completed = subprocess.run(  # noqa: S603 - the user's own command, as that image runs it
            ["sh", "-c", command],  # noqa: S607 - the container's own shell, whose path differs between images
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=_COMMAND_TIMEOUT_S,
            check=False,
        )
        output = completed.stdout.strip()
        if completed.returncode == 0 and output:
            return output
        if completed.stderr.strip():
            problem = completed.stderr.strip().splitlines()[-1]
    except subprocess.TimeoutExpired:
        problem = f"takes more than {_COMMAND_TIMEOUT_S:.0f} s"
    fallback = os.uname().nodename if name == "HOSTNAME_COMMAND" else ""
    warn(f"{name}: the command {command!r} {problem}" + (f"; {fallback} is taken instead" if fallback else ""))
    return fallback


def _add_listeners(variables: dict[str, str], *, is_bitnami: bool) -> None:
    """Convert the host and port variables to the listener variables that replaced them (`KafkaConfig` of Kafka 2)."""
    host, port = variables.pop("KAFKA_HOST_NAME", ""), _take_port(variables, "KAFKA_PORT")
    advertised_host = variables.pop("KAFKA_ADVERTISED_HOST_NAME", "").strip()
    advertised_port = _take_port(variables, "KAFKA_ADVERTISED_PORT")
    protocol = variables.pop("KAFKA_ADVERTISED_PROTOCOL_NAME", "").strip()
    if (host or port) and not variables.get("KAFKA_LISTENERS"):
        variables["KAFKA_LISTENERS"] = f"PLAINTEXT://{host}:{port or _DEFAULT_PORT}"
    if variables.get("KAFKA_ADVERTISED_LISTENERS"):
        return
    listed = variables.get("KAFKA_LISTENERS", "")
    name, _, addresses = listed.partition("://")
    protocol = protocol or name.strip() or "PLAINTEXT"
    if advertised_host or advertised_port:
        first_port = re.search(r":(\d+)\s*(,|$)", addresses)
        advertised = advertised_port or port or (first_port[1] if first_port else _DEFAULT_PORT)
        variables["KAFKA_ADVERTISED_LISTENERS"] = (
            f"{protocol}://{advertised_host or host or os.uname().nodename}:{advertised}"
        )
        if not listed:
            variables["KAFKA_LISTENERS"] = f"{protocol}://:{port or _DEFAULT_PORT}"
    elif is_bitnami and not listed:
        # A listener without a host is advertised with the container's host name, to which other services of a Compose
        # file can connect.
        variables["KAFKA_LISTENERS"] = f"PLAINTEXT://:{_DEFAULT_PORT}"


def _take_port(variables: dict[str, str], name: str) -> str:
    """Remove a port from the environment and return it.

    A container link (tcp://10.0.0.1:9092) stays in the environment, and "" is returned.

    Raises:
        ValueError: the port is invalid.
    """
    text = variables.get(name, "").strip()
    if "://" in text or not text:
        return ""
    if not _PORT.fullmatch(text):
        raise ValueError(f"{name}: {text!r} is not a port; give a number from 1 to 65535")
    del variables[name]
    return text


def _add_certificates(variables: dict[str, str]) -> None:
    """Add the variables for the key stores that bitnami/kafka keeps in its own directory."""
    if not os.path.isdir(BITNAMI_CERTIFICATES):
        return
    kind = variables.pop("KAFKA_TLS_TYPE", "JKS").upper()
    client_auth = variables.pop("KAFKA_TLS_CLIENT_AUTH", "")
    secret = variables.pop("KAFKA_CERTIFICATE_PASSWORD", "")
    ending = "pem" if kind == "PEM" else "jks"
    for store in ("KEYSTORE", "TRUSTSTORE"):
        path = os.path.join(BITNAMI_CERTIFICATES, f"kafka.{store.lower()}.{ending}")
        if not os.path.exists(path):
            continue
        variables.setdefault(f"KAFKA_SSL_{store}_TYPE", kind)
        key = os.path.join(BITNAMI_CERTIFICATES, "kafka.keystore.key")
        if kind == "PEM" and store == "KEYSTORE" and os.path.exists(key):
            for variable, file in (("KAFKA_SSL_KEYSTORE_CERTIFICATE_CHAIN", path), ("KAFKA_SSL_KEYSTORE_KEY", key)):
                with open_named_file(variable, file) as pem:
                    variables.setdefault(variable, pem.read())
            continue
        variables.setdefault(f"KAFKA_SSL_{store}_LOCATION", path)
        if secret and kind != "PEM":
            variables.setdefault(f"KAFKA_SSL_{store}_PASSWORD", secret)
    if secret:
        variables.setdefault("KAFKA_SSL_KEY_PASSWORD", secret)
    if client_auth:
        variables.setdefault("KAFKA_SSL_CLIENT_AUTH", client_auth)
