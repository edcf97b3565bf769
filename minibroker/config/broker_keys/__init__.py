"""The broker's configuration keys: names, types, defaults and limits of Kafka 3.9.1, meanings in our own words.

All of Kafka's are here, those of Kafka 4 as in 4.3; they were compared with `kafka.server.KafkaConfig.configDef` and
`AbstractKafkaConfig.CONFIG_DEF`. Keys that begin with `minibroker.` are ours. Any other key is kept and listed as
unknown, as Kafka does. `topic_keys` says which of these keys give a topic its defaults.

`acted_on` is loaded at every start. The rest, a module for each subject, is loaded when somebody first asks for a key
that is not there: who describes a broker, or sets such a key.
"""

from collections.abc import Iterator, Mapping

from minibroker.config.broker_keys.acted_on import ACTED_ON
from minibroker.config.keys import ConfigKey, by_name


class BrokerKeys(Mapping[str, ConfigKey]):
    """The table by name, in the order of the names."""

    __slots__ = ("_is_whole", "_keys")

    def __init__(self) -> None:
        self._keys = ACTED_ON
        self._is_whole = False

    def __getitem__(self, name: str) -> ConfigKey:
        key = self._keys.get(name)
        return self._whole()[name] if key is None else key

    def __contains__(self, name: object) -> bool:
        return name in self._keys or name in self._whole()

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())

    def _whole(self) -> Mapping[str, ConfigKey]:
        if not self._is_whole:
            from minibroker.config.broker_keys.rest import REST  # noqa: PLC0415 - few runs need it

            self._keys = by_name(sorted((*ACTED_ON.values(), *REST), key=lambda key: key.name))
            self._is_whole = True
        return self._keys


BROKER_KEYS = BrokerKeys()
