"""Checks of applications: collects what `minibroker_chaos.check` judges, from logs, groups and facts."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from minibroker.cluster.errors import OperationError, WaitTimeoutError, is_the_callers
from minibroker.coordinators.groups.share.group import ShareGroup
from minibroker.operations import groups as operations_groups
from minibroker.operations.catching_up import wait_until_caught_up
from minibroker.operations.records import record_slices, topic_of
from minibroker.server.services import Services
from minibroker_chaos.check import commits
from minibroker_chaos.check import outputs as written_outputs
from minibroker_chaos.check.fact_types import Commit, Read
from minibroker_chaos.check.facts import HEARTBEATS, Facts, facts_of
from minibroker_chaos.check.logs import PartitionLog, iterate_batches, open_log
from minibroker_chaos.check.pipeline import GroupState, Pipeline, UnmatchedError
from minibroker_chaos.check.results import CheckResult, Finding, make_result
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS

if TYPE_CHECKING:
    from minibroker_chaos.check.pipeline import Matching

__tracebackhide__ = is_the_callers

Topics = str | Sequence[str]

_CHECKS: Final[Mapping[str, Callable[[Pipeline], Iterator[Finding]]]] = {
    "no_loss": written_outputs.no_loss,
    "exactly_once": written_outputs.exactly_once,
    "no_zombie_writes": commits.no_zombie_writes,
    "order_by_key": written_outputs.order_by_key,
    "no_commit_ahead": commits.no_commit_ahead,
    "commits_do_not_go_back": commits.commits_do_not_go_back,
    "no_duplicates": written_outputs.no_duplicates,
}
"""The checks of records, in the order of their findings."""
CHECKS: Final = (*_CHECKS, "caught_up", "all")


async def run_check(services: Services, check: str, inputs: Topics, outputs: Topics, about: "Matching") -> CheckResult:
    """Run one check, or with "all" those that every application has to pass.

    "all" has no_loss, no_commit_ahead and commits_do_not_go_back, and exactly_once if all outputs are transactional.

    Raises:
        NotFoundError: A topic does not exist.
        OperationError: There is no such check or key, or topics are missing.
    """
    if check not in _CHECKS and check != "all":
        raise OperationError(f"check: there is no {check!r}; checks: {', '.join(CHECKS)}")
    if not inputs:
        raise OperationError(f"inputs: {check} needs the topics that the application reads")
    if not outputs and check != "commits_do_not_go_back":
        raise OperationError(f"outputs: {check} needs the topics that the application writes")
    pipeline = await _read(services, inputs, outputs, about)
    if check != "all":
        return _judge(pipeline, check)
    batches = [batch for log in pipeline.outputs for batch in log.batches if not batch.is_control]
    is_transactional = bool(batches) and all(batch.is_transactional for batch in batches)
    names = ["no_loss", *(["exactly_once"] if is_transactional else []), "no_commit_ahead", "commits_do_not_go_back"]
    results = [_judge(pipeline, name) for name in names]
    findings = [finding for result in results for finding in result.findings]
    reasons = [f"{result.check}: {reason}" for result in results for reason in result.reasons]
    return make_result("all", findings, reasons)


def _judge(pipeline: Pipeline, check: str) -> CheckResult:
    pipeline.reasons = []
    try:
        if check != "commits_do_not_go_back":
            pipeline.check_ids()
        findings = list(_CHECKS[check](pipeline))
    except UnmatchedError as error:
        return make_result(check, [], [str(error)])
    return make_result(check, findings, pipeline.reasons)


async def check_caught_up(
    services: Services,
    group: str,
    topic: str | None,
    timeout: float,  # noqa: ASYNC109 - part of the API
) -> CheckResult:
    """Check that a group reads and commits all records within `timeout` seconds."""
    facts = facts_of(services)
    try:
        await wait_until_caught_up(services, group, topic, timeout)
    except WaitTimeoutError as error:
        described = operations_groups.describe_group(services, group)
        pipeline = Pipeline((), (), facts, {group: GroupState({}, is_share=False)})
        is_stuck = not described.members or _is_stuck(facts, group)
        state = "nothing has moved for some heartbeats" if described.members else "nobody is in the group"
        summary = f"{error}{f'; {state}' if is_stuck else ''}"
        finding = pipeline.finding("caught_up", summary, ((topic or "", -1), -1), (), certain=is_stuck)
        return make_result("caught_up", [finding], [])
    return make_result("caught_up", [], [])


def _is_stuck(facts: Facts, group: str) -> bool:
    """Return whether a group has neither read nor committed anything since its last heartbeats."""
    beats = facts.heartbeats.get(group)
    if beats is None or len(beats) < HEARTBEATS:
        return False
    moves = [fact.tick for kind in (Read, Commit) for fact in facts.of(kind)]
    return not moves or moves[-1] < beats[0]


async def _read(services: Services, inputs: Topics, outputs: Topics, about: "Matching") -> Pipeline:
    """Read the logs and groups that a check is about."""
    facts = facts_of(services)
    services.core.writes.commit()
    read = [await _read_log(services, facts, *place) for place in _partitions(services, inputs)]
    written = [await _read_log(services, facts, *place) for place in _partitions(services, outputs)]
    names = {log.partition[0] for log in read}
    named = about.get("group")
    states: dict[str, GroupState] = {}
    if services.core.topics.get(CONSUMER_OFFSETS) is not None:
        for group_id in await operations_groups.group_ids(services):
            group = operations_groups.find_group(services, group_id)
            committed = operations_groups.committed_offsets(services, group_id)
            if named in {None, group_id} and any(topic in names for topic, _ in committed):
                states[group_id] = GroupState(committed, isinstance(group, ShareGroup))
    if named is not None:
        states.setdefault(named, GroupState({}, is_share=False))
    return Pipeline(read, written, facts, states, about)


def _partitions(services: Services, topics: Topics) -> list[tuple[str, int]]:
    names = [topics] if isinstance(topics, str) else topics
    return [(name, partition.index) for name in names for partition in topic_of(services, name).partitions]


async def _read_log(services: Services, facts: Facts, topic: str, index: int) -> PartitionLog:
    """Read the records and the batches of a partition, in slices."""
    partition = topic_of(services, topic).partitions[index]
    log = open_log(partition, facts.starts)
    end = partition.log.last_stable_offset
    async for records in record_slices(services, partition, 0, end, committed=True):
        log.records += records
    for batches in iterate_batches(partition, log.end):
        log.batches += batches
        await asyncio.sleep(0)
    return log
