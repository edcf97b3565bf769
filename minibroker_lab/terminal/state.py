"""The state views: one of groups, transactions, fetch sessions and waiting requests, and one of a single group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from textual.widgets import DataTable, Static

from minibroker_lab.terminal.view import (
    View,
    create_table,
    fill_table,
    format_number,
    format_partition,
    format_time_of_day,
)

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from minibroker_lab.terminal.view import PageClient

_SHOWN: Final = 12


class StateView(View):
    """The view of the state that clients have created in the broker, such as groups and transactions."""

    def __init__(self, client: PageClient) -> None:
        super().__init__(client, "State")

    def body(self) -> ComposeResult:
        """Create the four tables."""
        yield create_table("groups", ("Group", "Protocol", "State", "Generation", "Members"))
        yield create_table("transactions", ("Transactional id", "State", "Producer id", "Epoch", "Partitions"))
        yield create_table(
            "sessions", ("Fetch session", "Broker", "Next epoch", "Last used", "Bytes saved", "Cached partitions")
        )
        yield create_table("delayed", ("Request that waits", "Broker", "Client", "Waits for"))

    async def load(self) -> None:
        """Fetch the state."""
        state = await self.client.get("/state")
        transactions = state["transactions"]["transactions"]
        rows = {
            "groups": [(group["group_id"], _group_cells(group)) for group in state["groups"]["groups"]],
            "transactions": [(cells[0], cells) for cells in map(_transaction_cells, transactions)],
            "sessions": [(f"{cells[1]} {cells[0]}", cells) for cells in map(_session_cells, state["sessions"])],
            "delayed": [(str(index), _delayed_cells(request)) for index, request in enumerate(state["delayed"])],
        }
        for name, table_rows in rows.items():
            fill_table(self.table(f"#{name}"), table_rows)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the selected group."""
        # The cast is needed because Textual's type is incomplete.
        opened: DataTable[Any] = cast("Any", event).data_table
        if opened.id == "groups" and event.row_key.value is not None:
            self.open(GroupView(self.client, event.row_key.value))


def _group_cells(group: dict[str, Any]) -> list[Any]:
    return [group["group_id"] or "(empty name)", group["type"], group["state"], group["generation"], group["members"]]


def _transaction_cells(transaction: dict[str, Any]) -> list[Any]:
    partitions = _names(transaction["partitions"]) or "none"
    names = ("transactional_id", "state", "producer_id", "producer_epoch")
    return [*(transaction[name] for name in names), partitions]


def _names(partitions: list[tuple[str, int]]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in partitions)


def _session_cells(session: dict[str, Any]) -> list[Any]:
    cached = [f"{part['topic']}-{part['partition']} at {part['fetch_offset']:,}" for part in session["partitions"]]
    more = f" and {session['partition_count'] - _SHOWN} more" if session["partition_count"] > _SHOWN else ""
    shown = ", ".join(cached[:_SHOWN]) + more
    savings = session["savings"]
    saved = "not known" if savings is None else f"{savings['saved_bytes']:,} of {savings['full_bytes']:,}"
    return [session["id"], session["node"], session["epoch"], format_time_of_day(session["last_used_ms"]), saved, shown]


def _delayed_cells(request: dict[str, Any]) -> list[Any]:
    client = f"{request['client_id'] or ''} {request['client']}".strip()
    return [f"{request['api'] or 'unknown'} v{request['version']}", request["node"], client, request["waits_for"]]


class GroupView(View):
    """The view of one group: its members and its committed offsets."""

    def __init__(self, client: PageClient, group_id: str) -> None:
        super().__init__(client, f"Group {group_id}")
        self._path = f"/groups/{quote(group_id, safe='')}"

    def body(self) -> ComposeResult:
        """Create the facts and the two tables."""
        yield Static("", classes="facts", markup=False)
        yield create_table("members", ("Member", "Client", "Reads", "State"))
        yield create_table("offsets", ("Partition", "Committed", "High watermark", "Lag"))

    async def load(self) -> None:
        """Fetch the group."""
        group = await self.client.get(self._path)
        states = "  ".join(f"[{state}]" if state == group["state"] else state for state in group["states"])
        facts = f"{states}\n{group['type']}, generation {group['generation']}, {group['protocol'] or 'no assignor'}"
        self.query_one(".facts", Static).update(facts)
        members = [(member["member_id"], _member_cells(member)) for member in group["members"]]
        fill_table(self.table("#members"), members)
        offsets = [(format_partition(partition), _offset_cells(partition)) for partition in group["offsets"]]
        fill_table(self.table("#offsets"), offsets)


def _member_cells(member: dict[str, Any]) -> list[str]:
    name = member["group_instance_id"] or member["member_id"]
    reads = "unknown" if member["partitions"] is None else _names(member["partitions"]) or "nothing"
    state = f"waits in {member['waits_in']}" if member["waits_in"] else member["state"] or ""
    leads = ", leader" if member["is_leader"] else ""
    return [f"{name}{leads}", f"{member['client_id']} {member['client_host']}", reads, state]


def _offset_cells(partition: dict[str, Any]) -> list[str]:
    return [
        format_partition(partition),
        *(format_number(partition[name]) for name in ("committed", "high_watermark", "lag")),
    ]
