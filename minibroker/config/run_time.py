"""Which of a broker's keys may be altered while it runs (KIP-226), as `DynamicBrokerConfig` of Kafka 3.9.1 has them."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from minibroker.config.broker import LISTENER, BrokerConfig
from minibroker.config.key_tables import BROKER_KEYS, DYNAMIC_KEYS
from minibroker.config.keys import ConfigError, ConfigKey
from minibroker.config.releases import is_before

STORE_KEYS: Final = frozenset(
    f"ssl.{name}"
    for name in (
        "key.password",
        *(f"keystore.{setting}" for setting in ("certificate.chain", "key", "location", "password", "type")),
        *(f"truststore.{setting}" for setting in ("certificates", "location", "password", "type")),
    )
)
"""These may be altered for one listener at a time only."""

_THREADS: Final = frozenset(
    {"background.threads", "num.io.threads", "num.recovery.threads.per.data.dir", "num.replica.fetchers"}
)

_OF_CONNECTIONS: Final = ("max.connections", "max.connection.creation.rate")
_LISTENERS_OF_ALL: Final = frozenset({*_OF_CONNECTIONS, "num.network.threads"})
"""These may be altered for a listener of all brokers at once (`ClusterLevelListenerConfigs`)."""
_FIXED_HERE: Final = ("listener.security.protocol.map", "listeners")
"""Kafka opens new listeners while it runs; minibroker does not."""

_FIRST_IN_JAVA: Final = "4.3"
"""The first release whose refusals list keys as Java prints a set; earlier ones print Scala's."""
_LISTENER_PREFIX: Final = re.compile(r"listener\.name\.([^.]*)\.(.+)\Z", re.DOTALL)


def key_of(name: str, keys: Mapping[str, ConfigKey] = BROKER_KEYS) -> ConfigKey | None:
    """The row of a broker's key; what a listener has for itself (`listener.name.<listener>.`) is as it is for all."""
    listener = _of_listener(name)
    base = listener[2] if listener else name
    key = keys.get(base) or DYNAMIC_KEYS.get(base)
    return key if key is not None and key.is_known else None


def is_alterable(name: str, keys: Mapping[str, ConfigKey] = BROKER_KEYS) -> bool:
    """Return whether brokers take a key at run time: of the emulated release, or of any."""
    return name in keys and keys[name].is_dynamic


def _of_listener(name: str) -> re.Match[str] | None:
    """The listener and the key of what a listener has for itself; None for other names, which need no expression."""
    return _LISTENER_PREFIX.match(name) if name.startswith(LISTENER) else None


def _may_be_known(name: str, before: BrokerConfig) -> bool:
    """Whether a name is a key's, or a listener's, without the exception by which a look-up would say no."""
    return before.knows(name) or name in DYNAMIC_KEYS or name.startswith(LISTENER)


def check(
    texts: Mapping[str, str], before: BrokerConfig, listeners: Collection[str], *, is_of_one_broker: bool
) -> None:
    """Raise ConfigError unless a broker, or all of them, may have these settings, in the words of Kafka 3.9.1.

    `before` is the configuration that counts now, `listeners` are the names of those that there are. What the settings
    are together with others is not looked at. Keys that a broker does not know may have any value.
    """
    texts = {name: text for name, text in texts.items() if _may_be_known(name, before)}
    _refuse(
        [name for name in texts if name in before.keys and not is_alterable(name, before.keys)],
        "Cannot update these configs dynamically: Set",
        before,
    )
    _refuse(
        [name for name in texts if name in STORE_KEYS],
        "These security configs can be dynamically updated only per-listener using the listener prefix: HashSet",
        before,
    )
    for name, text in texts.items():
        key = key_of(name, before.keys)
        if key is not None:
            key.parse(text)
    if not is_of_one_broker:
        _refuse(
            [name for name in texts if _is_per_broker(name, before.keys) or _is_of_one_listener(name)],
            "Cannot update these configs at default cluster level, broker id must be specified: Set",
            before,
        )
    for name, text in texts.items():
        if name in _THREADS:
            _check_threads(name, _integer(name, text), before.integer(name))
        if name in _OF_CONNECTIONS:
            _check_some(name, text)
        if name in _FIXED_HERE and BROKER_KEYS[name].parse(text) != before.optional_text(name):
            raise ConfigError(f"{name} cannot be altered while minibroker runs")
    for listener in listeners:
        for limit in _OF_CONNECTIONS:
            own = f"listener.name.{listener.lower()}.{limit}"
            if own in texts:
                _check_some(limit, texts[own])


def _is_per_broker(name: str, keys: Mapping[str, ConfigKey]) -> bool:
    return name in keys and keys[name].is_per_broker


def _is_of_one_listener(name: str) -> bool:
    """Is it a listener's, and each broker's own?"""
    listener = _of_listener(name)
    return listener is not None and listener[2] not in _LISTENERS_OF_ALL


def _check_some(name: str, text: str) -> None:
    """A broker may start with none at all, but not be altered to that (`ListenerConnectionQuota`)."""
    number = _integer(name, text)
    if number <= 0:
        raise _refused_by_a_part(f"Invalid {name} {number}")


def _integer(name: str, text: str) -> int:
    value = BROKER_KEYS[name].parse(text)
    assert isinstance(value, int)
    return value


def _check_threads(name: str, requested: int, current: int) -> None:
    """A pool grows to twice its size at most, and shrinks to half of it (`DynamicThreadPool`)."""
    because = None
    if requested <= 0:
        because = "value should be at least 1"
    elif requested > 2 * current:
        because = f"value should not be greater than double the current value {current}"
    elif requested < current // 2:
        because = f"value should be at least half the current value {current}"
    if because is not None:
        raise _refused_by_a_part(f"Dynamic thread count update validation failed for {name}={requested}, {because}")


def _refused_by_a_part(because: str) -> ConfigError:
    """The error for a change that a part of Kafka's broker refuses (`processReconfigurable`)."""
    error = f"org.apache.kafka.common.config.ConfigException: {because}"
    return ConfigError(f"Invalid value {error} for configuration Invalid dynamic configuration")


def _refuse(names: Iterable[str], because: str, before: BrokerConfig) -> None:
    listed = ", ".join(names)
    if listed and before.release is not None and not is_before(before.release, _FIRST_IN_JAVA):
        raise ConfigError(f"{because.removesuffix('Set').removesuffix('Hash')}[{listed}]")
    if listed:
        raise ConfigError(f"{because}({listed})")
