"""The views of logs: all partitions, one log with its batches, and one batch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

from textual.widgets import Input, Static

from minibroker_lab.terminal.requests import part_view
from minibroker_lab.terminal.view import (
    PageError,
    View,
    create_table,
    fill_table,
    format_number,
    format_size,
    format_time_of_day,
    selected_key,
)

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from minibroker_lab.terminal.view import PageClient

_PARTITIONS: Final = ("Partition", "Leader", "Log start", "Last stable", "High watermark", "End", "Size", "Segments")
_OFFSETS: Final = ("log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset")
_BATCHES: Final = ("Offsets", "Segment", "Position", "Size", "Records", "Codec", "Time", "Producer", "Kind")


class LogList(View):
    """The view of all partitions."""

    def __init__(self, client: PageClient) -> None:
        super().__init__(client, "Logs")

    def body(self) -> ComposeResult:
        """Create the table."""
        yield create_table("partitions", _PARTITIONS)

    async def load(self) -> None:
        """Fetch all partitions."""
        page = await self.client.get("/logs")
        rows = [
            (f"{partition['topic']} {partition['index']}", _partition_cells(partition))
            for partition in page["partitions"]
        ]
        fill_table(self.table("#partitions"), rows)

    def on_data_table_row_selected(self) -> None:
        """Open the selected log."""
        key = selected_key(self.table("#partitions"))
        if key is not None:
            topic, _, index = key.rpartition(" ")
            self.open(LogView(self.client, topic, int(index)))


def _partition_cells(partition: dict[str, Any]) -> list[str]:
    leader = "none" if partition["leader"] is None else str(partition["leader"])
    return [
        f"{partition['topic']}-{partition['index']}",
        leader,
        *(format_number(partition[name]) for name in _OFFSETS),
        format_size(partition["size"]),
        format_number(partition["segment_count"]),
    ]


class LogView(View):
    """The view of one log: its offsets, the batches around an offset, and the steps that find an offset."""

    BINDINGS: ClassVar[list[BindingType]] = [("o", "offset", "Find an offset"), ("end", "end", "End of the log")]

    def __init__(self, client: PageClient, topic: str, index: int) -> None:
        super().__init__(client, f"{topic}-{index}")
        self._path = f"/logs/{quote(topic, safe='')}/{index}"
        self._name = f"{topic}-{index}"
        self._offset: int | None = None

    def body(self) -> ComposeResult:
        """Create the line of offsets, the input, the steps and the table of batches."""
        yield Static("", classes="facts", id="marks", markup=False)
        yield Input(placeholder="Offset; Enter", id="offset")
        yield Static("", classes="facts", id="steps", markup=False)
        yield create_table("batches", _BATCHES)

    def on_mount(self) -> None:
        """Hide the offset input and focus the table of batches."""
        self.hide_input()
        super().on_mount()

    async def load(self) -> None:
        """Fetch the log and its batches."""
        log = await self.client.get(self._path)
        marks = "   ".join(f"{name.replace('_', ' ')} {log[name]:,}" for name in _OFFSETS)
        segment_size = format_size(log["segment_bytes"])
        sizes = f"{format_size(log['size'])} in {log['segment_count']} segments of at most {segment_size}"
        self.query_one("#marks", Static).update(f"{marks}\n{sizes}\n{log['directory']}")
        offset = log["log_start_offset"] if self._offset is None else self._offset
        page = await self.client.get(f"{self._path}/batches?offset={offset}")
        rows = [(f"{batch['segment']} {batch['position']}", _batch_cells(batch)) for batch in page["batches"]]
        fill_table(self.table("#batches"), rows)

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Show the steps that find an offset, and the batches around it."""
        text = event.value.strip()
        self.hide_input()
        steps = self.query_one("#steps", Static)
        if not text.isdecimal():
            steps.update(f"“{text}” is not an offset; give a number from 0 on")
            return
        self._offset = int(text)
        self.run_worker(self.show(partial(self._find, self._offset)))
        self.refresh_soon()

    async def _find(self, offset: int) -> None:
        steps = self.query_one("#steps", Static)
        try:
            result = await self.client.get(f"{self._path}/find?offset={offset}")
        except PageError as error:
            steps.update(str(error))
            return
        steps.update("\n".join(f"{count}. {step['text']}" for count, step in enumerate(result["steps"], 1)))

    def on_data_table_row_selected(self) -> None:
        """Open the selected batch."""
        key = selected_key(self.table("#batches"))
        if key is not None:
            segment, _, position = key.partition(" ")
            path = f"{self._path}/batch?segment={segment}&position={position}"
            self.open(BatchView(self.client, f"{self._name}, byte {position} of segment {segment}", path))

    def action_offset(self) -> None:
        """Show the input for an offset."""
        self.show_input("#offset")

    async def action_end(self) -> None:
        """Show the newest batches."""
        await self.show(self._to_end)

    async def _to_end(self) -> None:
        log = await self.client.get(self._path)
        self._offset = max(log["log_start_offset"], log["log_end_offset"] - 1)
        self.refresh_soon()


def _batch_cells(batch: dict[str, Any]) -> list[str]:
    producer = f"{batch['producer_id']} epoch {batch['producer_epoch']}" if batch["producer_id"] >= 0 else ""
    kind = "transactional" if batch["is_transactional"] else ""
    if batch["is_control"]:
        kind = f"end of transaction: {batch['control_type'].lower()}"
    return [
        f"{batch['base_offset']:,} to {batch['last_offset']:,}",
        str(batch["segment"]),
        format_number(batch["position"]),
        format_size(batch["size"]),
        format_number(batch["records"]),
        batch["codec"],
        format_time_of_day(max(batch["max_timestamp"], 0)),
        producer,
        kind,
    ]


class BatchView(View):
    """The view of one batch: its bytes and fields. They are added once the batch has been fetched."""

    def __init__(self, client: PageClient, title: str, path: str) -> None:
        super().__init__(client, title, 0)
        self._path = path

    async def load(self) -> None:
        """Fetch the batch."""
        part = await self.client.get(self._path)
        await self.mount(part_view(part), before="Footer")
        for tree in self.query("Tree"):
            tree.focus()
