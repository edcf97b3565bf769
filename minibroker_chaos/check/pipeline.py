"""An application between topics as a check sees it: inputs, outputs, what ties them, and the groups that read."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypedDict, cast

from minibroker.cluster.errors import OperationError
from minibroker.config.documents import parse_json
from minibroker_chaos.check.fact_types import (
    Accepted,
    Append,
    Assignment,
    Commit,
    Cut,
    Fact,
    Forgotten,
    Read,
    Step,
    shown,
)
from minibroker_chaos.check.facts import Facts
from minibroker_chaos.check.logs import Batch, PartitionLog, Record
from minibroker_chaos.check.results import Finding
from minibroker_storage.data_directory.names import TopicPartition

Identity = Callable[[Any], Any] | str
"""A function of a record, or one of "key", "value", "header:NAME" and "json:FIELD", whose ids are texts."""
Expected = Callable[[Any], Iterable[Any]] | Mapping[Any, Iterable[Any]]
"""The ids of an input's outputs, as a function of the input, or by the id of the input."""
MAX_LINES: Final = 20
_CONTEXT: Final = 8
"""The facts about groups and misbehaviors that a time line shows at most."""


class Matching(TypedDict, total=False):
    """How the inputs of an application and its outputs are matched."""

    key: Identity
    """The id of a record, by default "key"."""
    output_key: Identity | None
    """The id of an output, if it is found in another way."""
    expected: Expected | None
    """The ids of the outputs of an input, by default one: its own."""
    group: str | None
    """The group that reads the inputs, by default all groups that do."""
    instances: Mapping[str, str] | None
    """The client id of the producer for that of each consumer, by default the same but for these two words."""


class UnmatchedError(Exception):
    """A record has no id. The message names it."""


@dataclass
class GroupState:
    """What a group has finished, by partition.

    Attributes:
        committed: The committed offsets, or the start offsets of a share group.
        is_share: Whether it is a share group.
    """

    committed: Mapping[TopicPartition, int]
    is_share: bool


@dataclass
class Output:
    """A visible output record, and the fact of its append if it is known."""

    record: Record
    batch: Batch | None
    append: Append | None


@dataclass
class Pipeline:
    """The material of a check.

    Attributes:
        groups: The groups that have read the inputs, or the one that was named.
        about: How the user ties inputs and outputs.
        reasons: Why not everything can be decided; checks add to it.
    """

    inputs: Sequence[PartitionLog]
    outputs: Sequence[PartitionLog]
    facts: Facts
    groups: Mapping[str, GroupState]
    about: Matching = field(default_factory=Matching)
    reasons: list[str] = field(default_factory=list[str])

    @cached_property
    def input_topics(self) -> set[str]:
        """The names of the input topics."""
        return {log.partition[0] for log in self.inputs}

    @cached_property
    def input_ids(self) -> list[tuple[Record, list[Any]]]:
        """Each readable input with the ids of its expected outputs.

        Raises:
            UnmatchedError: An input has no id, or none that can be compared.
        """
        found: list[tuple[Record, list[Any]]] = []
        identify = _function_of(self.about.get("key", "key"))
        expected = self.about.get("expected")
        by_id = None if callable(expected) else expected
        for record in (record for log in self.inputs for record in log.records):
            try:
                if callable(expected):
                    ids = list(expected(record))
                else:
                    own = identify(record)
                    if own is None:
                        raise UnmatchedError(f"{name_of(record)} has no id")  # noqa: TRY301 - as below
                    ids = [own] if by_id is None else list(by_id.get(own, (own,)))
                for each in ids:
                    hash(each)
            except UnmatchedError:
                raise
            except Exception as error:
                raise UnmatchedError(f"{name_of(record)} has no id: {type(error).__name__}: {error}") from error
            found.append((record, ids))
        return found

    @cached_property
    def outputs_of(self) -> dict[Any, list[Output]]:
        """The visible outputs by id, in the order of their partitions and offsets. Those without an id are left out."""
        found: dict[Any, list[Output]] = {}
        identify = _function_of(self.about.get("output_key") or self.about.get("key", "key"))
        for log in self.outputs:
            appends = self._appends.get(log.partition, {})
            batches = iter(log.batches)
            batch = next(batches, None)
            for record in log.records:
                while batch is not None and batch.last_offset < record.offset:
                    batch = next(batches, None)
                try:
                    output_id = identify(record)
                    hash(output_id)
                except Exception:  # noqa: BLE001 - the function is the user's
                    output_id = None
                append = None if batch is None else appends.get(batch.base_offset)
                found.setdefault(output_id, []).append(Output(record, batch, append))
        return found

    def check_ids(self) -> None:
        """Check that inputs and outputs are tied by their ids at all.

        Raises:
            UnmatchedError: No output has an id that is expected of an input.
        """
        expected = [output_id for _, ids in self.input_ids for output_id in ids]
        found = [output_id for output_id in self.outputs_of if output_id is not None]
        if expected and found and self.outputs_of.keys().isdisjoint(expected):
            theirs = ", ".join(map(repr, found[:2]))
            raise UnmatchedError(
                f"no output has the id of an input, such as {expected[0]!r}; theirs are {theirs}: give output_key"
            )

    @property
    def unmatched_outputs(self) -> list[Output]:
        """The outputs without an id."""
        return self.outputs_of.get(None, [])

    @cached_property
    def _appends(self) -> dict[TopicPartition, dict[int, Append]]:
        """The first append at each base offset."""
        found: dict[TopicPartition, dict[int, Append]] = {}
        topics = {log.partition[0] for log in self.outputs}
        for append in self.facts.of_topics(Append, topics):
            found.setdefault(append.partition, {}).setdefault(append.base_offset, append)
        return found

    @cached_property
    def sharing_ids(self) -> dict[Any, int]:
        """The number of inputs that expect an output with the id, or how often one of them expects it."""
        counts: dict[Any, int] = {}
        for _, ids in self.input_ids:
            for output_id in ids:
                counts[output_id] = counts.get(output_id, 0) + 1
        return counts

    @cached_property
    def commits(self) -> dict[tuple[str, TopicPartition], list[Commit]]:
        """The applied commits of the groups, by group and input partition, since offsets were last deleted."""
        found: dict[tuple[str, TopicPartition], list[Commit]] = {}
        forgotten = list(self.facts.of(Forgotten))
        for commit in self.facts.of_topics(Commit, self.input_topics):
            is_gone = any(
                fact.tick > commit.tick
                and fact.group in {None, commit.group}
                and fact.topic in {None, commit.partition[0]}
                for fact in forgotten
            )
            if commit.group in self.groups and not is_gone:
                found.setdefault((commit.group, commit.partition), []).append(commit)
        return found

    @cached_property
    def readers(self) -> set[tuple[str, TopicPartition]]:
        """The client ids that have read from each input partition."""
        return {(read.client, read.partition) for read in self.facts.of_topics(Read, self.input_topics)}

    @cached_property
    def has_other_readers(self) -> bool:
        """Whether clients that belong to no group have read inputs, and no group was named."""
        members = {fact.client for kind in (Assignment, Commit, Accepted) for fact in self.facts.of(kind)}
        return self.about.get("group") is None and any(client not in members for client, _ in self.readers)

    def by_operator(self, commit: Commit) -> bool:
        """Return whether a commit is that of a tool: of no member, by a client that has never read the partition."""
        return not commit.member and (commit.client, commit.partition) not in self.readers

    def accepted(self, group: str, record: Record) -> Accepted | None:
        """Return the fact that a share group has accepted a record, or None."""
        partition = record.topic, record.partition
        return next(
            (fact for fact in self._accepted.get((group, partition), ()) if fact.first <= record.offset <= fact.last),
            None,
        )

    @cached_property
    def _accepted(self) -> dict[tuple[str, TopicPartition], list[Accepted]]:
        found: dict[tuple[str, TopicPartition], list[Accepted]] = {}
        for fact in self.facts.of_topics(Accepted, self.input_topics):
            found.setdefault((fact.group, fact.partition), []).append(fact)
        return found

    def needs_facts(self) -> bool:
        """Return whether the facts are complete. If they are not, say so in `reasons`."""
        if self.facts.dropped:
            self.reasons.append(f"{self.facts.dropped} facts were dropped, because there were too many")
        if not self.facts.knows_commits:
            self.reasons.append(
                "facts were not kept from the start: use Broker(check=True) or --check; in pytest "
                "kafka_factory(check=True), or mark the test with kafka_chaos(runs=0)"
            )
        return not self.facts.dropped and self.facts.knows_commits

    def check_whole(self, logs: Iterable[PartitionLog]) -> None:
        """Add a reason for each log of which a part was deleted."""
        for log in logs:
            if not log.is_whole:
                self.reasons.append(f"{shown(log.partition)} has lost records to retention or compaction")

    def describe_progress(self, record: Record) -> tuple[str, list[Fact]]:
        """Return which group has passed an input, with the facts that show it."""
        partition = record.topic, record.partition
        for group in self.groups:
            accepted = self.accepted(group, record)
            if accepted is not None:
                return f"was accepted by {accepted.client} at request {accepted.number}", [accepted]
            for commit in self.commits.get((group, partition), ()):
                if commit.offset > record.offset:
                    return f"was committed by {commit.client} at request {commit.number}", [commit]
        passed = [
            f"{group} has committed {state.committed[partition]}"
            for group, state in self.groups.items()
            if state.committed.get(partition, -1) > record.offset
        ]
        return f"is done: {', '.join(passed)}" if passed else "is committed by no group yet", []

    def finding(
        self, check: str, summary: str, place: tuple[TopicPartition, int], about: Iterable[Fact], *, certain: bool
    ) -> Finding:
        """Return a finding at an offset, with the facts it is about and those before that may have led to it."""
        partition, offset = place
        return Finding(check, certain, summary, *partition, offset, self._time_line(partition, list(about)))

    def _time_line(self, partition: TopicPartition, about: list[Fact]) -> tuple[str, ...]:
        """Return lines for facts, and for those before the last of them that concern the groups or the partition."""
        last = max((fact.tick for fact in about), default=len(self.facts))
        context: list[Fact] = []
        steps: list[Fact] = []
        for fact in self.facts:
            if fact.tick > last:
                break
            if isinstance(fact, Step | Cut):
                steps.append(fact)
            elif getattr(fact, "partition", partition) == partition and (
                isinstance(fact, Read | Append) or not self.groups.keys().isdisjoint(_subjects_of(fact))
            ):
                context.append(fact)
        chosen = {fact.tick: fact for fact in about}
        for fact in (*steps[-_CONTEXT:], *reversed(context)):
            if len(chosen) < MAX_LINES - 1:
                chosen[fact.tick] = fact
        ordered = sorted(chosen.values(), key=lambda fact: (fact.number, fact.tick))
        lines = [f"request {fact.number}: {fact}" for fact in ordered][: MAX_LINES - 1]
        return tuple(lines) if steps else (*lines, "until then the broker had no fault, no chaos and no new leader")


def _subjects_of(fact: Fact) -> tuple[str, ...]:
    """Return the group that a fact is about."""
    return getattr(fact, "group", None) or "", getattr(fact, "subject", "")


def place_of(record: Record) -> tuple[TopicPartition, int]:
    """Return the partition and the offset of a record."""
    return (record.topic, record.partition), record.offset


def name_of(record: Record) -> str:
    """Return TOPIC-PARTITION@OFFSET."""
    return f"{record.topic}-{record.partition}@{record.offset}"


def _function_of(identity: Identity) -> Callable[[Any], Any]:
    """Return the function for a name such as "key" or "header:id".

    Raises:
        OperationError: There is no such name.
    """
    if callable(identity):
        return identity
    kind, _, name = identity.partition(":")
    if identity in {"key", "value"}:
        return lambda record: _text_of(getattr(record, identity))
    if kind == "header" and name:
        return lambda record: _text_of(record.header(name))
    if kind == "json" and name:
        return lambda record: _text_of(_field_of(parse_json(record.value, "value"), name))
    raise OperationError(f"key: {identity!r} is none of 'key', 'value', 'header:NAME' and 'json:FIELD'")


def _text_of(value: Any) -> Any:
    """Return an id as text, so that those of keys, headers and JSON can be compared. Other bytes stay as they are."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return None if value is None else str(value)


def _field_of(value: Any, name: str) -> Any:
    for part in name.split("."):
        value = cast("dict[str, Any]", value).get(part) if isinstance(value, dict) else None
    return value
