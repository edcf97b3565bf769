"""The configured limits of connections: number and rate, by broker, listener and address.

`connection_quotas` counts connections and applies them.

A listener has limits of its own with `listener.name.<listener>.` before the key; without, those of the broker count for
it, too (`AbstractConfig.valuesWithPrefixOverride`).
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from minibroker.config import BrokerConfig
from minibroker.config.broker import read_overrides
from minibroker.config.key_tables import BROKER_KEYS
from minibroker.config.keys import INT_MAX, ConfigError

if TYPE_CHECKING:
    from minibroker.server.quotas.host_names import HostNames

MOST: Final = "max.connections"
MOST_OF_ADDRESS: Final = "max.connections.per.ip"
OVERRIDES: Final = "max.connections.per.ip.overrides"
RATE: Final = "max.connection.creation.rate"

UNLIMITED: Final = INT_MAX


class ConnectionLimits:
    """The limits of one broker. ConfigError for a listener's value that is not allowed.

    Args:
        host_names: looks up the hosts of overrides, where there are any.

    Attributes:
        most: connections at once, of all listeners.
        most_of: the same of a listener, by its name.
        rate: connections per second, of all listeners.
        rate_of: the same of a listener, by its name.
        protected: the listener of the brokers among themselves, which `most` and `rate` do not hold back; None where
            there is no other one.
    """

    def __init__(self, config: BrokerConfig, listeners: Iterable[str], host_names: Callable[[], "HostNames"]) -> None:
        names = tuple(listeners)
        self.most = config.integer(MOST)
        self.rate = config.integer(RATE)
        self.most_of = {name: _of_listener(config, name, MOST) for name in names}
        self.rate_of = {name: _of_listener(config, name, RATE) for name in names}
        between = config.optional_text("inter.broker.listener.name") or config.text("security.inter.broker.protocol")
        self.protected = between.upper() if len(names) > 1 else None
        self._of_address = config.integer(MOST_OF_ADDRESS)
        overrides = config.text(OVERRIDES)
        self._overrides: dict[str, int] = {}
        if overrides:
            for host, most in read_overrides(overrides).items():
                host_names().look_up(host, partial(self._note, most))

    def _note(self, most: int, addresses: Iterable[str]) -> None:
        """An override counts from when its host is found; a host that is not found has none."""
        self._overrides.update(dict.fromkeys(addresses, most))

    def most_of_address(self, address: str) -> int:
        """The most connections that an address may have at once."""
        return self._overrides.get(address, self._of_address)


def _of_listener(config: BrokerConfig, listener: str, key: str) -> int:
    name = f"listener.name.{listener.lower()}.{key}"
    for texts in (config.run_time.broker, config.run_time.cluster, config.unknown):
        if name in texts:
            try:
                value = BROKER_KEYS[key].parse(texts[name])
            except ConfigError as error:
                raise ConfigError(f"{name}: {error}") from None
            assert isinstance(value, int)
            return value
    return config.integer(key)
