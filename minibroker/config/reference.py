"""Write docs/configuration.md from the tables: `python -m minibroker.config.reference > docs/configuration.md`."""

import sys
from collections.abc import Iterable

from minibroker.config.broker_keys import BROKER_KEYS
from minibroker.config.keys import ConfigKey
from minibroker.config.topic_keys import TOPIC_KEYS

_HEAD = """\
# Configuration

<!-- Made by `python -m minibroker.config.reference`: change the tables there, not this page. -->

minibroker takes Apache Kafka's own configuration names, with the types, defaults and limits of Kafka 3.9.1. Keys that
begin with `minibroker.` are its own. A key in **bold** is acted on; the others are read and checked, and change
nothing. A broker key that is not listed here is ignored, as in Kafka, and `minibroker serve` names it on stderr;
an unknown topic key is refused with INVALID_CONFIG.

Six defaults differ in effect: without `listeners` it listens on 127.0.0.1:9092, without `log.dirs` and `log.dir` the
logs are in a temporary directory, without `node.id` it is node 1, and the first member of a group waits for no others
(`group.initial.rebalance.delay.ms` is 0); groups of the consumer protocol are served
(`group.coordinator.rebalance.protocols`) and may change their protocol (`group.consumer.migration.policy`), as in
Kafka 4. Of several `log.dirs` the first is used.
"""

_BROKER = """
## Broker

Set in a `server.properties` file, or one by one on the command line.
"""

_TOPIC = """
## Topic

Set when a topic is created. A topic that does not set a key takes the first of the broker's keys in the last
column that is set.
"""


def render() -> str:
    """Return the whole page, in Markdown."""
    broker = _table(("Key", "Type", "Default", "Allowed", "Importance", "Meaning"), map(_row, BROKER_KEYS.values()))
    topic = _table(
        ("Key", "Type", "Default", "Allowed", "Importance", "Meaning", "Broker keys"),
        ((*_row(key), ", ".join(f"`{name}`" for name, _ in key.synonyms)) for key in TOPIC_KEYS.values()),
    )
    return _HEAD + _BROKER + broker + _TOPIC + topic


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = (head, ("---",) * len(head), *rows)
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _row(key: ConfigKey) -> tuple[str, ...]:
    name = f"**`{key.name}`**" if key.honoured else f"`{key.name}`"
    default = key.text(key.default)
    allowed = "" if key.allowed is None else str(key.allowed)
    shown = "null" if default is None else f"`{default}`" if default else "empty"
    return name, key.type.name, shown, allowed, key.importance.value, key.documentation


if __name__ == "__main__":
    sys.stdout.write(render())
