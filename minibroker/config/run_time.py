"""The broker keys that can be altered at run time (KIP-226), and their checks (Kafka 3.9.1's `DynamicBrokerConfig`)."""

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
"""Keys that can only be altered for one listener at a time."""

_THREADS: Final = frozenset(
    {"background.threads", "num.io.threads", "num.recovery.threads.per.data.dir", "num.replica.fetchers"}
)

_CONNECTION_LIMITS: Final = ("max.connections", "max.connection.creation.rate")
_CLUSTER_LISTENER_KEYS: Final = frozenset({*_CONNECTION_LIMITS, "num.network.threads"})
"""Keys that can be altered for a listener of all brokers together (`ClusterLevelListenerConfigs`)."""
_NOT_ALTERABLE: Final = ("listener.security.protocol.map", "listeners")
"""Keys that Kafka applies by opening new listeners, which minibroker cannot do while it runs."""

_FIRST_WITH_JAVA_SETS: Final = "4.3"
"""The first release whose error messages list keys as Java prints a set. Earlier releases list keys as Scala does."""
_LISTENER_PREFIX: Final = re.compile(r"listener\.name\.([^.]*)\.(.+)\Z", re.DOTALL)


def key_of(name: str, keys: Mapping[str, ConfigKey] = BROKER_KEYS) -> ConfigKey | None:
    """Return the row of a broker key, ignoring the prefix of a listener (`listener.name.<listener>.`), or None."""
    listener = _match_listener_key(name)
    base = listener[2] if listener else name
    key = keys.get(base) or DYNAMIC_KEYS.get(base)
    return key if key is not None and key.is_known else None


def is_alterable(name: str, keys: Mapping[str, ConfigKey]) -> bool:
    """Return whether a key can be altered at run time, given the table of the emulated release."""
    return name in keys and keys[name].is_dynamic


def _match_listener_key(name: str) -> re.Match[str] | None:
    """Match a key that has a listener prefix, or return None. Other keys are not searched by the regular expression."""
    return _LISTENER_PREFIX.match(name) if name.startswith(LISTENER) else None


def _is_possibly_known(name: str, before: BrokerConfig) -> bool:
    """Return whether a name may be a known key or a listener's key, without a look-up that raises an exception."""
    return before.knows(name) or name in DYNAMIC_KEYS or name.startswith(LISTENER)


def check(
    texts: Mapping[str, str], before: BrokerConfig, listeners: Collection[str], *, is_of_one_broker: bool
) -> None:
    """Check dynamic settings of one broker or of all brokers. Keys that are unknown to a broker can have any value.

    Each setting is checked by itself, not together with others.

    Args:
        texts: The settings.
        before: The current configuration.
        listeners: The names of the existing listeners.
        is_of_one_broker: Whether the settings are for one broker.

    Raises:
        ConfigError: A setting is not allowed. The message is that of Kafka 3.9.1.
    """
    keys = before.keys
    texts = {name: text for name, text in texts.items() if _is_possibly_known(name, before)}
    _refuse(
        [name for name in texts if name in keys and not is_alterable(name, keys)],
        "Cannot update these configs dynamically: Set",
        before,
    )
    _refuse(
        [name for name in texts if name in STORE_KEYS],
        "These security configs can be dynamically updated only per-listener using the listener prefix: HashSet",
        before,
    )
    for name, text in texts.items():
        key = key_of(name, keys)
        if key is not None:
            key.parse(text)
    if not is_of_one_broker:
        _refuse(
            [name for name in texts if (name in keys and keys[name].is_per_broker) or _is_of_one_listener(name)],
            "Cannot update these configs at default cluster level, broker id must be specified: Set",
            before,
        )
    for name, text in texts.items():
        if name in _THREADS:
            _check_threads(name, _parse_integer(name, text), before.integer(name))
        if name in _CONNECTION_LIMITS:
            _check_connection_limit(name, text)
        if name in _NOT_ALTERABLE and BROKER_KEYS[name].parse(text) != before.optional_text(name):
            raise ConfigError(f"{name} cannot be altered while minibroker runs")
    for listener in listeners:
        for limit in _CONNECTION_LIMITS:
            own = f"listener.name.{listener.lower()}.{limit}"
            if own in texts:
                _check_connection_limit(limit, texts[own])


def _is_of_one_listener(name: str) -> bool:
    """Return whether a key belongs to a listener and can only be altered for one broker at a time."""
    listener = _match_listener_key(name)
    return listener is not None and listener[2] not in _CLUSTER_LISTENER_KEYS


def _check_connection_limit(name: str, text: str) -> None:
    """Refuse to set a limit to 0, which is allowed only at the start (`ListenerConnectionQuota`)."""
    number = _parse_integer(name, text)
    if number <= 0:
        raise _component_error(f"Invalid {name} {number}")


def _parse_integer(name: str, text: str) -> int:
    value = BROKER_KEYS[name].parse(text)
    assert isinstance(value, int)
    return value


def _check_threads(name: str, requested: int, current: int) -> None:
    """Reject a new number of threads above twice or below half the current one (`DynamicThreadPool`)."""
    if requested <= 0:
        reason = "value should be at least 1"
    elif requested > 2 * current:
        reason = f"value should not be greater than double the current value {current}"
    elif requested < current // 2:
        reason = f"value should be at least half the current value {current}"
    else:
        return
    raise _component_error(f"Dynamic thread count update validation failed for {name}={requested}, {reason}")


def _component_error(reason: str) -> ConfigError:
    """Return the error for a change that a component of Kafka's broker refuses (`processReconfigurable`)."""
    error = f"org.apache.kafka.common.config.ConfigException: {reason}"
    return ConfigError(f"Invalid value {error} for configuration Invalid dynamic configuration")


def _refuse(names: Iterable[str], message: str, before: BrokerConfig) -> None:
    keys = ", ".join(names)
    if not keys:
        return
    if before.release is not None and not is_before(before.release, _FIRST_WITH_JAVA_SETS):
        raise ConfigError(f"{message.removesuffix('Set').removesuffix('Hash')}[{keys}]")
    raise ConfigError(f"{message}({keys})")
