"""Checks of committed offsets and of partitions that change hands."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from minibroker_chaos.check.fact_types import Append, Assignment, Commit, Cut, Fact, Read, shown
from minibroker_chaos.check.logs import Record
from minibroker_chaos.check.pipeline import Output, Pipeline, name_of, place_of
from minibroker_chaos.check.results import Finding
from minibroker_storage.data_directory.names import TopicPartition

_ROLE: Final = re.compile("consumer|producer", re.IGNORECASE)


def no_commit_ahead(pipeline: Pipeline, check: str = "no_commit_ahead") -> Iterator[Finding]:
    """Yield the inputs that a group's committed offset had passed before their outputs were in the log.

    It is certain if the output never came, or if its request arrived after the commit was applied. An output that was
    on its way is likely.
    """
    if not pipeline.needs_facts():
        return
    pipeline.check_whole(pipeline.inputs)
    pipeline.check_whole(pipeline.outputs)
    was_cut = any(pipeline.facts.of_topics(Cut, {log.partition[0] for log in pipeline.outputs}))
    if not all(log.is_whole for log in pipeline.outputs):
        return
    is_clear = not was_cut and not pipeline.unmatched_outputs and not pipeline.has_other_readers
    for record, ids in pipeline.input_ids:
        for group in pipeline.groups:
            commit = _passing_commit(pipeline, group, record)
            if commit is None:
                continue
            for output_id in ids:
                outputs = pipeline.outputs_of.get(output_id, [])
                found = _judge(pipeline, record, commit, outputs)
                if found is not None:
                    what, about, certain = found
                    summary = (
                        f"{name_of(record)} was committed by {commit.client} at request {commit.number} "
                        f"(offset {commit.offset}); {what} (id {output_id!r})"
                    )
                    yield pipeline.finding(check, summary, place_of(record), about, certain=certain and is_clear)


def _passing_commit(pipeline: Pipeline, group: str, record: Record) -> Commit | None:
    """Return the first commit beyond a record, or None. A tool that moves a group past a record excuses the group."""
    for commit in pipeline.commits.get((group, (record.topic, record.partition)), ()):
        if commit.offset > record.offset:
            return None if pipeline.by_operator(commit) else commit
    return None


def _judge(
    pipeline: Pipeline, record: Record, commit: Commit, outputs: list[Output]
) -> tuple[str, list[Fact], bool] | None:
    """Return what is wrong with a commit, the facts and whether it is certain; or None if the output was there."""
    if not outputs:
        return "its output was never produced", [commit], True
    appends = [output.append for output in outputs if output.append is not None]
    if any(append.tick < commit.tick for append in appends):
        return None
    if len(appends) < len(outputs):
        pipeline.reasons.append(f"it is unknown when the output of {name_of(record)} was appended")
        return None
    first = min(appends, key=lambda append: append.tick)
    # A request that had arrived before may have been appended before the commit, and answered after it.
    is_after = all(commit.arrived < append.number for append in appends)
    what = "came only" if is_after else "was on its way, and came"
    return f"its output {what} at request {first.number}", [commit, first], is_after


def commits_do_not_go_back(pipeline: Pipeline, check: str = "commits_do_not_go_back") -> Iterator[Finding]:
    """Yield the commits of a member that are lower than one whose answer the member had received.

    Both came on one connection and in one generation, and the lower one was sent after the higher one was answered.
    """
    if not pipeline.needs_facts():
        return
    for (group, partition), commits in pipeline.commits.items():
        highest: dict[tuple[str, int, str], Commit] = {}
        for commit in commits:
            if pipeline.by_operator(commit):
                highest.clear()
                continue
            by = commit.member, commit.generation, commit.connection
            before = highest.get(by)
            if before is None or commit.offset >= before.offset:
                if commit.is_answered or before is None:
                    highest[by] = commit
            elif before.is_answered and before.is_before(commit):
                summary = (
                    f"{commit.client} committed {commit.offset} of {shown(partition)} for {group} at request "
                    f"{commit.number}, after {before.offset} at request {before.number}"
                )
                yield pipeline.finding(check, summary, (partition, commit.offset), [before, commit], certain=True)
                highest[by] = commit


def no_zombie_writes(pipeline: Pipeline, check: str = "no_zombie_writes") -> Iterator[Finding]:
    """Yield the outputs that an instance wrote after another had taken over the input's partition and read from it.

    Only outputs that the new owner wrote as well are findings. Instances are tied by the client ids of their consumer
    and producer.
    """
    if not pipeline.needs_facts():
        return
    for partition, owners in _owners(pipeline).items():
        reads = [read for read in pipeline.facts.of_topics(Read, {partition[0]}) if read.partition == partition]
        for old, new in pairwise(owners):
            if old.client == new.client:
                if old.member != new.member:
                    pipeline.reasons.append(f"{shown(partition)} changed hands between clients of one id, {old.client}")
                continue
            regained = [owner.tick for owner in owners if owner.tick > new.tick and owner.client == old.client]
            until = min(regained, default=len(pipeline.facts))
            first = next((read for read in reads if read.tick > new.tick and read.client == new.client), None)
            if first is not None:
                yield from _zombies(pipeline, check, (old, new), first, until)


def _zombies(
    pipeline: Pipeline, check: str, owners: tuple[Assignment, Assignment], first: Read, until: int
) -> Iterator[Finding]:
    """Yield the outputs of inputs of a partition by its old owner, after the new one's `first` read."""
    old, new = owners
    for record, ids in pipeline.input_ids:
        if (record.topic, record.partition) != first.partition:
            continue
        for output_id in ids:
            outputs = pipeline.outputs_of.get(output_id, ())
            appends = [output.append for output in outputs if output.append is not None]
            if any(not _is_tied(pipeline, append.client) for append in appends):
                pipeline.reasons.append(f"no consumer belongs to the producer {appends[0].client}: give `instances`")
                continue
            late = [a for a in appends if a.tick < until and first.is_before(a) and _is_of(pipeline, a, old.client)]
            if late and any(_is_of(pipeline, append, new.client) for append in appends):
                summary = (
                    f"{old.client} wrote the output {output_id!r} of {name_of(record)} at request {late[0].number}, "
                    f"after {new.client} had taken over {shown(first.partition)} and read from it at request "
                    f"{first.number}; {new.client} wrote it, too"
                )
                yield pipeline.finding(check, summary, place_of(record), [old, new, first, *appends], certain=True)


def _owners(pipeline: Pipeline) -> dict[TopicPartition, list[Assignment]]:
    """Return the members that got each input partition, in order."""
    found: dict[TopicPartition, list[Assignment]] = {}
    for fact in pipeline.facts.of(Assignment):
        state = pipeline.groups.get(fact.group)
        if state is not None and not state.is_share:
            for partition in fact.partitions:
                if partition[0] in pipeline.input_topics:
                    found.setdefault(partition, []).append(fact)
    return found


def _is_of(pipeline: Pipeline, append: Append, consumer: str) -> bool:
    """Return whether the producer of a batch and a consumer belong to one instance."""
    tied = (pipeline.about.get("instances") or {}).get(consumer)
    return append.client == tied if tied is not None else _ROLE.sub("", append.client) == _ROLE.sub("", consumer)


def _is_tied(pipeline: Pipeline, producer: str) -> bool:
    """Return whether the consumer of a producer's instance is known."""
    consumers = {fact.client for fact in pipeline.facts.of(Assignment)}
    return producer in (pipeline.about.get("instances") or {}).values() or _ROLE.sub("", producer) in {
        _ROLE.sub("", c) for c in consumers
    }
