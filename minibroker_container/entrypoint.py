"""The container's entry point. It turns the environment of Kafka's images into a `minibroker serve` command.

It supports the variables of apache/kafka and confluentinc/cp-kafka, and the names used by bitnami/kafka
(KAFKA_CFG_...), wurstmeister/kafka, debezium/kafka and fast-data-dev; see `minibroker_container.vendors`.

Variables are parsed as in `kafka.docker.KafkaDockerWrapper`: the name after KAFKA_ becomes lowercase, `___`
stands for a dash, `__` for an underscore and `_` for a dot, so KAFKA_LOG_SEGMENT_BYTES is `log.segment.bytes`.
Variables for the JVM and its logging are ignored. A file mounted as /mnt/shared/config/server.properties is
read first, and variables override it.

All listeners in KAFKA_LISTENERS are served, each with its own advertised address, and PLAINTEXT comes first.
The ports of the KRaft controller and of JMX accept connections but send nothing. KAFKA_PROCESS_ROLES=controller
leaves only those ports. Without KAFKA_LISTENERS, the broker listens on every advertised port, like cp-kafka,
and on 9092, like the other images.

For TLS and SASL, the images have further variables. KAFKA_SSL_KEYSTORE_FILENAME and similar variables name
files in /etc/kafka/secrets, including files with passwords. KAFKA_OPTS can name a JAAS file with
-Djava.security.auth.login.config. The section KafkaServer of that file is used. bitnami/kafka writes such a
file itself, from KAFKA_CLIENT_USERS, KAFKA_INTER_BROKER_USER and their passwords; these users can log in with
PLAIN and SCRAM.

MINIBROKER_LISTEN, _ADVERTISE, _DATA_DIR, _CONFIG, _READY_FILE, _BROKERS, _CHAOS, _CONTROL, _EMULATE, _FAULTS, _JOURNAL,
_LOG_FORMAT and _SEED_DATA are the options of the same names, and override their KAFKA_ counterparts. MINIBROKER_LAB is
the port, or HOST:PORT, of the lab, and MINIBROKER_REGISTRY that of the schema registry: 8081 without it, and none if it
is empty. The broker itself reads MINIBROKER_CONTROL_TOKEN. MINIBROKER_TOPICS is a list of --topic values separated by
spaces. CLUSTER_ID is the cluster id for a new data directory, in the format of Kafka's images (bitnami/kafka:
KAFKA_KRAFT_CLUSTER_ID). A data directory with another cluster id is refused.

With the variables of a schema registry's image, the container is one; see `minibroker_container.schema_registry`. With
those of ZooKeeper's images alone, it is a ZooKeeper. Without any variables it is a broker and a ZooKeeper.

Container arguments that begin with a dash are further options of `minibroker serve`. Other arguments are a
command to run instead. Passwords and login configurations are not passed as arguments, because every user of
the host can read arguments. The broker reads these secrets from an in-memory file that it inherits.
`--print-command` prints the command without them.
"""

import os
import pathlib
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from minibroker.cli import container_variables as variables
from minibroker.cluster import listeners
from minibroker.cluster.listeners import ServedListener
from minibroker_container import files, lists, vendors
from minibroker_protocol.lazy_imports import lazy

with lazy:
    import secrets

    from minibroker.config import addresses
    from minibroker.config import properties as properties_files
    from minibroker.security.sasl import jaas
    from minibroker_container import health, ports, redpanda, schema_registry

MOUNTED_CONFIG = "/mnt/shared/config/server.properties"
BITNAMI_CONFIGS = (
    "/bitnami/kafka/config/server.properties",
    "/bitnami/kafka/config/kraft/server.properties",
    "/opt/bitnami/kafka/config/server.properties",
    "/opt/bitnami/kafka/config/kraft/server.properties",
)
"""The paths of the user's file in bitnami/kafka, before and since release 4.0, on its volume and in the image."""
DATA_DIR = "/var/lib/minibroker"
SECRETS_DIR = "/etc/kafka/secrets"

_TOPICS = "MINIBROKER_TOPICS"
_MEET = "MINIBROKER_MEET"
_ADMIN_API = "MINIBROKER_ADMIN_API"
_LOG_LINES = "MINIBROKER_LOG_LINES"
_TOKEN = "MINIBROKER_CONTROL_TOKEN"  # noqa: S105 - the name of a variable

# Variables for Kafka's start scripts, the JVM, log4j, and the scripts of bitnami/kafka. None is a broker config.
_NOT_CONFIGS = re.compile(
    r"KAFKA_(VERSION|HOME|DEBUG|(\w+_)?OPTS|JMX_\w+|LOG4J_\w+|TOOLS_LOG4J_\w+"
    r"|(KRAFT_)?CLUSTER_ID|ENABLE_KRAFT|KRAFT_MODE|CLIENT_(USERS|PASSWORDS|SASL_MECHANISMS?|LISTENER_NAME)"
    r"|(INTER_BROKER|CONTROLLER)_(USER|PASSWORD)|CREATE_TOPICS(_SEPARATOR)?|ZOOKEEPER_(PROTOCOL|USER|PASSWORD|TLS_\w+)"
    r"|EXTRA_FLAGS|INITIAL_CONTROLLERS|SKIP_KRAFT_STORAGE_INIT|(BASE|VOLUME|CONF|MOUNTED_CONF)_DIR|(KAFKA_)*REST_\w+)"
)
_USERS = (("KAFKA_CLIENT_USERS", "KAFKA_CLIENT_PASSWORDS"), ("KAFKA_INTER_BROKER_USER", "KAFKA_INTER_BROKER_PASSWORD"))
_MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
"""The mechanisms of bitnami/kafka, unless a variable names others."""
# Variables that Kubernetes and container links set for a service named kafka or minibroker.
_SERVICE_LINKS = re.compile(r"(KAFKA|MINIBROKER)_(SERVICE_HOST|SERVICE_PORT|PORT)(_\w+)?")
_REDPANDA_START = re.compile(r"((rpk\s+)?redpanda\s+)?start(?=\s|$)")
_ZOOKEEPER = "zookeeper-server-start"
_RPK_COMMANDS = ("acl", "cluster", "group", "profile", "security", "topic")
_HIDDEN = "[hidden]"
"""The text that Kafka shows in place of passwords."""
# These configs are passed as separate command-line options, so they are not passed on as configs.
_OPTION_CONFIGS = ("advertised.listeners", "listeners", "log.dir", "log.dirs")


def broker_configs(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the KAFKA_ variables that are broker configs, under Kafka's own names."""
    return {
        variables.config_name(name): value
        for name, value in sorted(environment.items())
        if name.startswith("KAFKA_") and not _NOT_CONFIGS.fullmatch(name) and not _SERVICE_LINKS.fullmatch(name)
    }


def security_configs(environment: Mapping[str, str], configs: Mapping[str, str]) -> dict[str, str]:
    """Return the settings from the images' own variables for TLS and SASL, under Kafka's names.

    Raises:
        OSError: a file cannot be read.
        ValueError: a variable or a file is invalid.
    """
    security: dict[str, str] = {}
    for variable, key in variables.IMAGE_FILES.items():
        name = configs.get(variable)
        if name and not configs.get(key):
            path = os.path.join(SECRETS_DIR, name)
            security[key] = path if key.endswith(".location") else _first_line(variables.variable_of(variable), path)
    java_options = environment.get("KAFKA_OPTS", "")
    users = _read_users(environment)
    if users:
        security |= jaas.user_logins(users) | {"sasl.enabled.mechanisms": _MECHANISMS}
    login_config = jaas.login_config_of(java_options) if java_options else None
    if login_config is not None and (not users or os.path.exists(login_config)):
        with files.open_named_file("KAFKA_OPTS", login_config) as file:
            security |= jaas.server_logins(file.read())
    return {key: value for key, value in security.items() if key not in configs}


def _read_users(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the users of bitnami/kafka with their passwords.

    Raises:
        ValueError: the numbers of users and passwords differ.
    """
    passwords: dict[str, str] = {}
    for pair in _USERS:
        users, secrets = ([item.strip() for item in environment.get(name, "").split(",")] for name in pair)
        if len(users) != len(secrets):
            raise ValueError(
                f"{pair[0]} names {len(users)} but {pair[1]} has {len(secrets)}; give as many, with commas"
            )
        passwords |= {user: secret for user, secret in zip(users, secrets, strict=True) if user}
    return passwords


def _check_stores(environment: Mapping[str, str], configs: Mapping[str, str]) -> None:
    """Check that the key stores and trust stores of the listeners can be read.

    Raises:
        OSError: a store cannot be read. The message has its variable and its path.
    """
    if not any(listener.protocol.endswith("SSL") for listener in lists.client_listeners(configs)):
        return
    for config, key in variables.IMAGE_FILES.items():
        path = configs.get(key) or (configs.get(config) and os.path.join(SECRETS_DIR, configs[config]))
        if key.endswith(".location") and path:
            variable = next(filter(environment.__contains__, map(variables.variable_of, (key, config))), key)
            files.open_named_file(variable, path).close()


def _first_line(variable: str, path: str) -> str:
    with files.open_named_file(variable, path) as file:
        return file.readline().strip()


def config_file(environment: Mapping[str, str]) -> str | None:
    """Return the path of the server.properties to read, or None."""
    mounted = filter(os.path.exists, (MOUNTED_CONFIG, *BITNAMI_CONFIGS))
    return environment.get("MINIBROKER_CONFIG") or next(mounted, None)


def effective_configs(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the server.properties file, overridden by the variables.

    Raises:
        OSError: the file cannot be read.
    """
    properties: dict[str, str] = {}
    path = config_file(environment)
    if path is not None:
        with open(path, encoding="utf-8") as file:
            properties = properties_files.parse_properties(file.read())
    properties |= broker_configs(environment)
    for key in ("listeners", "advertised.listeners"):
        if key in properties:
            properties[key] = lists.clean_list(properties[key])
    return properties


def serve_options(environment: Mapping[str, str], places: Sequence[str] = ()) -> tuple[list[str], dict[str, str]]:
    """Return the options of `minibroker serve`, and the secret settings that must not be passed as options.

    Args:
        environment: the translated environment (see `vendors`).
        places: where the brokers of the cluster meet. The others need the names of the listeners.

    Raises:
        ListenerError: a variable is invalid.
        OSError: a file cannot be read.
        ValueError: a file is invalid.
    """
    configs = effective_configs(environment)
    options = {option: environment[name] for name, option in variables.OPTIONS.items() if environment.get(name)}
    for option in ("--page", "--registry"):
        if options.get(option, "").isdecimal():
            options[option] = f"0.0.0.0:{options[option]}"
    further: list[str] = []
    settings = {**broker_configs(environment), **security_configs(environment, configs)}
    for key in (*_OPTION_CONFIGS, *variables.IMAGE_FILES):
        settings.pop(key, None)
    if "--listen" not in options:
        served = _checked_listeners(configs)
        default = lists.default_listener(configs, served)
        if not places and all(listener.protocol == listeners.PLAINTEXT for listener in served):
            first, *other_listeners = served
            other_listeners += [default] if default is not None else []
            options["--listen"] = addresses.format_address((first.host, first.port))
            if first.advertised is not None:
                options.setdefault("--advertise", addresses.format_address(first.advertised))
            for listener in other_listeners:
                suffix = "" if listener.advertised is None else f"={addresses.format_address(listener.advertised)}"
                further += ["--also-listen", addresses.format_address((listener.host, listener.port)) + suffix]
        else:
            settings["listeners"] = lists.listener_list(configs)
            settings["advertised.listeners"] = lists.advertised_list(configs)
        served_ports = {listener.port for listener in (*served, default) if listener is not None}
        # At the controller's port, which is silent otherwise, the other brokers ask and join.
        linked = {listener.port for listener in lists.controller_listeners(configs)} if places else set[int]()
        for silent in lists.silent_addresses(environment, configs, served_ports):
            further += ["--link" if int(silent.rpartition(":")[2]) in linked else "--silent-port", silent]
    further += [word for place in places for word in ("--meet", place)]
    for port in environment.get(_ADMIN_API, "").split():
        further += ["--admin-api", port]
    options.setdefault("--data-dir", _find_data_dir(configs))
    path = config_file(environment)
    if path is not None:
        options["--config"] = path
    arguments = [word for option in options.items() for word in option] + further + _topic_options(environment)
    cluster_id = next(filter(None, map(environment.get, variables.CLUSTER_IDS)), None)
    if cluster_id:
        settings["minibroker.cluster.id"] = cluster_id
    secrets = {key: settings.pop(key) for key in list(settings) if variables.SECRET.fullmatch(key)}
    return [*arguments, *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))], secrets


def _find_data_dir(configs: Mapping[str, str]) -> str:
    """Return the first configured log directory.

    Without one, return a volume mounted at another image's data directory, or else this image's own directory.
    """
    log_dirs = configs.get("log.dirs") or configs.get("log.dir") or files.mounted_data_dir() or DATA_DIR
    return log_dirs.split(",")[0].strip()


def read_configure_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the images' `configure` script writes into a properties file.

    Raises:
        OSError: a file cannot be read.
        ValueError: a variable or a file is invalid.
    """
    translated = vendors.translate(environment, _warn)
    configs = {key: value for key, value in effective_configs(translated).items() if value}
    if configs.get("advertised.listeners") == "ignored":  # This is Confluent's idiom for a container of clients.
        return configs
    configs |= security_configs(translated, configs)
    if not _is_controller_only(configs):
        _checked_listeners(configs)
        configs["listeners"] = lists.listener_list(configs)
        configs["advertised.listeners"] = lists.advertised_list(configs)
    configs["log.dirs"] = _find_data_dir(configs)
    configs.setdefault("node.id", lists.node_of(configs))
    return {key: value for key, value in configs.items() if key not in variables.IMAGE_FILES and value}


def _checked_listeners(configs: Mapping[str, str]) -> list[ServedListener]:
    served = lists.client_listeners(configs)
    if configs.get("listeners"):
        lists.check_ports(configs)
        lists.check_advertised(configs)
    return served


def _topic_options(environment: Mapping[str, str]) -> list[str]:
    """Return options for the topics of MINIBROKER_TOPICS and KAFKA_CREATE_TOPICS.

    If a topic is named twice, the first entry is used.
    """
    topics: dict[str, str] = {}
    for topic in (*environment.get(_TOPICS, "").split(), *lists.topics_to_create(environment)):
        topics.setdefault(topic.partition(":")[0], topic)
    return [word for topic in topics.values() for word in ("--topic", topic)]


def _find_command(environment: Mapping[str, str], arguments: Sequence[str]) -> list[str] | None:
    """Return the command to run before or instead of the broker, or None to start the broker."""
    if arguments and not arguments[0].startswith("-"):
        # The ubuntu/kafka image accepts a properties file as the command.
        start = ["kafka-server-start"] if arguments[0].endswith(".properties") else []
        # A list in a Compose file begins with one of these commands, perhaps with options in the same item.
        if (match := _REDPANDA_START.match(arguments[0])) is not None:
            return ["redpanda", "start", *filter(None, [arguments[0][match.end() :].strip()]), *arguments[1:]]
        # The entry point of Redpanda's image is rpk.
        return ["rpk", *arguments] if arguments[0] in _RPK_COMMANDS else [*start, *arguments]
    port = None if arguments or broker_configs(environment) else vendors.zookeeper_port(environment)
    if port is not None:
        return [_ZOOKEEPER, port, "/var/lib/zookeeper"]
    return ["start-kafka.sh", *arguments] if environment.get("CUSTOM_INIT_SCRIPT") else None


def container_command(
    environment: Mapping[str, str],
    arguments: Sequence[str],
    pass_on: Callable[[Mapping[str, str]], list[str]],
    *,
    checks_files: bool = False,
) -> list[str]:
    """Return the command that the container runs: the one in `arguments`, or the broker with further options.

    Args:
        environment: the container's environment.
        arguments: the container's arguments.
        pass_on: turns the secret settings into options.
        checks_files: whether to check that key stores can be read.

    Raises:
        OSError: a file cannot be read. For a key store, the message has its variable and its path.
        ValueError: a variable or a file is invalid.
    """
    if schema_registry.is_meant(environment, arguments):
        options, secrets = schema_registry.registry_options(environment, _warn)
        return ["minibroker", "registry", *options, *(pass_on(secrets) if secrets else ())]
    if (command := _find_command(environment, arguments)) is not None:
        return command
    translated = vendors.translate(environment, _warn)
    configs = effective_configs(translated)
    vendors.warn_unused(environment, configs, _warn)
    if _is_controller_only(configs) and not translated.get("MINIBROKER_LISTEN"):
        silent = lists.silent_addresses(translated, configs)
        return [sys.executable, os.path.abspath(sys.argv[0]), lists.HOLD_PORTS, lists.node_of(configs), *silent]
    overrides = {"MINIBROKER_LISTEN", "MINIBROKER_BROKERS"} & {name for name, value in translated.items() if value}
    places = [] if overrides else translated.get(_MEET, "").split() or lists.meeting_places(configs)
    if checks_files and not translated.get("MINIBROKER_LISTEN"):
        _check_stores(translated, configs)
    options, secrets = serve_options(translated, places)
    if not (arguments or configs or any(environment[name] for name in environment if name.startswith("MINIBROKER_"))):
        # ZooKeeper's images also start without variables, so this container may stand for one.
        options += ["--zookeeper", "0.0.0.0:2181"]
    return ["minibroker", "serve", *options, *(pass_on(secrets) if secrets else ()), *arguments]


def _is_controller_only(configs: Mapping[str, str]) -> bool:
    return configs.get("process.roles", "").strip() == "controller"


def hide_secrets(secrets: Mapping[str, str]) -> list[str]:
    """Return the options that set the secret settings, with a placeholder in place of each value."""
    return [word for key in secrets for word in ("--set", f"{key}={_HIDDEN}")]


def write_secrets(secrets: Mapping[str, str]) -> list[str]:
    """Write the secret settings to a file in memory that the broker inherits. Return its option.

    Raises:
        OSError: the file cannot be written.
    """
    fd = os.memfd_create("minibroker-secrets", 0)
    with open(fd, "w", encoding="utf-8", closefd=False) as file:
        file.write(properties_files.format_properties(secrets))
    return ["--config", f"/proc/self/fd/{fd}"]


def append_kafka_class(command: list[str]) -> list[str]:
    """Add Kafka's class name to the broker's command line, for health checks such as `pgrep -f kafka.Kafka`.

    Python ignores unknown -X options.
    """
    program = os.path.join(os.path.dirname(sys.executable), "minibroker")
    if command[0] != "minibroker" or not os.access(program, os.X_OK):
        return command
    return [sys.executable, "-Xkafka.Kafka", program, *command[1:]]


def exec_command(command: list[str]) -> NoReturn:
    """Replace this process with a command.

    Raises:
        OSError: the command does not exist.
    """
    command = append_kafka_class(command)
    try:
        os.execvp(command[0], command)  # noqa: S606 - becoming the broker, so that signals reach it, is the purpose
    except FileNotFoundError:
        raise OSError(
            f"{command[0]}: there is no such command. Options of `minibroker serve` begin with a dash, and other "
            "commands are named in full, such as `minibroker dump`"
        ) from None


def _start(arguments: Sequence[str]) -> NoReturn:
    if not arguments or arguments[0].startswith("-"):
        health.report("waiting: the broker starts\n")
    command = container_command(os.environ, arguments, write_secrets, checks_files=True)
    if command[0] in {"minibroker", sys.executable}:  # Another command may be `redpanda start`, whose lines differ.
        os.environ.setdefault(_LOG_LINES, "kafka")
    if command[0] == _ZOOKEEPER and not arguments:
        health.report_ports([("", f"127.0.0.1:{command[1]}")])
    if command[:2] == ["minibroker", "serve"]:
        files.run_init_scripts()
        _prepare_lab(command)
    exec_command(command)


def _prepare_lab(command: Sequence[str]) -> None:
    """Make a token for the lab, unless there is one, and print the lab's address."""
    if "--page" not in command or "--control-token" in command:
        return
    token = os.environ.get(_TOKEN) or secrets.token_urlsafe()
    shown = f"the value of {_TOKEN}" if os.environ.get(_TOKEN) else token
    os.environ[_TOKEN] = token
    _, port = addresses.parse_address(command[command.index("--page") + 1], "MINIBROKER_LAB")
    of_cluster = ", if this broker holds the logs" if "--meet" in command else ""
    _warn(f"the lab is at http://localhost:{port}/?token={shown} once port {port} is published{of_cluster}")


def main(arguments: Sequence[str]) -> NoReturn:
    """Replace this process with the container's command, or handle one of the options of the entry point itself."""
    try:
        match arguments:
            case ["--print-command", *others]:
                sys.stdout.write(shlex.join(container_command(os.environ, others, hide_secrets)) + "\n")
            case [lists.HOLD_PORTS, node, *addresses_to_hold]:
                ports.hold_ports(node, addresses_to_hold)
            case ["--write-properties", path]:
                files.write_properties(path, read_configure_settings(os.environ))
            case ["--link-tools", *directories]:
                files.link_tools(directories)
                files.link_releases(pathlib.Path("/opt"))
            case ["--redpanda", *options]:
                translated = redpanda.environment(options, os.environ, _warn)
                os.environ.clear()
                os.environ.update(translated)
                _start(())
            case _:
                _start(arguments)
        sys.exit(0)
    except (OSError, ValueError) as problem:
        _warn(variables.add_variable(_describe_problem(problem)))
        sys.exit(1)


def _describe_problem(problem: OSError | ValueError) -> str:
    if isinstance(problem, OSError) and problem.filename:
        return f"{problem.filename}: {problem.strerror}"
    return str(problem)


def _warn(message: str) -> None:
    sys.stderr.write(f"minibroker container: {message}\n")
