"""The container's entry point: turns the environment of Kafka's images into `minibroker serve` and becomes it.

It understands that of apache/kafka and of confluentinc/cp-kafka, and the names of bitnami/kafka (KAFKA_CFG_...).

Variables are read as `kafka.docker.KafkaDockerWrapper` reads them: after KAFKA_ the name is lower-cased, `___` stands
for a dash, `__` for an underscore and `_` for a dot, so that KAFKA_LOG_SEGMENT_BYTES is `log.segment.bytes`. What the
JVM and its logging would have read is skipped. A file mounted as /mnt/shared/config/server.properties is read first.

All of KAFKA_LISTENERS are served, each with its own advertised address: PLAINTEXT comes first. Listeners of the KRaft
controller are dropped. Without the variable the broker listens on every port that is advertised, as cp-kafka does, and
on 9092, as the others do.

For TLS and SASL there are, beside Kafka's own keys, what the images have: KAFKA_SSL_KEYSTORE_FILENAME and its kind name
files in /etc/kafka/secrets and the files there that hold their passwords, and KAFKA_OPTS may name a JAAS file with
-Djava.security.auth.login.config, whose section KafkaServer is read. bitnami/kafka writes such a file itself, from
KAFKA_CLIENT_USERS, KAFKA_INTER_BROKER_USER and their passwords: these users may log in by PLAIN and SCRAM.

MINIBROKER_LISTEN, _ADVERTISE, _DATA_DIR, _CONFIG, _READY_FILE, _BROKERS, _CONTROL, _EMULATE, _FAULTS, _JOURNAL,
_LOG_FORMAT and _SEED_DATA are the options of the same names and go before their KAFKA_ twins;
MINIBROKER_CONTROL_TOKEN is read by the broker.
MINIBROKER_TOPICS is a list of --topic values with blanks between them. CLUSTER_ID is the id of the cluster that a new
data directory is given, as Kafka's images format it (bitnami/kafka: KAFKA_KRAFT_CLUSTER_ID); a directory of another
cluster is refused.

Arguments of the container that begin with a dash are further options of `minibroker serve`; a word is a command to run
instead. Passwords and login configurations are no arguments, which everybody on the host may read: the broker reads
them from a file in memory that it inherits. `--print-command` prints what would be run, without them. `--check-health`
asks the broker of the same environment for its API versions and exits with 0 if it answers.
"""

import os
import re
import shlex
import socket
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from minibroker.cluster import listeners
from minibroker.cluster.listeners import ServedListener

MOUNTED_CONFIG = "/mnt/shared/config/server.properties"
DATA_DIR = "/var/lib/minibroker"
SECRETS_DIR = "/etc/kafka/secrets"

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
    "MINIBROKER_EMULATE": "--emulate",
    "MINIBROKER_FAULTS": "--faults",
    "MINIBROKER_JOURNAL": "--journal",
    "MINIBROKER_LOG_FORMAT": "--log-format",
    "MINIBROKER_SEED_DATA": "--seed-data",
}
_TOPICS = "MINIBROKER_TOPICS"

# Read by Kafka's start scripts, the JVM or log4j, or by the scripts of bitnami/kafka; none of them is a broker config.
_NOT_CONFIGS = re.compile(
    r"KAFKA_(VERSION|HOME|DEBUG|(\w+_)?OPTS|JMX_\w+|LOG4J_\w+|TOOLS_LOG4J_\w+"
    r"|KRAFT_CLUSTER_ID|ENABLE_KRAFT|CLIENT_(USERS|PASSWORDS|SASL_MECHANISMS?|LISTENER_NAME)|(INTER_BROKER|CONTROLLER)_(USER|PASSWORD))"
)
_USERS = (
    ("KAFKA_CLIENT_USERS", "KAFKA_CLIENT_PASSWORDS"),
    ("KAFKA_INTER_BROKER_USER", "KAFKA_INTER_BROKER_PASSWORD"),
)
# What Kubernetes and container links set for a service that happens to be called kafka or minibroker.
_SERVICE_LINKS = re.compile(r"(KAFKA|MINIBROKER)_(SERVICE_HOST|SERVICE_PORT|PORT)(_\w+)?")
# Files of the images, and the keys that they stand for.
_SECRET_FILES = {
    "ssl.keystore.filename": "ssl.keystore.location",
    "ssl.keystore.credentials": "ssl.keystore.password",
    "ssl.key.credentials": "ssl.key.password",
    "ssl.truststore.filename": "ssl.truststore.location",
    "ssl.truststore.credentials": "ssl.truststore.password",
}
_SECRET = re.compile(r"(?i).*(password|secret|jaas\.config|keystore\.key|token\..*key)")
_HIDDEN = "[hidden]"
"""As Kafka shows passwords."""
_LOGIN_CONFIG = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")
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
    """The list of listeners. Without one cp-kafka listens on the ports that are advertised, the others on 9092.

    The latter comes beside the former; see `default_listener`.
    """
    text = configs.get("listeners")
    if text:
        return text
    advertised = listeners.parse_listeners("KAFKA_ADVERTISED_LISTENERS", configs.get("advertised.listeners", ""))
    return ",".join(f"{each.name}://:{each.port}" for each in advertised) or _DEFAULT_LISTENERS


def default_listener(configs: Mapping[str, str], served: Sequence[ServedListener]) -> ServedListener | None:
    """Port 9092, unless there is a list of listeners or the port is among those that are advertised."""
    if configs.get("listeners") or any(each.port == _DEFAULT_PORT for each in served):
        return None
    plain = next((each for each in served if each.name == listeners.PLAINTEXT), None)
    return ServedListener("", listeners.PLAINTEXT, "0.0.0.0", _DEFAULT_PORT, plain and plain.advertised)  # noqa: S104 - as the images do


def advertised_list(configs: Mapping[str, str]) -> str:
    """The list of what clients are told."""
    return configs.get("advertised.listeners") or ("" if configs.get("listeners") else _DEFAULT_ADVERTISED)


def client_listeners(configs: Mapping[str, str]) -> list[ServedListener]:
    """Choose the listeners that are served; see `listeners.served_listeners`."""
    with_advertised = {**configs, "advertised.listeners": advertised_list(configs)}
    return listeners.served_listeners(with_advertised, listener_list(configs), "KAFKA_LISTENERS")


def security_configs(environment: Mapping[str, str], configs: Mapping[str, str]) -> dict[str, str]:
    """What the images' own variables for TLS and SASL say, under Kafka's names. Raises OSError and ValueError."""
    found: dict[str, str] = {}
    for variable, key in _SECRET_FILES.items():
        name = configs.get(variable)
        if name and not configs.get(key):
            path = os.path.join(SECRETS_DIR, name)
            found[key] = path if key.endswith(".location") else _first_line(path)
    match = _LOGIN_CONFIG.search(environment.get("KAFKA_OPTS", ""))
    users = _users(environment)
    if users or match is not None:
        from minibroker.security.sasl.jaas import server_logins, user_logins  # noqa: PLC0415 - most containers have neither

        if users:
            found |= user_logins(users)
        if match is not None and not (users and not os.path.exists(match[1])):
            with open(match[1], encoding="utf-8") as file:
                found |= server_logins(file.read())
    return {key: value for key, value in found.items() if key not in configs}


def _users(environment: Mapping[str, str]) -> dict[str, str]:
    """The users of bitnami/kafka with their passwords. Raises ValueError where there are not as many of both."""
    found: dict[str, str] = {}
    for variables in _USERS:
        users, secrets = ([each.strip() for each in environment.get(name, "").split(",")] for name in variables)
        if len(users) != len(secrets):
            raise ValueError(f"{variables[0]} names {len(users)} but {variables[1]} has {len(secrets)}")
        found |= {user: secret for user, secret in zip(users, secrets, strict=True) if user}
    return found


def _first_line(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.readline().strip()


def config_file(environment: Mapping[str, str]) -> str | None:
    """Name the server.properties to read, if there is one."""
    return environment.get("MINIBROKER_CONFIG") or (MOUNTED_CONFIG if os.path.exists(MOUNTED_CONFIG) else None)


def effective_configs(environment: Mapping[str, str]) -> dict[str, str]:
    """Merge what the server.properties says with the variables, which win. Raises OSError if it cannot be read."""
    properties: dict[str, str] = {}
    path = config_file(environment)
    if path is not None:
        from minibroker.support.properties import parse_properties  # noqa: PLC0415 - most containers have no such file

        with open(path, encoding="utf-8") as file:
            properties = parse_properties(file.read())
    return properties | broker_configs(environment)


def serve_options(environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Derive the options of `minibroker serve`, and the settings that must not be among them.

    Raises ListenerError for a variable that cannot be honoured, OSError or ValueError for a file that cannot be read.
    """
    configs = effective_configs(environment)
    options = {option: environment[name] for name, option in _PLAIN_OPTIONS.items() if environment.get(name)}
    further: list[str] = []
    settings = {**broker_configs(environment), **security_configs(environment, configs)}
    for key in (*_CONSUMED, *_SECRET_FILES):
        settings.pop(key, None)
    if "--listen" not in options:
        served = client_listeners(configs)
        default = default_listener(configs, served)
        if all(each.protocol == listeners.PLAINTEXT for each in served):
            first, *others = served
            others += [default] if default is not None else []
            options["--listen"] = _address((first.host, first.port))
            if first.advertised is not None:
                options.setdefault("--advertise", _address(first.advertised))
            for each in others:
                suffix = "" if each.advertised is None else f"={_address(each.advertised)}"
                further.append(_address((each.host, each.port)) + suffix)
        else:
            settings["listeners"] = listener_list(configs)
            settings["advertised.listeners"] = advertised_list(configs)
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
    cluster_id = environment.get("CLUSTER_ID") or environment.get("KAFKA_KRAFT_CLUSTER_ID")
    if cluster_id:
        settings["minibroker.cluster.id"] = cluster_id
    for key, value in settings.items():
        if not _SECRET.fullmatch(key):
            arguments += ["--set", f"{key}={value}"]
    return arguments, {key: value for key, value in settings.items() if _SECRET.fullmatch(key)}


def _address(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def container_command(
    environment: Mapping[str, str], arguments: Sequence[str], pass_on: Callable[[Mapping[str, str]], list[str]]
) -> list[str]:
    """Say what the container runs: the command in `arguments`, or the broker with them as further options.

    `pass_on` makes options of the settings that are secret.
    """
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
    options, secrets = serve_options(environment)
    return ["minibroker", "serve", *options, *(pass_on(secrets) if secrets else ()), *arguments]


def hidden(secrets: Mapping[str, str]) -> list[str]:
    """Name the secret settings, without their values."""
    return [word for key in secrets for word in ("--set", f"{key}={_HIDDEN}")]


def inherited(secrets: Mapping[str, str]) -> list[str]:
    """Put the secret settings into a file in memory, which this process hands on to the broker. Raises OSError."""
    from minibroker.support.properties import format_properties  # noqa: PLC0415 - most containers have no secrets

    fd = os.memfd_create("minibroker-secrets", 0)
    with open(fd, "w", encoding="utf-8", closefd=False) as file:
        file.write(format_properties(secrets))
    return ["--config", f"/proc/self/fd/{fd}"]


def check_health(environment: Mapping[str, str]) -> None:
    """Send ApiVersions v0 to the broker of `environment`. Raises OSError if no answer to it comes in time."""
    listen = environment.get("MINIBROKER_LISTEN")
    has_tls = False
    if not listen:
        first = client_listeners(effective_configs(environment))[0]
        listen, has_tls = _address((first.host, first.port)), first.protocol.endswith("SSL")
    host, _, port = listen.rpartition(":")
    address = ("127.0.0.1" if host in listeners.WILDCARDS else host.strip("[]"), int(port))
    with socket.create_connection(address, timeout=_HEALTH_TIMEOUT) as connection:
        if has_tls:
            _check_tls(connection)
        else:
            _check_answer(connection, address)


def _check_tls(connection: socket.socket) -> None:
    """Shake hands. A client without a certificate may get no further, and what it is told then is an answer, too."""
    import ssl  # noqa: PLC0415 - most containers speak plaintext

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        context.wrap_socket(connection).close()
    except ssl.SSLError as error:
        if "CERTIFICATE" not in (error.reason or ""):
            raise


def _check_answer(connection: socket.socket, address: tuple[str, int]) -> None:
    header = struct.pack(">hhih", _API_VERSIONS, 0, _CORRELATION_ID, -1)
    connection.sendall(struct.pack(">i", len(header)) + header)
    with connection.makefile("rb") as response:
        received = response.read(10)
    expected = struct.pack(">ih", _CORRELATION_ID, 0)
    if received[4:] != expected:
        raise OSError(f"{address[0]}:{address[1]} did not answer ApiVersions: {received!r}")


def become(command: list[str]) -> NoReturn:
    """Run a command in place of this process. OSError that names it."""
    try:
        os.execvp(command[0], command)  # noqa: S606 - becoming the broker, so that signals reach it, is the purpose
    except FileNotFoundError:
        raise OSError(
            f"{command[0]}: there is no such command. Options of `minibroker serve` begin with a dash, and other "
            "commands are named in full, such as `minibroker dump`"
        ) from None


def main(arguments: Sequence[str]) -> NoReturn:
    """Run the container's command in place of this process, or one of the two options that do something else."""
    try:
        if arguments == ["--check-health"]:
            check_health(os.environ)
            sys.exit(0)
        if arguments and arguments[0] == "--print-command":
            print(shlex.join(container_command(os.environ, arguments[1:], hidden)))
            sys.exit(0)
        become(container_command(os.environ, arguments, inherited))
    except (OSError, ValueError) as problem:
        _warn(str(problem))
        sys.exit(1)


def _warn(message: str) -> None:
    print(f"minibroker container: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
