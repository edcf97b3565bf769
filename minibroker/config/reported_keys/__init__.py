"""The broker's keys without effect here: they are returned by DescribeConfigs, and checked when they are set.

`broker_keys` loads them at the first request for a key that it does not have itself. `keys.tsv` has a row for each key:
name, type, importance, default, allowed values, flags and documentation. Defaults and allowed values are written as in
`release_keys.tsv`, or name a validator. The flag "i" marks an internal key. "h" marks a key that the broker acts on all
the same: those of share groups are here because no start should load them.
"""

from importlib.resources import files

from minibroker.config.keys import KAFKA_VERSIONS, ConfigKey, ConfigType, Importance, OneOfAnyCase, Voters
from minibroker.config.release_keys import validator_of
from minibroker.config.reported_keys.limits import Endpoints, NotEmpty, ThreadsOrDefault

_VALIDATORS = {
    "Algorithm": OneOfAnyCase("ES256", "RS256"),
    "Endpoints": Endpoints(),
    "KafkaVersion": KAFKA_VERSIONS,
    "NotEmpty": NotEmpty(),
    "ThreadsOrDefault": ThreadsOrDefault(),
    "Voters": Voters(),
}


def _read(line: str) -> ConfigKey:
    name, kind, importance, default, allowed, flags, documentation = line.split("\t")
    is_honored, is_internal = "h" in flags, "i" in flags
    rank = Importance[importance]
    key = ConfigKey(name, ConfigType[kind], None, None, rank, is_honored, documentation, (), is_internal)
    value = None if default == "-" else key.parse(default.removeprefix("="))
    return key._replace(default=value, allowed=_VALIDATORS.get(allowed) or validator_of(allowed))


REPORTED_KEYS = tuple(map(_read, files(__name__).joinpath("keys.tsv").read_text(encoding="utf-8").splitlines()))
