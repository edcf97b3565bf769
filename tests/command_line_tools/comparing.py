"""Compares our tools with Kafka's on one broker, and the output of Kafka's tools on both brokers."""

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
    (re.compile(r",file\.delete\.delay\.ms=1000"), ""),  # The tests' Kafka deletes files soon.
    (re.compile(r" +"), " "),
)
_DURATION: Final = re.compile(r"(\b\d{13} *\t)\d+")
"""The age of a transaction, which `kafka-transactions describe` prints after the start time."""
_ROWS: Final = {"--reset-offsets", "--delete-offsets"}
"""Options for which Kafka 3.9 prints all rows on one line, in any order. Kafka 4 and our tools use one line per row."""
_OTHERWISE_HERE: Final = {
    "--replication-factor 7": "more replicas than brokers are refused only where the configuration asks for it",
    "remove-controller -i 9": "the voters of this broker are fixed, as with kraft.version 0",
    "kafka-features": "a refused update is explained in the words of Kafka 4",
}
"""Parts of calls that this broker answers differently from Kafka 3.9, with the reason."""
_printed: Final[dict[tuple[type, Sequence[str], int], Run]] = {}
"""The output of Kafka's tools on the first broker, by the calls and the index of a call."""


def until_known(bootstrap: str, words: Sequence[str], ran: Run) -> None:
    """Wait until the broker knows of a change. Kafka's controller responds before its brokers apply the change."""
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
    """Run both tool families with the same arguments and compare their output.

    {B} is replaced by the broker, and {} by a name. By default each family has its own name, and therefore its own
    topics and groups. With `name` both families share it, and `prepare` restores the initial state for each of them.
    Lists can show leftovers of other tests, so only their lines with the name are compared. Kafka's tools must print
    the same on both brokers.
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
    if words[0] == "kafka-acls":  # Kafka stores ACLs without an order.
        lines.sort()
    if _ROWS & set(words):
        lines = sorted(cell for line in lines for cell in line.replace(".{}", ". {}").split())
    return Run(tuple(lines), ran.status)
