"""The broker's configuration, read from properties, and its defaults for topics."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from minibroker.config.key_tables import BROKER_KEYS, TOPIC_KEYS
from minibroker.config.keys import ConfigError, ConfigKey, ConfigType, ConfigValue, refused
from minibroker.config.releases import emulated, keys_of_release
from minibroker.config.values import ConfigEntry, ConfigSource, ConfigValues
from minibroker_protocol.java_text import parse_integer
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.config import names

# Broker keys for the same setting in different units, in order of precedence (`brokerConfigSynonyms`).
_SYNONYMS = {
    name: tuple(same for same, _ in key.synonyms)
    for key in TOPIC_KEYS.values()
    if len(key.synonyms) > 1
    for name, _ in key.synonyms
}

_MIB: Final = 1024 * 1024
_BROKER_ID_KEYS: Final = ("node.id", "broker.id")
_WAIT: Final = "replica.fetch.wait.max.ms"
_LAG: Final = "replica.lag.time.max.ms"
_SOCKET_TIMEOUT: Final = "replica.socket.timeout.ms"
_NO_DIRECTORY = "At least one log directory must be defined via log.dirs or log.dir."
LISTENER: Final = "listener.name."
"""The prefix of keys that apply to one listener."""
_CONFLUENT = "confluent."
"""The prefix of Confluent Server's keys. Kafka ignores them, too. They resemble Kafka's keys on purpose."""
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The only supported value of `replica.selector.class` (KIP-392)."""
ASSIGNORS: Final = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
    "uniform": "uniform",
    "range": "range",
}
"""The supported values of `group.consumer.assignors`, with their short names (KIP-848, KIP-1101)."""
STREAMS_ASSIGNORS: Final = {
    "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor": "sticky",
    "sticky": "sticky",
}
"""The supported values of `group.streams.assignors`, with their short names (KIP-1071)."""

_INT_BITS: Final = 31
_OVERRIDES: Final = "max.connections.per.ip.overrides"
_HOST: Final = r"[-%._:0-9a-zA-Z]*"
"""Kafka's pattern for a host (`Utils.validHostPattern`). The host need not exist."""

Rule = tuple[str, Callable[[Mapping[str, Any]], bool], str]
"""The key to report, the condition that the values must meet, and the error message."""


def _has_items(items: str) -> bool:
    return any(map(str.strip, items.split(",")))


def at_least(upper: str, lower: str) -> Rule:
    """Return the rule that `upper` is not less than `lower`."""
    return upper, lambda values: values[upper] >= values[lower], f"{upper} must be greater than or equals to {lower}"


def at_most(lower: str, upper: str) -> Rule:
    """Return the rule that `lower` is not greater than `upper`."""
    return lower, lambda values: values[lower] <= values[upper], f"{lower} must be less than or equals to {upper}"


def bounded(group: str, setting: str) -> tuple[Rule, ...]:
    """Return the rules that a group's default lies between the minimum and the maximum that groups may set."""
    minimum, maximum, default = f"{group}.min.{setting}", f"{group}.max.{setting}", f"{group}.{setting}"
    return at_least(maximum, minimum), at_least(default, minimum), at_most(default, maximum)


# Rules that involve several keys, besides the checks of each key in the table. The messages are those of
# `KafkaConfig.validateValues` and of the configuration classes that it calls.
_RULES: tuple[Rule, ...] = (
    ("broker.id", lambda v: v["node.id"] == v["broker.id"], "You must set `node.id` to the same value as `broker.id`."),
    ("log.dirs", lambda v: v["log.dirs"] is None or _has_items(v["log.dirs"]), _NO_DIRECTORY),
    ("log.dir", lambda v: v["log.dirs"] is not None or _has_items(v["log.dir"]), _NO_DIRECTORY),
    (
        "log.cleaner.dedupe.buffer.size",
        lambda v: v["log.cleaner.dedupe.buffer.size"] > _MIB * v["log.cleaner.threads"],
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    ),
    (
        "offsets.commit.required.acks",
        lambda v: -1 <= v["offsets.commit.required.acks"] <= v["offsets.topic.replication.factor"],
        (
            "offsets.commit.required.acks must be greater or equal to -1 and less or equal to "
            "offsets.topic.replication.factor"
        ),
    ),
    (
        "offsets.topic.compression.codec",
        lambda v: v["offsets.topic.compression.codec"] in range(5),
        "Unknown compression type id",
    ),
    (
        "queued.max.request.bytes",
        lambda v: not 0 < v["queued.max.request.bytes"] < v["socket.request.max.bytes"],
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    ),
    (
        "max.connections.per.ip",
        lambda v: v["max.connections.per.ip"] > 0 or v["max.connections.per.ip.overrides"],
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    ),
    (
        "connections.max.idle.ms",
        lambda v: not 0 <= v["connections.max.idle.ms"] <= v["connection.failed.authentication.delay.ms"],
        (
            "connection.failed.authentication.delay.ms should always be less than connections.max.idle.ms to prevent "
            "failed authentication responses from timing out"
        ),
    ),
    (
        "group.coordinator.rebalance.protocols",
        lambda v: "classic" in v["group.coordinator.rebalance.protocols"],
        "Disabling the 'classic' protocol is not supported.",
    ),
    *(
        rule
        for kind in ("consumer", "share", "streams")
        for setting in ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")
        for rule in bounded(f"group.{kind}", setting)
    ),
    at_most("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
    (
        _WAIT,
        lambda values: values[_WAIT] <= values[_SOCKET_TIMEOUT],
        f"{_SOCKET_TIMEOUT} should always be at least {_WAIT} to prevent unnecessary socket timeouts",
    ),
    (
        _WAIT,
        lambda values: values[_WAIT] <= values[_LAG],
        f"{_WAIT} should always be less than or equal to {_LAG} to prevent frequent changes in ISR",
    ),
    *bounded("group.share", "record.lock.duration.ms"),
    *bounded("group.share", "delivery.count.limit"),
    *bounded("group.share", "partition.max.record.locks"),
)


_REPLICATION_FACTORS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)


class RunTime(NamedTuple):
    """The dynamic configurations (KIP-226) of all brokers and of one broker. The latter takes precedence.

    Unknown keys are kept but have no effect.
    """

    cluster: Mapping[str, str]
    broker: Mapping[str, str]


_UNALTERED = RunTime({}, {})


class _Values(dict[str, ConfigValue]):
    """The values of a configuration. The default of an unset key is added on first use."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Mapping[str, ConfigKey]) -> None:
        super().__init__()
        self._keys = keys

    def __missing__(self, name: str) -> ConfigValue:
        value = self[name] = self._keys[name].default
        return value


_CLASS_KEY_SUFFIXES: Final = (".class", ".class.name", ".classes", ".reporters", ".interceptors")
_MISSING_FEATURES: Final = {
    "zookeeper.connect": "minibroker needs no ZooKeeper",
    "inter.broker.protocol.version": "brokers of one process speak no protocol; --emulate chooses a release",
    "remote.log.storage.system.enable": "there is no tiered storage, so records stay in the data directory",
}
"""Keys of features that minibroker does not have, with the reason that the warning gives."""


class BrokerConfig(ConfigValues):
    """The broker's configuration: static and dynamic settings, and Kafka's defaults for all other keys.

    Attributes:
        given: The text of each known key that was set statically.
        unknown: The text of each unknown key. Kafka logs a warning about such keys and ignores them.
        run_time: The dynamic configuration, which takes precedence over `given`.
        topic_defaults: The value of each topic key for topics that do not override it.
        topic_entries: `topic_defaults` as entries. Empty until the entries of a topic are first requested.
        release: The emulated release of Kafka, or None.
        topic_keys: The table of topic keys of the emulated release.
    """

    __slots__ = ("given", "release", "run_time", "topic_defaults", "topic_entries", "topic_keys", "unknown")

    def __init__(self, given: Mapping[str, str], unknown: Mapping[str, str], run_time: RunTime = _UNALTERED) -> None:
        self.release = emulated(given)
        keys = keys_of_release(self.release, "broker")
        self.topic_keys = keys_of_release(self.release, "topic")
        values = _Values(keys)
        for texts in (given, *run_time):
            values.update((name, keys[name].parse(text)) for name, text in texts.items() if _has_effect(keys, name))
        for name, holds, message in _RULES:
            if not holds(values):
                raise refused(name, values[name], message)
        read_overrides(str(values[_OVERRIDES]))
        super().__init__(keys, values)
        self.given = given
        self.unknown = unknown
        self.run_time = run_time
        self.topic_defaults = {name: _topic_default(key, values) for name, key in self.topic_keys.items()}
        self.topic_defaults.update(timestamp_limits(self.topic_defaults, self.topic_keys))
        self.topic_entries: list[ConfigEntry] = []

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "BrokerConfig":
        """Read Kafka's broker properties.

        If only one of `broker.id` and `node.id` is set, the other gets its value.

        Raises:
            ConfigError: A value is not allowed.
        """
        given: dict[str, str] = {}
        unknown: dict[str, str] = {}
        keys = keys_of_release(emulated(properties), "broker")
        for name, text in properties.items():
            is_of_listener = name.startswith(LISTENER)  # The table has no keys with a listener prefix.
            (unknown if is_of_listener or not _has_effect(keys, name) else given)[name] = text
        for name, other in (_BROKER_ID_KEYS, _BROKER_ID_KEYS[::-1]):
            if other in given:
                given.setdefault(name, given[other])
        return cls(given, unknown)

    def altered(self, run_time: RunTime, given: Mapping[str, str] | None = None) -> "BrokerConfig":
        """Return a copy with another dynamic configuration and, optionally, with changed static settings.

        Raises:
            ConfigError: A value is not allowed.
        """
        return BrokerConfig({**self.given, **(given or {})}, self.unknown, run_time)

    def adopt_values_of(self, other: "BrokerConfig") -> None:
        """Adopt the values of another configuration, so that every user of this object gets the new values."""
        for name in ("_values", *self.__slots__):
            setattr(self, name, getattr(other, name))

    def remarks(self) -> list[str]:
        """Return warnings about static settings that are unknown or have no effect."""
        warnings = [
            f"{name} is not known and has no effect{_hint_for(name)}"
            for name in self.unknown
            if not (_has_known_suffix(name) or name.startswith(_CONFLUENT))
        ]
        for name, supported, advice in (
            ("group.consumer.assignors", ASSIGNORS, "uniform and range can"),
            ("group.streams.assignors", STREAMS_ASSIGNORS, "sticky can"),
        ):
            unsupported = ", ".join(assignor for assignor in self.items(name) if assignor not in supported)
            if unsupported:
                warnings.append(f"{name}: {unsupported} cannot be run here; {advice}")
        selector = self.optional_text("replica.selector.class")
        if selector not in {None, "", RACK_AWARE_SELECTOR}:
            warnings.append(f"replica.selector.class: {selector} is a Java class, which cannot be run here")
        for name, text in self.given.items():
            key = self.keys[name]
            if key.honored or not text or self.value(name) == key.default:
                continue
            if key.type is ConfigType.CLASS or name.endswith(_CLASS_KEY_SUFFIXES):
                warnings.append(f"{name}: {text} is a Java class, which cannot be run here")
            elif name in _MISSING_FEATURES:
                warnings.append(f"{name}: {text} has no effect: {_MISSING_FEATURES[name]}")
        return warnings

    def remarks_on_replicas(self, brokers: int) -> list[str]:
        """Return warnings about replication factors greater than the number of brokers.

        A single broker gets no warning, because a configuration written for a cluster should work for it, too.
        """
        return [
            f"{name} is {factor}, but there are {brokers} brokers; topics get so many replicas"
            for name in _REPLICATION_FACTORS
            if name in self.given and 1 < brokers < (factor := self.integer(name))
        ]

    def entries(self) -> list[ConfigEntry]:
        """Return the whole configuration in the order of the table. Internal keys are included only if they are set."""
        return [
            self.entry(name)
            for name, key in self.keys.items()
            if key.is_known and (not key.is_internal or name in self.given)
        ]

    def knows(self, name: str) -> bool:
        """Return whether the broker, or the release that it emulates, has a key of this name."""
        return name in self.keys and self.keys[name].is_known

    def value_synonyms(self, name: str) -> list[ConfigEntry]:
        """Return the settings from which a value can come, in order of precedence, like `ConfigHelper.configSynonyms`.

        Dynamic settings come first, then static ones, then defaults. Like Kafka, this drops all settings before the
        first one of the key itself. If log.retention.hours is set and log.retention.ms is not, the latter has no
        synonyms at all.
        """
        names = _SYNONYMS.get(name, (name,))
        synonyms = [
            ConfigEntry(same, None if self.keys[same].type is ConfigType.PASSWORD else texts[same], source)
            for texts, source in (
                (self.run_time.broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
                (self.run_time.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
                (self.given, ConfigSource.STATIC_BROKER_CONFIG),
            )
            for same in names
            if same in texts
        ]
        synonyms += [
            ConfigEntry(same, key.text(key.default), ConfigSource.DEFAULT_CONFIG)
            for same in names
            if (key := self.keys[same]).default is not None
        ]
        first = next((position for position, synonym in enumerate(synonyms) if synonym.name == name), len(synonyms))
        return synonyms[first:]


def _has_effect(keys: Mapping[str, ConfigKey], name: str) -> bool:
    """Return whether a setting has an effect. `node.id` and `broker.id` both have one in every release."""
    return name in keys and (keys[name].is_known or name in _BROKER_ID_KEYS)


def _has_known_suffix(name: str) -> bool:
    """Return whether a key has the prefix of a listener, a SASL mechanism or both before a known key."""
    suffix = name
    if name.startswith(LISTENER):
        suffix = name.removeprefix(LISTENER).partition(".")[2]
    key = suffix.partition(".")[2]
    return (suffix != name and suffix in BROKER_KEYS) or (
        key.startswith(("sasl.", "connections.")) and key in BROKER_KEYS
    )


def _hint_for(name: str) -> str:
    """Return a hint about a topic key that is set on the broker, or about a misspelled broker key."""
    key = TOPIC_KEYS.get(name)
    if key is None:
        return names.suggestion(name, BROKER_KEYS)
    return f"; it is a topic's key, the broker's is {key.synonyms[0][0]}" if key.synonyms else ""


def timestamp_limits(values: Mapping[str, ConfigValue], keys: Mapping[str, ConfigKey]) -> dict[str, ConfigValue]:
    """Return the values of `message.timestamp.before.max.ms` and `.after.max.ms` that come from an older key.

    The older key, `message.timestamp.difference.max.ms`, counts in place of a key that has its default (KIP-937).
    Kafka 4 no longer has the older key.
    """
    if not keys["message.timestamp.difference.max.ms"].is_known:
        return {}
    return {
        name: values["message.timestamp.difference.max.ms"]
        for name in ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
        if values[name] == TOPIC_KEYS[name].default
    }


def _topic_default(key: ConfigKey, values: Mapping[str, ConfigValue]) -> ConfigValue:
    for name, scale in key.synonyms:
        value = values[name]
        if value is None:
            continue
        if type(value) is not int:
            return value
        return _check_time(key.name, name, value, value * scale)
    return key.default


def _check_time(topic_name: str, name: str, given: int, value: int) -> int:
    """Check a topic's time by Kafka's rules for milliseconds, and return it. `name` is the key to report."""
    if topic_name == "retention.ms":
        if value == 0:
            raise refused(name, given, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
        return max(value, -1)
    if topic_name == "segment.ms" and value < 1:
        raise refused(name, given, "log.roll.ms must be greater than or equal to 1")
    if topic_name == "segment.jitter.ms" and value < 0:
        raise refused(name, given, "log.roll.jitter.ms must be greater than or equal to 0")
    return value


def read_overrides(text: str) -> dict[str, int]:
    """Parse `max.connections.per.ip.overrides`, which has the form host:limit,...

    As in Kafka, the text is split at commas and at the last colon.

    Raises:
        ConfigError: The text is invalid. The message is that of Kafka 3.9.1.
    """
    limits: dict[str, int] = {}
    # Like Java's split, ignore empty entries at the end. Other empty entries fail below, because they have no colon.
    entries = re.split(r"\s*,\s*", text) if text else []
    while entries and not entries[-1]:
        entries.pop()
    for entry in entries:
        host, colon, number = entry.rpartition(":")
        if not colon:
            reason = f"begin 0, end -1, length {len(entry)}"
            raise ConfigError(f"Error parsing configuration property '{_OVERRIDES}': {reason}")
        limit = parse_integer(number.strip(), _INT_BITS)
        if limit is None:
            raise ConfigError(f'For input string: "{number.strip()}"')
        limits[host.strip()] = limit
    invalid = [host for host in limits if not re.fullmatch(_HOST, host)]
    if invalid:
        raise ConfigError(f"{_OVERRIDES} contains invalid addresses : {','.join(invalid)}")
    return limits
