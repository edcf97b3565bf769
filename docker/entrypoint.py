"""The container's entry point: turns the environment of Kafka's images into `minibroker serve` and becomes it.

It understands that of apache/kafka and of confluentinc/cp-kafka, and the names of bitnami/kafka (KAFKA_CFG_...).

Variables are read as `kafka.docker.KafkaDockerWrapper` reads them: after KAFKA_ the name is lower-cased, `___` stands
for a dash, `__` for an underscore and `_` for a dot, so that KAFKA_LOG_SEGMENT_BYTES is `log.segment.bytes`. What the
JVM and its logging would have read is skipped. A file mounted as /mnt/shared/config/server.properties is read first.

Of KAFKA_LISTENERS those are served that speak plaintext, each with its own advertised address: PLAINTEXT comes first.
Listeners of the KRaft controller are dropped; every other one that is dropped is named on stderr. Without the variable
the broker listens on every port that is advertised, as cp-kafka does, and on 9092, as the others do.

MINIBROKER_LISTEN, _ADVERTISE, _DATA_DIR, _CONFIG, _READY_FILE, _BROKERS, _CONTROL, _FAULTS, _LOG_FORMAT and _SEED_DATA
are the options of the same names and go before their KAFKA_ twins; MINIBROKER_CONTROL_TOKEN is read by the broker.
MINIBROKER_TOPICS is a list of --topic values with blanks between them. CLUSTER_ID is the id of the cluster that a new
data directory is given, as Kafka's images format it; a directory of another cluster is refused.

Arguments of the container that begin with a dash are further options of `minibroker serve`; a word is a command to run
instead. `--print-command` prints what would be run. `--check-health` asks the broker of the same environment for its
API versions and exits with 0 if it answers.
"""

import os
import re
import shlex
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from minibroker import listeners
from minibroker.listeners import Listener

MOUNTED_CONFIG = "/mnt/shared/config/server.properties"
DATA_DIR = "/var/lib/minibroker"

# Without any variable the apache/kafka image serves the machine that publishes its port.
_DEFAULT_LISTENERS = "PLAINTEXT://:9092"
_DEFAULT_PORT = 9092
_DEFAULT_ADVERTISED = "PLAINTEXT://localhost:9092"

_PLAIN_OPTIONS = {
    "MINIBROKER_LISTEN": "--listen",
    "MINIBROKER_ADVERTISE": "--advertise",
    "MINIBROKER_DATA_DIR": "--data-dir",
    "MINIBROKER_CONFIG": "--config",
    "MINIBROKER_READY_FILE": "--ready-file",
    "MINIBROKER_BROKERS": "--brokers",
    "MINIBROKER_CONTROL": "--control",
    "MINIBROKER_FAULTS": "--faults",
    "MINIBROKER_LOG_FORMAT": "--log-format",
    "MINIBROKER_SEED_DATA": "--seed-data",
}
_TOPICS = "MINIBROKER_TOPICS"

# Read by Kafka's start scripts, the JVM or log4j; none of them is a broker config.
_NOT_CONFIGS = re.compile(r"KAFKA_(VERSION|HOME|DEBUG|(\w+_)?OPTS|JMX_\w+|LOG4J_\w+|TOOLS_LOG4J_\w+)")
# What Kubernetes and container links set for a service that happens to be called kafka or minibroker.
_SERVICE_LINKS = re.compile(r"(KAFKA|MINIBROKER)_(SERVICE_HOST|SERVICE_PORT|PORT)(_\w+)?")
# These become options of their own.
_CONSUMED = ("advertised.listeners", "listeners", "log.dir", "log.dirs")

_HEALTH_TIMEOUT = 2.0
_API_VERSIONS = 18
_CORRELATION_ID = 0x68656C70


def broker_configs(environment: Mapping[str, str]) -> dict[str, str]:
    """Collect the KAFKA_ variables that are broker configs, under Kafka's own names."""
    return {
        _config_name(name): value
        for name, value in sorted(environment.items())
        if name.startswith("KAFKA_") and not _NOT_CONFIGS.fullmatch(name) and not _SERVICE_LINKS.fullmatch(name)
    }


def _config_name(variable: str) -> str:
    name = variable.removeprefix("KAFKA_").removeprefix("CFG_").lower()
    return name.replace("_", ".").replace("...", "-").replace("..", "_")


def listener_list(configs: Mapping[str, str]) -> str:
    """The list of listeners. Without one cp-kafka listens on the ports that are advertised, the others on 9092."""
    text = configs.get("listeners")
    if text:
        return text
    advertised = listeners.parse_listeners("KAFKA_ADVERTISED_LISTENERS", configs.get("advertised.listeners", ""))
    entries = [f"{each.name}://:{each.port}" for each in advertised]
    if not any(each.port == _DEFAULT_PORT for each in advertised):
        entries.append(_DEFAULT_LISTENERS)
    return ",".join(entries)


def client_listeners(configs: Mapping[str, str]) -> tuple[list[Listener], list[Listener]]:
    """Choose the listeners that are served, and tell the others; see `listeners.client_listeners`."""
    return listeners.client_listeners(configs, listener_list(configs), "KAFKA_LISTENERS")


def advertised_address(configs: Mapping[str, str], listener: Listener) -> str | None:
    """Find the HOST:PORT that clients of `listener` are told; None: what they dialled."""
    default = "" if configs.get("listeners") else _DEFAULT_ADVERTISED
    text = configs.get("advertised.listeners") or default
    return listeners.advertised_address(text, "KAFKA_ADVERTISED_LISTENERS", listener)


def config_file(environment: Mapping[str, str]) -> str | None:
    """Name the server.properties to read, if there is one."""
    return environment.get("MINIBROKER_CONFIG") or (MOUNTED_CONFIG if os.path.exists(MOUNTED_CONFIG) else None)


def effective_configs(environment: Mapping[str, str]) -> dict[str, str]:
    """Merge what the server.properties says with the variables, which win. Raises OSError if it cannot be read."""
    properties: dict[str, str] = {}
    path = config_file(environment)
    if path is not None:
        from minibroker.properties import parse_properties  # noqa: PLC0415 - most containers have no such file

        with open(path, encoding="utf-8") as file:
            properties = parse_properties(file.read())
    return properties | broker_configs(environment)


def serve_options(environment: Mapping[str, str]) -> list[str]:
    """Derive the options of `minibroker serve`.

    Raises ListenerError for a variable that cannot be honoured, OSError or ValueError for a file that cannot be read.
    """
    configs = effective_configs(environment)
    options = {option: environment[name] for name, option in _PLAIN_OPTIONS.items() if environment.get(name)}
    further: list[str] = []
    if "--listen" not in options:
        served, dropped = client_listeners(configs)
        for other in dropped:
            _warn(f"KAFKA_LISTENERS: {other.name} is not served: it does not speak PLAINTEXT")
        options["--listen"] = served[0].bind_address
        advertised = advertised_address(configs, served[0])
        if advertised is not None:
            options.setdefault("--advertise", advertised)
        if environment.get("MINIBROKER_BROKERS", "1") == "1":
            further = [listeners.further_listener(each, advertised_address(configs, each)) for each in served[1:]]
    log_dirs = configs.get("log.dirs") or configs.get("log.dir") or DATA_DIR
    options.setdefault("--data-dir", log_dirs.split(",")[0].strip())
    path = config_file(environment)
    if path is not None:
        options["--config"] = path
    arguments = [word for option in options.items() for word in option]
    for address in further:
        arguments += ["--also-listen", address]
    for topic in environment.get(_TOPICS, "").split():
        arguments += ["--topic", topic]
    settings = broker_configs(environment)
    if environment.get("CLUSTER_ID"):
        settings["minibroker.cluster.id"] = environment["CLUSTER_ID"]
    for key, value in settings.items():
        if key not in _CONSUMED:
            arguments += ["--set", f"{key}={value}"]
    return arguments


def container_command(environment: Mapping[str, str], arguments: Sequence[str]) -> list[str]:
    """Say what the container runs: the command in `arguments`, or the broker with them as further options."""
    if arguments and not arguments[0].startswith("-"):
        return list(arguments)
    for name in environment:
        if (
            name.startswith("MINIBROKER_")
            and name not in _PLAIN_OPTIONS
            and name not in {_TOPICS, "MINIBROKER_CONTROL_TOKEN"}
            and not _SERVICE_LINKS.fullmatch(name)
        ):
            _warn(f"{name} is not known and has no effect")
    return ["minibroker", "serve", *serve_options(environment), *arguments]


def check_health(environment: Mapping[str, str]) -> None:
    """Send ApiVersions v0 to the broker of `environment`. Raises OSError if no answer to it comes in time."""
    listen = environment.get("MINIBROKER_LISTEN") or client_listeners(effective_configs(environment))[0][0].bind_address
    host, _, port = listen.rpartition(":")
    address = ("127.0.0.1" if host in listeners.WILDCARDS else host.strip("[]"), int(port))
    header = struct.pack(">hhih", _API_VERSIONS, 0, _CORRELATION_ID, -1)
    with socket.create_connection(address, timeout=_HEALTH_TIMEOUT) as connection:
        connection.sendall(struct.pack(">i", len(header)) + header)
        with connection.makefile("rb") as answer:
            received = answer.read(10)
    expected = struct.pack(">ih", _CORRELATION_ID, 0)
    if received[4:] != expected:
        raise OSError(f"{address[0]}:{address[1]} did not answer ApiVersions: {received!r}")


def main(arguments: Sequence[str]) -> NoReturn:
    """Run the container's command in place of this process, or one of the two options that do something else."""
    try:
        if arguments == ["--check-health"]:
            check_health(os.environ)
            sys.exit(0)
        if arguments and arguments[0] == "--print-command":
            print(shlex.join(container_command(os.environ, arguments[1:])))
            sys.exit(0)
        command = container_command(os.environ, arguments)
        os.execvp(command[0], command)  # noqa: S606 - becoming the broker, so that signals reach it, is the purpose
    except (OSError, ValueError) as problem:
        _warn(str(problem))
        sys.exit(1)


def _warn(message: str) -> None:
    print(f"minibroker container: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
