"""The views of state: groups, transactions, fetch sessions and waiting requests, and one group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from textual.widgets import DataTable, Static

from minibroker_lab.terminal.view import View, fill, number, place, table, time_of_day

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from minibroker_lab.terminal.view import PageClient

_SHOWN: Final = 12


class StateView(View):
    """The view of the state that clients have created in the broker."""

    def __init__(self, client: PageClient) -> None:
        super().__init__(client, "State")

    def body(self) -> ComposeResult:
        """Create the four tables."""
        yield table("groups", ("Group", "Protocol", "State", "Generation", "Members"))
        yield table("transactions", ("Transactional id", "State", "Producer id", "Epoch", "Partitions"))
        yield table(
            "sessions", ("Fetch session", "Broker", "Next epoch", "Last used", "Bytes saved", "Cached partitions")
        )
        yield table("delayed", ("Request that waits", "Broker", "Client", "Waits for"))

    async def load(self) -> None:
        """Fetch the state."""
        found = await self.client.get("/state")
        self._fill("groups", [(each["group_id"], _group_cells(each)) for each in found["groups"]["groups"]])
        transactions = found["transactions"]["transactions"]
        self._fill("transactions", [(each["transactional_id"], _transaction_cells(each)) for each in transactions])
        self._fill("sessions", [(f"{each['node']} {each['id']}", _session_cells(each)) for each in found["sessions"]])
        self._fill("delayed", [(str(at), _delayed_cells(each)) for at, each in enumerate(found["delayed"])])

    def _fill(self, name: str, rows: list[tuple[str, list[Any]]]) -> None:
        fill(self.table(f"#{name}"), rows)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the selected group."""
        opened: DataTable[Any] = cast("Any", event).data_table  # Textual's type is incomplete.
        if opened.id == "groups" and event.row_key.value is not None:
            self.open(GroupView(self.client, event.row_key.value))


def _group_cells(each: dict[str, Any]) -> list[Any]:
    return [each["group_id"] or "(empty name)", each["type"], each["state"], each["generation"], each["members"]]


def _transaction_cells(each: dict[str, Any]) -> list[Any]:
    partitions = _names(each["partitions"]) or "none"
    return [each["transactional_id"], each["state"], each["producer_id"], each["producer_epoch"], partitions]


def _names(partitions: list[tuple[str, int]]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in partitions)


def _session_cells(each: dict[str, Any]) -> list[Any]:
    cached = [f"{part['topic']}-{part['partition']} at {part['fetch_offset']:,}" for part in each["partitions"]]
    more = f" and {each['partition_count'] - _SHOWN} more" if each["partition_count"] > _SHOWN else ""
    shown = ", ".join(cached[:_SHOWN]) + more
    savings = each["savings"]
    saved = "not known" if savings is None else f"{savings['saved_bytes']:,} of {savings['full_bytes']:,}"
    return [each["id"], each["node"], each["epoch"], time_of_day(each["last_used_ms"]), saved, shown]


def _delayed_cells(each: dict[str, Any]) -> list[Any]:
    client = f"{each['client_id'] or ''} {each['client']}".strip()
    return [f"{each['api'] or 'unknown'} v{each['version']}", each["node"], client, each["waits_for"]]


class GroupView(View):
    """The view of one group: its members and its committed offsets."""

    def __init__(self, client: PageClient, group_id: str) -> None:
        super().__init__(client, f"Group {group_id}")
        self._path = f"/groups/{quote(group_id, safe='')}"

    def body(self) -> ComposeResult:
        """Create the facts and the two tables."""
        yield Static("", classes="facts", markup=False)
        yield table("members", ("Member", "Client", "Reads", "State"))
        yield table("offsets", ("Partition", "Committed", "High watermark", "Lag"))

    async def load(self) -> None:
        """Fetch the group."""
        group = await self.client.get(self._path)
        states = "  ".join(f"[{each}]" if each == group["state"] else each for each in group["states"])
        facts = f"{states}\n{group['type']}, generation {group['generation']}, {group['protocol'] or 'no assignor'}"
        self.query_one(".facts", Static).update(facts)
        members = [(each["member_id"], _member_cells(each)) for each in group["members"]]
        fill(self.table("#members"), members)
        offsets = [(place(each), _offset_cells(each)) for each in group["offsets"]]
        fill(self.table("#offsets"), offsets)


def _member_cells(each: dict[str, Any]) -> list[str]:
    name = each["group_instance_id"] or each["member_id"]
    reads = "unknown" if each["partitions"] is None else _names(each["partitions"]) or "nothing"
    state = f"waits in {each['waits_in']}" if each["waits_in"] else each["state"] or ""
    leads = ", leader" if each["is_leader"] else ""
    return [f"{name}{leads}", f"{each['client_id']} {each['client_host']}", reads, state]


def _offset_cells(each: dict[str, Any]) -> list[str]:
    return [place(each), *(number(each[name]) for name in ("committed", "high_watermark", "lag"))]
