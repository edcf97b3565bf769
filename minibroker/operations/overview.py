"""A few lines that tell what a broker holds and was asked: what one wants to see when a test has failed."""

from typing import TYPE_CHECKING

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
            lines.append(f"  {topic.name} ({len(topic.partitions)} partitions), offsets {filled or 'none'}")
    groups = sorted(state.groups.store.groups(), key=lambda each: each.group_id)
    lines += ["groups:" if groups else "groups: none"]
    lines += [f"  {each.group_id}: {each.state.value}, {len(each.members)} members" for each in groups]
    if state.journal is not None:
        entries = list(state.journal)
        lines.append(f"requests: {state.journal.count}" + (f", the last {requests}:" if entries else ""))
        for entry in entries[-requests:]:
            errors = ", ".join(sorted(code.name for code in entry.error_codes))
            answer = errors or ("answered" if entry.is_answered else "no answer")
            about = " ".join(sorted(entry.topics | entry.groups))
            fault = f" (fault: {entry.fault!r})" if entry.fault is not None else ""
            lines.append(f"  {entry.client_id}: {entry.api} v{entry.version} {about}: {answer}{fault}")
    return lines
