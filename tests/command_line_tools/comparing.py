"""Our tools and Kafka's, run on one broker with the same words."""

import re
import uuid
from collections.abc import Sequence
from typing import Final

from tests.clients.contract import eventually
from tests.command_line_tools.newest_jars import NewestTools
from tests.command_line_tools.runs import Run, kafkas_run, our_run
from tests.kafka.oracle import Oracle

_CHANGING: Final = re.compile(r"(TopicId: )\S+|(\b\d{13}\b)")
_DURATION: Final = re.compile(r"(\b\d{13} *\t)\d+")
"""The time since a transaction began, which `kafka-transactions describe` prints behind the time when it did."""


def until_known(bootstrap: str, words: Sequence[str], ran: Run) -> None:
    """Wait until the broker knows of a change: Kafka's controller answers before its brokers have heard."""
    if ran.status or not {"--create", "--delete"} & set(words) or "--topic" not in words:
        return
    topic, exists = words[words.index("--topic") + 1], "--create" in words
    listed = ("kafka-topics", "--bootstrap-server", bootstrap, "--list")
    eventually(lambda: (topic in our_run(*listed).lines) == exists)


def compare(oracle: Oracle | NewestTools, bootstrap: str, *calls: str) -> None:
    """Run both families of tools with the same words; {B} is the broker, {} a prefix that each family has for itself.

    Each family has topics and groups of its own, so both start from nothing. Lists show what other tests left; their
    lines count only where the prefix stands in them.
    """
    run = uuid.uuid4().hex[:8]
    for call in calls:
        found: list[Run] = []
        for family in ("jars", "mine"):
            prefix = f"{family}-{run}"
            words = [word.replace("{B}", bootstrap).replace("{}", prefix) for word in call.split()]
            ran = kafkas_run(oracle, *words) if family == "jars" else our_run(*words)
            until_known(bootstrap, words, ran)
            shows_all = not ran.status and {"--list", "list"} & set(words)
            lines = [line for line in ran.lines if prefix in line] if shows_all else ran.lines
            if "kafka-transactions" in words and "describe" in words:
                lines = [_DURATION.sub(r"\1#", line) for line in lines]
            shown = [_CHANGING.sub(r"\1#", line.replace(prefix, "{}")) for line in lines]
            if words[0] == "kafka-acls":  # Kafka keeps rules in no order, and a blank stands before the first one
                shown = sorted(line.strip() for line in shown)
            found.append(Run(tuple(shown), ran.status))
        assert found[1] == found[0], f"{call}: the jars {found[0]}, ours {found[1]}"
