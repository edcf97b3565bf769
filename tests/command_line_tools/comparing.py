"""Our tools and Kafka's, run on one broker with the same words, and what Kafka's print on each broker."""

import re
import uuid
from collections.abc import Callable, Sequence
from typing import Final

from tests.command_line_tools.newest_jars import NewestTools
from tests.command_line_tools.runs import Run, kafkas_run, our_run
from tests.kafka.oracle import Oracle
from tests.patience import eventually

_CHANGING: Final = (
    (re.compile(r"(TopicId: |Cluster ID: )\S+"), r"\1#"),
    (re.compile(r"\b\d{13}\b"), "#"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r",file\.delete\.delay\.ms=1000"), ""),  # the Kafka of the tests deletes files soon
    (re.compile(r" +"), " "),
)
_DURATION: Final = re.compile(r"(\b\d{13} *\t)\d+")
"""The time since a transaction began, which `kafka-transactions describe` prints behind the time when it did."""
_ROWS: Final = {"--reset-offsets", "--delete-offsets"}
"""Kafka 3.9 prints the rows of these into one line, in any order; 4.x and ours do not."""
_OTHERWISE_HERE: Final = {
    "--replication-factor 7": "more replicas than brokers are refused only where the configuration asks for it",
    "remove-controller -i 9": "the voters of this broker are fixed, as with kraft.version 0",
    "kafka-features": "a refused update is explained in the words of Kafka 4",
}
"""Parts of calls that this broker answers in another way than Kafka 3.9, and why."""
_printed: Final[dict[tuple[type, Sequence[str], int], Run]] = {}
"""The output of Kafka's tools on the first broker that they were compared on, by the calls and the number of one."""


def until_known(bootstrap: str, words: Sequence[str], ran: Run) -> None:
    """Wait until the broker knows of a change: Kafka's controller answers before its brokers have heard."""
    if ran.status or not {"--create", "--delete"} & set(words) or "--topic" not in words:
        return
    topic, exists = words[words.index("--topic") + 1], "--create" in words
    listed = ("kafka-topics", "--bootstrap-server", bootstrap, "--list")
    eventually(lambda: (topic in our_run(*listed).lines) == exists)


def compare(
    oracle: Oracle | NewestTools,
    bootstrap: str,
    *calls: str,
    name: str | None = None,
    prepare: Callable[[], None] = lambda: None,
) -> None:
    """Run both families of tools with the same words; {B} is the broker, {} a name that each family has for itself.

    Each family has topics and groups of its own, so both start from nothing. With a `name` they share these, and
    `prepare` makes the state in which each begins. Lists show what other tests left; their lines count only where the
    name stands in them. Kafka's tools have to print the same on the other broker, too.
    """
    run = uuid.uuid4().hex[:8]
    for number, call in enumerate(calls):
        found: list[Run] = []
        for family in ("jars", "mine"):
            own = name or f"{family}-{run}"
            words = [word.replace("{B}", bootstrap).replace("{}", own) for word in call.split()]
            prepare()
            ran = kafkas_run(oracle, *words) if family == "jars" else our_run(*words)
            until_known(bootstrap, words, ran)
            found.append(_without_what_varies(ran, words, bootstrap, own))
        assert found[1] == found[0], f"{call}: the jars {found[0]}, ours {found[1]}"
        if any(part in call for part in _OTHERWISE_HERE):
            continue
        on_the_other = _printed.setdefault((type(oracle), calls, number), found[0])
        assert found[0] == on_the_other, f"{call}: on one broker {on_the_other}, on the other one {found[0]}"


def _without_what_varies(ran: Run, words: Sequence[str], bootstrap: str, own: str) -> Run:
    shows_all = not ran.status and {"--list", "list"} & set(words)
    lines = [line.replace(own, "{}") for line in ran.lines if own in line or not shows_all]
    lines = [_DURATION.sub(r"\1#", line.replace(bootstrap, "{B}").strip()) for line in lines]
    for pattern, replacement in _CHANGING:
        lines = [pattern.sub(replacement, line) for line in lines]
    in_columns = bootstrap.replace(":", " ")
    lines = [line.replace(in_columns, "{B}") for line in lines]
    if words[0] == "kafka-acls":  # Kafka keeps rules in no order
        lines.sort()
    if _ROWS & set(words):
        lines = sorted(cell for line in lines for cell in line.replace(".{}", ". {}").split())
    return Run(tuple(lines), ran.status)
