"""The tables of configuration keys: types, defaults and limits of Kafka 3.9.1, and meanings in minibroker's own words.

`keys.tsv` lists all of Kafka's keys. Keys that are new in Kafka 4 are listed as in 4.4.0. The keys were compared with
`kafka.server.KafkaConfig.configDef`, `AbstractKafkaConfig.CONFIG_DEF`, `LogConfig`, `GroupConfig`,
`ClientMetricsConfigs` and `DynamicConfig.Broker`. Keys that begin with `minibroker.` are minibroker's own.

Each line of the file is a key, with these columns:

- the type of resource, the name, the type and the importance
- the default: an equals sign and the value, or a dash for null
- the allowed values
- flags: "h" marks a key that has an effect, "i" an internal key, "d" a dynamic key (`DynamicBrokerConfig`), and "b" a
  dynamic key that cannot be altered for all brokers together
- the broker keys that provide the default of a topic or group key, with the factor between their units
- the meaning
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from minibroker.config.keys import (
    VALIDATORS,
    ConfigKey,
    ConfigType,
    Distinct,
    Importance,
    OneOf,
    OneOfAnyCase,
    Range,
    Validator,
    parse_value,
)


def lines_of(file: str) -> list[str]:
    """Return the lines of a table in this folder."""
    return Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines()


def validator_of(text: str) -> Validator | None:
    """Return the validator described in a column of a table, or None. The limits of a double may be integers."""
    words, *flags = text.split(" ")
    names = words.split("|") if words else []
    if "anycase" in flags:
        return OneOfAnyCase(*names)
    if flags:
        return Distinct(*names, is_empty_allowed="nonempty" not in flags)
    if ".." in words:
        minimum, _, maximum = words.partition("..")
        return Range(int(minimum), (float if "." in maximum else int)(maximum) if maximum else None)
    return VALIDATORS.get(words) or (OneOf(*names) if names else None)


class ConfigKeys(Mapping[str, ConfigKey]):
    """The keys of one type of resource, in the order of the file. A line is parsed on first use of its key."""

    def __init__(self, lines: Mapping[str, str]) -> None:
        self._lines = lines

    def __getitem__(self, name: str) -> ConfigKey:
        return _parse(name, self._lines[name])

    def __contains__(self, name: object) -> bool:
        return name in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


@cache
def _parse(name: str, facts: str) -> ConfigKey:
    type_, importance, default, allowed, flags, synonyms, documentation = facts.split("\t")
    kind = ConfigType[type_]
    return ConfigKey(
        name,
        kind,
        None if default == "-" else parse_value(name, kind, default[1:]),
        validator_of(allowed) if allowed else None,
        Importance[importance],
        "h" in flags,
        documentation,
        tuple(map(_parse_synonym, synonyms.split())),
        is_internal="i" in flags,
        is_dynamic="d" in flags,
        is_per_broker="b" in flags,
    )


def _parse_synonym(text: str) -> tuple[str, int]:
    name, _, factor = text.partition("*")
    return name, int(factor or 1)


def _load_tables() -> dict[str, ConfigKeys]:
    tables: dict[str, dict[str, str]] = {}
    for line in lines_of("keys.tsv"):
        kind, name, facts = line.split("\t", 2)
        tables.setdefault(kind, {})[name] = facts
    return {kind: ConfigKeys(lines) for kind, lines in tables.items()}


TABLES = _load_tables()
"""The tables by type of resource."""
BROKER_KEYS = TABLES["broker"]
TOPIC_KEYS = TABLES["topic"]
GROUP_KEYS = TABLES["group"]
CLIENT_METRICS_KEYS = TABLES["client-metrics"]
DYNAMIC_KEYS = TABLES["dynamic"]
"""Keys that a broker has only as dynamic configuration, not in a properties file."""
