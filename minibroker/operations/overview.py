"""A few lines that tell what a broker holds and was asked: what one wants to see when a test has failed."""

from typing import TYPE_CHECKING

from minibroker.clock import SystemClock
from minibroker.commands.request_lines import line_of
from minibroker.operations.wording import counted, span
from minibroker.state import BrokerState

if TYPE_CHECKING:
    from minibroker.broker import Broker


def overview(broker: "Broker", requests: int) -> str:
    """Topics, groups and the newest requests of a running broker."""

    async def tell() -> str:
        return "\n".join(_lines(broker.state, requests))

    return broker.wait(tell())


def _lines(state: BrokerState, requests: int) -> list[str]:
    state.writes.commit()
    lines = ["topics:"]
    for topic in sorted(state.topics, key=lambda each: each.name):
        ends = {each.index: (each.log.log_start_offset, each.log.high_watermark) for each in topic.partitions}
        filled = ", ".join(f"{index}: {start}..{end}" for index, (start, end) in ends.items() if end)
        if not topic.is_internal:
            size = counted(len(ends), "partition")
            meant = state.misspelt_topics.get(topic.name)
            hint = f"; created for a client, did you mean {meant!r}?" if meant else ""
            lines.append(f"  {topic.name} ({size}), {f'offsets {filled}' if filled else 'no records'}{hint}")
    if len(lines) == 1:
        lines = ["topics: none"]
    groups = sorted(state.groups.store.groups(), key=lambda each: each.group_id)
    lines += ["groups:" if groups else "groups: none"]
    lines += [f"  {each.group_id}: {each.state.value}, {counted(len(each.members), 'member')}" for each in groups]
    if isinstance(state.clock, SystemClock) and state.clock.ahead_ms:
        lines.append(f"clock: {span(state.clock.ahead_ms / 1000)} ahead of the machine's")
    if state.journal is not None:
        entries = list(state.journal)
        left_out = f", the last {requests} of {len(entries)}" if len(entries) > requests else ""
        lines.append(f"requests{left_out}:" if entries else "requests: none")
        lines += [f"  {line_of(entry)}" for entry in entries[-requests:]]
    return lines
