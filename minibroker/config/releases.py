"""Kafka's releases in order, and the configuration keys of each release, for `--emulate`.

`release_keys.tsv` contains each release's keys according to its own `ConfigDef`, starting with 0.11, which added
DescribeConfigs. The columns are:

- the type of resource and the key
- the first and the last release in which the other columns apply
- the type
- the default: an equals sign and the value, a dash for null, or a question mark if the key is required
- the allowed values, or an equals sign for those of `keys.tsv`
- flags: "i" marks an internal key, "d" a dynamic key

`python -m tests.kafka.release_keys` writes the file from Kafka's jars.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

from minibroker.config.key_tables import TABLES, lines_of, validator_of
from minibroker.config.keys import ConfigKey, ConfigType, Importance

RELEASES: Final = (
    "0.8.2", "0.9", "0.10.0", "0.10.1", "0.10.2", "0.11", "1.0", "1.1",
    "2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8",
    "3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9",
    "4.0", "4.1", "4.2", "4.3", "4.4",
)  # fmt: skip
"""The minor releases that can be emulated, oldest first."""
_FIRST_WITH_FACTS: Final = "0.11"
_OWN_DEFAULTS: Final = {
    "group.consumer.migration.policy": "4.0",
    "group.coordinator.rebalance.protocols": "4.0",
    "group.initial.rebalance.delay.ms": None,
    "group.share.partition.max.record.locks": "4.1",
    "listeners": "3.0",
    "ssl.enabled.protocols": "2.6",
}
"""Keys with minibroker's own default. It applies before the given release, or in all releases if that is None."""


def release_name(text: str) -> str | None:
    """Return the entry of `RELEASES` that a user means, such as "2.0", "2.0.1" or "v3.9.x", or None.

    "0.10" stands for its last minor release.
    """
    numbers = text.strip().removeprefix("v").removesuffix(".x").split(".")
    for count in (3, 2):
        if ".".join(numbers[:count]) in RELEASES:
            return ".".join(numbers[:count])
    same_line = [name for name in RELEASES if name.startswith(f"{'.'.join(numbers)}.")]
    return same_line[-1] if same_line and all(map(str.isdecimal, numbers)) else None


def is_before(name: str | None, release: str) -> bool:
    """Return whether the emulated release `name` is earlier than `release`. False if no release is emulated."""
    return name is not None and RELEASES.index(name) < RELEASES.index(release)


@cache
def keys_of_release(release: str | None, kind: str) -> Mapping[str, ConfigKey]:
    """Return the keys of a type of resource, with the types, defaults and limits of a release.

    Keys missing from the release stay in the table with `is_known` False, because code reads their values.
    Without a release, or before 0.11, the keys are those of `keys.tsv`.
    """
    base = TABLES[kind]
    if release is None or is_before(release, _FIRST_WITH_FACTS):
        return base
    at = RELEASES.index(release)
    rows = [row for row in _read_rows() if row[0] == kind]
    of_kafka = {row[1] for row in rows}
    table = {
        name: key._replace(is_known=name not in of_kafka, is_internal=True, is_dynamic=False)
        for name, key in base.items()
    }
    for _, name, first, last, type_, default, allowed, flags, *_ in rows:
        if RELEASES.index(first) <= at <= RELEASES.index(last):
            table[name] = _create_key(base.get(name), name, at, (type_, default, allowed, flags))
    return dict(sorted(table.items()))


def emulated(properties: Mapping[str, str]) -> str | None:
    """Return the release that a broker with these properties emulates, or None."""
    return release_name(properties.get("minibroker.emulate", ""))


@cache
def _read_rows() -> list[list[str]]:
    return [(line + "\t\t").split("\t") for line in lines_of("release_keys.tsv")]


def _create_key(base: ConfigKey | None, name: str, at: int, facts: tuple[str, str, str, str]) -> ConfigKey:
    """Return a key's row. If the key has an effect, it is parsed by its type in `keys.tsv`, not the reported one."""
    type_, default, allowed, flags = facts
    reported = ConfigType[type_]
    if base is None:
        words = f"A key of Kafka {RELEASES[at]}; it has no effect here."
        base = ConfigKey(name, reported, None, None, Importance.MEDIUM, False, words)
    key = base if base.honored else base._replace(type=reported)
    if allowed != "=" and key.type is reported:
        key = key._replace(allowed=validator_of(allowed))
    ours_before = _OWN_DEFAULTS.get(name, RELEASES[0])
    if default != "?" and ours_before is not None and at >= RELEASES.index(ours_before):
        value = None if default == "-" else key._replace(allowed=None).parse(default[1:])
        key = key._replace(default=value)
    return key._replace(is_internal="i" in flags, is_dynamic="d" in flags, reported_type=reported)
