"""Parses lists from environment variables: listeners, topics to create, and silent ports."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from minibroker.cluster import listeners
from minibroker.cluster.listeners import Listener, ListenerError, ServedListener

HOLD_PORTS: Final = "--hold-ports"
"""The entry point's option for a container with only a controller. A node id and addresses follow."""
_SEVERAL_HOSTS: Final = re.compile(r"(?P<name>[^:/]+)://\s*(?P<host>[^\s,]+)\s[^:]*:\s*(?P<port>\d+)", re.ASCII)
_SEPARATOR: Final = "KAFKA_CREATE_TOPICS_SEPARATOR"
_JMX_OPTION: Final = re.compile(r"-Dcom\.sun\.management\.jmxremote\.(?:rmi\.)?port=(\d{1,5})\b", re.ASCII)
_PORT: Final = re.compile(r"[1-9]\d{0,4}", re.ASCII)
_ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104 - as the images do
_TOPIC_PARTS: Final = 4
_VOTER: Final = re.compile(r"\s*(\d+)@([^:/\s]+):(\d+)\s*", re.ASCII)

# These are the defaults of the apache/kafka image. Without any variable, only clients on the machine that publishes the
# port can connect.
_DEFAULT_LISTENERS: Final = "PLAINTEXT://:9092"
_DEFAULT_PORT: Final = 9092
_DEFAULT_ADVERTISED: Final = "PLAINTEXT://localhost:9092"


def clean_list(text: str) -> str:
    """Remove empty entries, and the further addresses that `hostname -i` adds to an entry."""
    entries = [entry for entry in map(str.strip, text.split(",")) if entry]
    return ",".join(_SEVERAL_HOSTS.sub(r"\g<name>://\g<host>:\g<port>", entry) for entry in entries)


def listener_list(configs: Mapping[str, str]) -> str:
    """Return the list of listeners.

    Without KAFKA_LISTENERS, cp-kafka listens on the advertised ports, and other images on 9092. Here both are served;
    see `default_listener`.
    """
    text = configs.get("listeners")
    if text:
        return text
    advertised = listeners.parse_listeners("KAFKA_ADVERTISED_LISTENERS", configs.get("advertised.listeners", ""))
    return ",".join(f"{listener.name}://:{listener.port}" for listener in advertised) or _DEFAULT_LISTENERS


def default_listener(configs: Mapping[str, str], served: Sequence[ServedListener]) -> ServedListener | None:
    """Return a listener on port 9092, or None if KAFKA_LISTENERS is set or the port is already advertised."""
    if configs.get("listeners") or any(listener.port == _DEFAULT_PORT for listener in served):
        return None
    plaintext = next((listener for listener in served if listener.name == listeners.PLAINTEXT), None)
    return ServedListener("", listeners.PLAINTEXT, _ALL_ADDRESSES, _DEFAULT_PORT, plaintext and plaintext.advertised)


def advertised_list(configs: Mapping[str, str]) -> str:
    """Return the list of advertised listeners."""
    return configs.get("advertised.listeners") or ("" if configs.get("listeners") else _DEFAULT_ADVERTISED)


def client_listeners(configs: Mapping[str, str]) -> list[ServedListener]:
    """Return the listeners to serve; see `listeners.served_listeners`."""
    with_advertised = {**configs, "advertised.listeners": advertised_list(configs)}
    return listeners.served_listeners(with_advertised, listener_list(configs), "KAFKA_LISTENERS")


def _parsed_listeners(configs: Mapping[str, str]) -> list[Listener]:
    return listeners.parse_listeners("KAFKA_LISTENERS", listener_list(configs))


def check_advertised(configs: Mapping[str, str]) -> None:
    """Check that each advertised listener is in the list of listeners and is advertised only once, as in `KafkaConfig`.

    Raises:
        ListenerError: an advertised listener is not in the list, or is advertised twice.
    """
    names = {listener.name for listener in _parsed_listeners(configs)}
    source, advertised_names = "KAFKA_ADVERTISED_LISTENERS", set[str]()
    for listener in listeners.parse_listeners(source, configs.get("advertised.listeners", "")):
        entry = f"{listener.name}://{listener.host}:{listener.port}"
        if listener.name not in names:
            raise ListenerError(
                f"{source}: {entry} names a listener that KAFKA_LISTENERS={listener_list(configs)} does not have; "
                f"add {listener.name}://:{listener.port} there, or leave it out here"
            )
        if listener.name in advertised_names:
            raise ListenerError(f"{source}: {entry} is the second address of {listener.name}; a listener has one")
        advertised_names.add(listener.name)


def check_ports(configs: Mapping[str, str]) -> None:
    """Check that no two listeners have the same port, unless one is IPv4 and the other IPv6.

    Raises:
        ListenerError: two listeners have the same port.
    """
    entries: dict[tuple[int, bool], str] = {}
    for listener in _parsed_listeners(configs):
        entry, key = f"{listener.name}://{listener.host}:{listener.port}", (listener.port, ":" in listener.host)
        if listener.port and key in entries:
            raise ListenerError(
                f"KAFKA_LISTENERS: {entries[key]} and {entry} have one port; each listener must have a different port"
            )
        entries[key] = entry


def topics_to_create(environment: Mapping[str, str]) -> list[str]:
    """Convert KAFKA_CREATE_TOPICS, a list of name[:partitions[:replicas[:cleanup.policy]]], to values of --topic.

    Each character of the separator ends an entry, as with bash's IFS. Options of kafka-topics can follow a part,
    such as `--config=segment.ms=1000`.

    Raises:
        ValueError: an entry does not have this form.
    """
    text = environment.get("KAFKA_CREATE_TOPICS", "").strip().strip("\"'")
    separator = environment.get(_SEPARATOR, ",\n")
    topics: dict[str, str] = {}
    for entry in filter(None, map(str.strip, re.split(f"[{re.escape(separator)}]" if separator else "$", text))):
        (name, partitions, replicas, policy), configs = _topic_parts(entry)
        if policy:
            configs.insert(0, f"cleanup.policy={policy}")
        if int(replicas or 1) > 1:
            configs.append(f"replication.factor={replicas}")
        listed = f":{','.join(configs)}" if configs else ""
        topics.setdefault(name, f"{name}:{partitions or 1}{listed}")
    return list(topics.values())


def _topic_parts(entry: str) -> tuple[list[str], list[str]]:
    """Return the four parts of a topic, "" for missing ones, and the KEY=VALUE of its --config options."""
    values: list[str] = []
    configs: list[str] = []
    for part in entry.strip("\"'").split(":"):
        words = shlex.split(part.replace("--config ", "--config="))
        values.append(words.pop(0) if words and not words[0].startswith("-") else "")
        for word in words:
            option, _, config = word.partition("=")
            if option == "--config" and "=" in config:
                configs.append(config)
            elif word != "--if-not-exists":  # The image adds --if-not-exists to each topic.
                raise ValueError(f"KAFKA_CREATE_TOPICS: {entry!r}: {word} is not supported; --config=KEY=VALUE is")
    counts = values[1:3]
    if len(values) > _TOPIC_PARTS or not values[0] or not all(count.isdigit() for count in counts if count):
        raise ValueError(f"KAFKA_CREATE_TOPICS: {entry!r} is not NAME[:PARTITIONS[:REPLICAS[:CLEANUP.POLICY]]]")
    return [*values, *[""] * (_TOPIC_PARTS - len(values))], configs


def controller_listeners(configs: Mapping[str, str]) -> list[Listener]:
    """Return the listeners of the KRaft controller."""
    names = {name.strip().upper() for name in configs.get("controller.listener.names", "CONTROLLER").split(",")}
    return [listener for listener in _parsed_listeners(configs) if listener.name in names]


def silent_addresses(
    environment: Mapping[str, str], configs: Mapping[str, str], served: Iterable[int] = ()
) -> list[str]:
    """Return HOST:PORT of the KRaft controllers and of JMX. These ports only need to accept connections."""
    addresses = {
        listener.port: f"{_ALL_ADDRESSES if listener.host in listeners.WILDCARDS else listener.host}:{listener.port}"
        for listener in controller_listeners(configs)
        if listener.port
    }
    options = " ".join(environment.get(name, "") for name in ("KAFKA_JMX_OPTS", "KAFKA_OPTS"))
    ports = [environment.get("KAFKA_JMX_PORT", ""), environment.get("JMX_PORT", ""), *_JMX_OPTION.findall(options)]
    for port in map(str.strip, ports):
        if _PORT.fullmatch(port) and int(port) < 1 << 16:
            addresses.setdefault(int(port), f"{_ALL_ADDRESSES}:{port}")
    return [address for port, address in addresses.items() if port not in set(served)]


def node_of(configs: Mapping[str, str]) -> str:
    """Return the node id from `node.id` or `broker.id`."""
    return configs.get("node.id") or configs.get("broker.id", "1")


def meeting_places(configs: Mapping[str, str]) -> list[str]:
    """Return where the brokers of several containers meet, for --meet, or an empty list for a single broker.

    These are the controllers, as [ID@]HOST:PORT, in the order of their ids, or ZooKeeper.
    """
    roles = {role.strip() for role in configs.get("process.roles", "").split(",")}
    if "broker" not in roles:
        connect = configs.get("zookeeper.connect", "").strip()
        return [f"zookeeper://{connect}"] if connect else []
    entries = [entry for entry in configs.get("controller.quorum.voters", "").split(",") if entry.strip()]
    voters = {int(match[1]): f"{match[1]}@{match[2]}:{match[3]}" for match in map(_VOTER.fullmatch, entries) if match}
    places = [place for _, place in sorted(voters.items())]
    if not places:
        servers = configs.get("controller.quorum.bootstrap.servers", "").split(",")
        places = [server.strip() for server in servers if server.strip()]
    return [] if "controller" in roles and len(places) == 1 else places
