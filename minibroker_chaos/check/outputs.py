"""Checks of the visible outputs of an application: none missing, none twice, none out of order."""

from collections.abc import Iterator
from typing import Any

from minibroker_chaos.check.fact_types import Cut, Fact, shown
from minibroker_chaos.check.logs import Record
from minibroker_chaos.check.pipeline import GroupState, Output, Pipeline, name_of, place_of
from minibroker_chaos.check.results import Finding


def no_loss(pipeline: Pipeline, check: str = "no_loss") -> Iterator[Finding]:
    """Yield the inputs without an output. They are certain if every group has passed the input.

    Compaction of an output leaves the latest value of a key: an input is excused by a later one with the same key.
    """
    pipeline.check_whole(pipeline.inputs)
    pipeline.check_whole(log for log in pipeline.outputs if not log.is_compacted)
    if any(state.is_share for state in pipeline.groups.values()):
        pipeline.needs_facts()
    outputs = pipeline.outputs_of
    superseded = _superseded(pipeline)
    may_be_hidden = bool(pipeline.unmatched_outputs) or pipeline.has_other_readers
    is_hidden = _may_be_removed(pipeline)
    if pipeline.unmatched_outputs:
        pipeline.reasons.append(f"{len(pipeline.unmatched_outputs)} outputs have no id, such as {_first(pipeline)}")
    for record, ids in pipeline.input_ids:
        missing = [output_id for output_id in ids if output_id not in outputs]
        few = [each for each in ids if 0 < len(outputs.get(each, ())) < pipeline.sharing_ids[each]]
        if few:
            pipeline.reasons.append(_sharing(few[0]))
        if not missing or is_hidden or _is_excused(pipeline, record, superseded):
            continue
        progress, about = pipeline.describe_progress(record)
        is_passed = bool(pipeline.groups) and all(
            _has_passed(pipeline, group, state, record) for group, state in pipeline.groups.items()
        )
        what = (
            "its output was never produced"
            if len(ids) == 1
            else f"{len(missing)} of its {len(ids)} outputs are missing"
        )
        cuts: list[Fact] = list(pipeline.facts.of_topics(Cut, {log.partition[0] for log in pipeline.outputs}))
        if cuts:
            what += f" or lost: {cuts[-1]}, as acks=1 allows"
        summary = f"{name_of(record)} {progress}; {what} (id {missing[0]!r})"
        yield pipeline.finding(
            check,
            summary,
            place_of(record),
            [*about, *cuts],
            certain=is_passed and not may_be_hidden and not superseded,
        )


def no_duplicates(pipeline: Pipeline, check: str = "no_duplicates") -> Iterator[Finding]:
    """Yield the outputs that are visible more often than their inputs ask for."""
    pipeline.check_whole(pipeline.outputs)
    for output_id, outputs in pipeline.outputs_of.items():
        allowed = pipeline.sharing_ids.get(output_id, 1)
        if 1 < len(outputs) < allowed:
            pipeline.reasons.append(_sharing(output_id))
        if output_id is None or len(outputs) <= allowed:
            continue
        again = outputs[allowed]
        places = ", ".join(name_of(output.record) for output in outputs[:4])
        writers = {(output.append.client, _connection_of(output)) for output in outputs if output.append is not None}
        how = _how_repeated(outputs) if len(writers) <= 1 else "processed again"
        times = f"{len(outputs)} times" if allowed == 1 else f"{len(outputs)} times instead of {allowed}"
        summary = f"the output {output_id!r} is visible {times} ({places}): {how}"
        yield pipeline.finding(check, summary, place_of(again.record), _appends_of(outputs), certain=True)


def _sharing(output_id: Any) -> str:
    return f"several inputs share the id {output_id!r}, but not as many outputs"


def order_by_key(pipeline: Pipeline, check: str = "order_by_key") -> Iterator[Finding]:
    """Yield the outputs that are first visible after those of a later input of the same partition and key.

    Only outputs of one partition and key are compared, and only ids that a single input expects. Records without a
    key have no order.
    """
    pipeline.check_whole(pipeline.outputs)
    inputs = {
        output_id: record
        for record, ids in pipeline.input_ids
        for output_id in ids
        if pipeline.sharing_ids[output_id] == 1
    }
    latest: dict[Any, tuple[Record, Output]] = {}
    seen: set[Any] = set()
    places = sorted(
        (
            (output.record.topic, output.record.partition, output.record.offset, output_id, output)
            for output_id, outputs in pipeline.outputs_of.items()
            if output_id in inputs
            for output in outputs
        ),
        key=lambda place: place[:3],
    )
    for topic, partition, _, output_id, output in places:
        record = inputs[output_id]
        if (topic, partition, output_id) in seen or record.key is None:
            continue
        seen.add((topic, partition, output_id))
        line = topic, partition, output.record.key, record.topic, record.partition, record.key
        before = latest.get(line)
        if before is None or before[0].offset <= record.offset:
            latest[line] = record, output
            continue
        summary = (
            f"the output of {name_of(record)} is at {name_of(output.record)}, after that of the later "
            f"{name_of(before[0])} at {name_of(before[1].record)}, for the same key"
        )
        certain = all(log.is_whole for log in pipeline.outputs)
        yield pipeline.finding(check, summary, place_of(record), _appends_of([before[1], output]), certain=certain)


def exactly_once(pipeline: Pipeline, check: str = "exactly_once") -> Iterator[Finding]:
    """Yield the inputs below the committed offset whose outputs are not visible once, and outputs of later inputs."""
    pipeline.check_whole([*pipeline.inputs, *pipeline.outputs])
    for log in (*pipeline.inputs, *pipeline.outputs):
        if log.is_open:
            pipeline.reasons.append(f"a transaction is open in {shown(log.partition)}")
    if len(pipeline.groups) != 1:
        names = ", ".join(pipeline.groups) or "none"
        pipeline.reasons.append(f"one group must read the inputs, or be named; there are: {names}")
    if pipeline.reasons:
        return
    ((group, state),) = pipeline.groups.items()
    if state.is_share:
        pipeline.reasons.append(f"{group} is a share group, which has no transactions")
        return
    for finding in no_loss(pipeline, check):
        if finding.offset < state.committed.get((finding.topic, finding.partition), 0):
            yield finding
    yield from no_duplicates(pipeline, check)
    for record, ids in pipeline.input_ids:
        committed = state.committed.get((record.topic, record.partition), 0)
        early = [output for output_id in ids for output in pipeline.outputs_of.get(output_id, ())]
        if record.offset < committed or not early or any(pipeline.sharing_ids[output_id] > 1 for output_id in ids):
            continue
        summary = (
            f"the output of {name_of(record)} is visible at {name_of(early[0].record)}, but {group} has committed "
            f"{committed} only"
        )
        certain = early[0].batch is not None and early[0].batch.is_transactional
        yield pipeline.finding(check, summary, place_of(record), _appends_of(early), certain=certain)


def _may_be_removed(pipeline: Pipeline) -> bool:
    """Return whether outputs were deleted in a way that leaves nothing to compare.

    Compaction leaves the latest output of each key, so the keys of inputs and outputs must be the same.
    """
    removed = [log for log in pipeline.outputs if not log.is_whole]
    if not removed or not all(log.is_compacted for log in removed):
        return bool(removed)
    keys = {output_id: record.key for record, ids in pipeline.input_ids for output_id in ids}
    has_own_keys = any(
        output.record.key != keys.get(output_id, output.record.key)
        for output_id, outputs in pipeline.outputs_of.items()
        for output in outputs
    )
    if has_own_keys:
        pipeline.reasons.append("compaction has removed outputs whose keys are not those of the inputs")
    return has_own_keys


def _superseded(pipeline: Pipeline) -> dict[tuple[Any, ...], int]:
    """Return the newest input of each partition and key that has an output, if outputs were compacted."""
    newest: dict[tuple[Any, ...], int] = {}
    if any(log.is_compacted and not log.is_whole for log in pipeline.outputs):
        for record, ids in pipeline.input_ids:
            if all(output_id in pipeline.outputs_of for output_id in ids):
                newest[record.topic, record.partition, record.key] = record.offset
    return newest


def _is_excused(pipeline: Pipeline, record: Record, superseded: dict[tuple[Any, ...], int]) -> bool:
    """Return whether a later input replaced this one, or whether share groups gave it up without accepting it."""
    if superseded.get((record.topic, record.partition, record.key), -1) > record.offset:
        return True
    shares = {group: state for group, state in pipeline.groups.items() if state.is_share}
    return len(shares) == len(pipeline.groups) > 0 and all(
        record.offset < state.committed.get((record.topic, record.partition), 0)
        and pipeline.accepted(group, record) is None
        for group, state in shares.items()
    )


def _has_passed(pipeline: Pipeline, group: str, state: GroupState, record: Record) -> bool:
    """Return whether a group will not get an input again."""
    if state.is_share:
        return pipeline.accepted(group, record) is not None
    return bool(record.offset < state.committed.get((record.topic, record.partition), 0))


def _how_repeated(outputs: list[Output]) -> str:
    """Return whether a producer repeated a batch or an application a record, as far as that can be told."""
    batches = [output.batch for output in outputs if output.batch is not None]
    if batches and all(batch.producer_id < 0 for batch in batches):
        return "produced twice by a producer without idempotence, or processed twice"
    return "processed again"


def _connection_of(output: Output) -> int:
    return -1 if output.batch is None else output.batch.producer_id


def _appends_of(outputs: list[Output]) -> list[Fact]:
    return [output.append for output in outputs if output.append is not None]


def _first(pipeline: Pipeline) -> str:
    return name_of(pipeline.unmatched_outputs[0].record)
