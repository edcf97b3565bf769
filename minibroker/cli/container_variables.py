"""The environment variables that configure a container, and the search for the variable behind an error message.

`minibroker_container` converts variables to options and settings of the broker. Users of a container only see the
variables, so error messages begin with the variable and its value.
"""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.config import key_tables

OPTIONS: Final = {
    "MINIBROKER_LISTEN": "--listen",
    "MINIBROKER_ADVERTISE": "--advertise",
    "MINIBROKER_DATA_DIR": "--data-dir",
    "MINIBROKER_CONFIG": "--config",
    "MINIBROKER_READY_FILE": "--ready-file",
    "MINIBROKER_BROKERS": "--brokers",
    "MINIBROKER_CHAOS": "--chaos",
    "MINIBROKER_CONTROL": "--control",
    "MINIBROKER_EMULATE": "--emulate",
    "MINIBROKER_FAULTS": "--faults",
    "MINIBROKER_JOURNAL": "--journal",
    "MINIBROKER_LINK": "--link",
    "MINIBROKER_LAB": "--page",
    "MINIBROKER_LOG_FORMAT": "--log-format",
    "MINIBROKER_RACKS": "--racks",
    "MINIBROKER_REGISTRY": "--registry",
    "MINIBROKER_SEED_DATA": "--seed-data",
}
"""Variables that set options of `minibroker serve`."""
CLUSTER_IDS: Final = ("CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID", "KAFKA_CLUSTER_ID")
SECRET: Final = re.compile(r"(?i).*(password|secret|jaas\.config|keystore\.key|token\..*key)")
"""Keys whose values are never printed."""
IMAGE_FILES: Final = {
    "ssl.keystore.filename": "ssl.keystore.location",
    "ssl.keystore.credentials": "ssl.keystore.password",
    "ssl.key.credentials": "ssl.key.password",
    "ssl.truststore.filename": "ssl.truststore.location",
    "ssl.truststore.credentials": "ssl.truststore.password",
}
"""The images' keys for files in their secrets directory, and the corresponding keys of Kafka."""
_LISTS: Final = ("MINIBROKER_TOPICS", "KAFKA_CREATE_TOPICS", "CREATE_TOPICS")
_LOG_LINES: Final = "MINIBROKER_LOG_LINES"
_VARIABLE: Final = re.compile(r"(KAFKA|MINIBROKER|CLUSTER_ID|ADV|ADVERTISED|BROKER|RACK|HOSTNAME|PORT)[A-Z0-9_]*\b")
_KEY: Final = re.compile(r"([a-z]+(?:\.[a-z\d_-]+)+)[: ]")
_PATH_MESSAGE: Final = re.compile(r"(/[^:]*): .+", re.DOTALL)
_ADDRESS: Final = re.compile(r"cannot listen on ([^ ]+:\d+): ")
_MAX_VALUE_LENGTH: Final = 200
_DIRECTORIES: Final = ("KAFKA_LOG_DIRS", "KAFKA_LOG_DIR", "MINIBROKER_DATA_DIR")


def config_name(variable: str) -> str:
    """Return the configuration key of a KAFKA_ or KAFKA_CFG_ variable, like `kafka.docker.KafkaDockerWrapper`."""
    name = variable.removeprefix("KAFKA_").removeprefix("CFG_").lower()
    return name.replace("_", ".").replace("...", "-").replace("..", "_")


def variable_of(config: str) -> str:
    """Return the environment variable that sets a configuration key."""
    return "KAFKA_" + config.replace("-", "___").replace("_", "__").replace(".", "_").upper()


def is_in_container(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether this process runs the broker of a container, which is configured by environment variables."""
    return _LOG_LINES in environment


def find_unread_variables(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return a warning about variables of Kafka's container images that `minibroker serve` ignores, or None."""
    names = sorted(filter(re.compile("KAFKA_").match, environment))
    names = [name for name in names if config_name(name) in key_tables.BROKER_KEYS]
    if not names or is_in_container(environment):
        return None
    setting = f"--set {config_name(names[0])}={environment[names[0]] or '...'}"
    if SECRET.fullmatch(config_name(names[0])):
        setting = "--set KEY=VALUE"
    return f"{', '.join(names)}: minibroker reads no such variable outside of its container image; write {setting}"


def add_variable(message: str, environment: Mapping[str, str] = os.environ) -> str:
    """Prefix a message with the variable that it is about, and append a remedy if it names a file or an address."""
    if _VARIABLE.match(message):
        return message
    if environment.get(_LOG_LINES) == "redpanda" and _ADDRESS.match(message):
        return f"redpanda start: {message}; give 0.0.0.0 as the host to listen on all addresses"
    remedy = _suggest_remedy(message, variable := _find_variable_by_name(message, environment))
    if variable is not None:
        shown = "" if SECRET.fullmatch(variable.replace("_", ".")) else f"={environment[variable][:_MAX_VALUE_LENGTH]}"
        return f"{variable}{shown}: {message}{remedy}"
    key = _KEY.match(message)
    return f"{message}{remedy}" if key is None else f"{variable_of(key[1])} is not set: {message}"


def _suggest_remedy(message: str, variable: str | None) -> str:
    """Return a remedy for a message that begins with a file or an address, or an empty string."""
    if _ADDRESS.match(message):
        return "; leave the host out, as in PLAINTEXT://:9092, to listen on all of them"
    if not _PATH_MESSAGE.fullmatch(message):
        return ""
    if variable == "MINIBROKER_READY_FILE":
        return "; give a file in a directory that exists"
    if variable is None or variable in _DIRECTORIES:
        user = os.geteuid()
        return f"; give a directory that user {user} may write to, mount a volume of that user's, or run as root"
    return "; mount the file there"


def _find_variable_by_name(message: str, environment: Mapping[str, str]) -> str | None:
    """Return the variable whose key, option or value a message names first, or None if it names none."""
    matches: list[tuple[int, int, str]] = []
    for variable in environment:
        for name in _iterate_names(variable):
            match = re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", message)
            if match is not None:
                matches.append((match.start(), -len(name), variable))
    return min(matches)[2] if matches else _find_variable_by_value(message, environment)


def _iterate_names(variable: str) -> Iterator[str]:
    """Yield the names by which messages may refer to a variable."""
    if variable in OPTIONS:
        option = OPTIONS[variable]
        yield from (f"argument {option}", option.removeprefix("--").replace("-", "_") + ":")
    elif variable in CLUSTER_IDS:
        yield "minibroker.cluster.id"
    elif variable.startswith("KAFKA_"):
        key = config_name(variable)
        yield key
        if key == "broker.id":
            yield "node.id"  # Each sets the other.
        if key in IMAGE_FILES:
            yield IMAGE_FILES[key]


def _find_variable_by_value(message: str, environment: Mapping[str, str]) -> str | None:
    """Return the variable whose value is quoted by a message or found at its start, or None."""
    path_match = _PATH_MESSAGE.fullmatch(message)
    address = _ADDRESS.match(message)
    quoted = re.findall(r"'([^']+)'", message)
    for variable, value in environment.items():
        ours = variable.startswith(("KAFKA_", "MINIBROKER_"))
        paths = [part for part in value.split(",") if part.startswith("/")] if ours else []
        if (
            (path_match is not None and path_match[1].startswith(tuple(paths)))
            or (variable in _LISTS and any(part in value for part in quoted))
            or (address is not None and variable.endswith("LISTENERS") and address[1] in value)
        ):
            return variable
    return None
