"""A view of bytes next to their fields. The selected field is marked in the bytes and explained below them."""

import base64
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static, Tree
from textual.widgets.tree import TreeNode

Field: TypeAlias = Mapping[str, Any]
"""A node of a field tree, in the page's JSON format."""

_OPEN_AT_FIRST: Final = 60
_LONGEST: Final = 120
_QUIET: Final = frozenset({"(length)", "(count)", "(content)"})
_WIDTH: Final = 16
_COLUMNS: Final = 6 + 2 + 3 * _WIDTH + 1 + _WIDTH
_MARK: Final = Style(reverse=True)
_DIM: Final = Style(dim=True)
_PLAIN: Final = Style()
_PRINTABLE: Final = range(0x20, 0x7F)


class TreeItem(NamedTuple):
    """A field and the bytes that contain it: those of a frame or of a decompressed batch."""

    field: Field
    data: bytes


class BytesView(Vertical):
    """A view of a request, a response or a batch.

    Args:
        part: The page's JSON, with `hex`, `tree` and `meanings`.
    """

    DEFAULT_CSS = """
    BytesView { height: 1fr; }
    BytesView HexPane { width: 75; height: 1fr; }
    BytesView Tree { width: 1fr; height: 1fr; }
    BytesView .about { height: auto; max-height: 5; padding: 0 1; background: $panel; }
    """

    def __init__(self, part: Mapping[str, Any]) -> None:
        super().__init__()
        self._part = part
        self._data = bytes.fromhex(part["hex"])

    def compose(self) -> ComposeResult:
        """Create the panes, and fill the tree."""
        with Horizontal():
            yield HexPane()
            tree: Tree[TreeItem] = Tree(label_of(self._part["tree"]), TreeItem(self._part["tree"], self._data))
            _add(tree.root, self._part["tree"], self._data)
            tree.root.expand()
            yield tree
        yield Static("", classes="about", markup=False)

    def on_mount(self) -> None:
        """Show the bytes."""
        self.query_one(HexPane).show(self._data, range(0))

    def on_tree_node_highlighted(self, event: Tree.NodeHighlighted[TreeItem]) -> None:
        """Mark and explain the selected field."""
        item = event.node.data
        if item is None:
            return
        field = item.field
        self.query_one(HexPane).show(item.data, range(field["start"], field["end"]))
        self.query_one(".about", Static).update(about(field, self._part.get("meanings", {})))


def _add(node: TreeNode[TreeItem], field: Field, data: bytes) -> None:
    """Add the children of a field, and the fields of its decompressed content."""
    _add_children(node, field.get("children", ()), data)
    inside = field.get("inside")
    if inside is not None:
        content = base64.b64decode(inside["base64"])
        whole = {"name": "(decompressed)", "type": "BYTES", "start": 0, "end": len(content)}
        branch = node.add(label_of(whole), TreeItem(whole, content), expand=True)
        _add_children(branch, inside.get("children", ()), content)


def _add_children(node: TreeNode[TreeItem], children: Any, data: bytes) -> None:
    for child in children:
        if "children" in child or "inside" in child:
            inner = child.get("children", ())
            has_values = "inside" in child or any(field["name"] not in _QUIET for field in inner[:_OPEN_AT_FIRST])
            opens = has_values and len(inner) <= _OPEN_AT_FIRST
            _add(node.add(label_of(child), TreeItem(child, data), expand=opens), child, data)
        else:
            node.add_leaf(label_of(child), TreeItem(child, data))


def label_of(field: Field) -> Text:
    """Return the label of a field: name, value and note. Values are not parsed as markup."""
    label = Text(str(field["name"]))
    if "value" in field:
        value = field["value"]
        value_text = str(cast("Field", value)["base64"] if isinstance(value, dict) else value)
        label.append(f" {_shorten(value_text)}", "bold")
    if field.get("note"):
        label.append(f" {_shorten(field['note'])}", "dim")
    if field.get("fault"):
        label.append(f" {field['fault']}", "bold red")
    return label


def about(field: Field, meanings: Mapping[str, Any]) -> str:
    """Return the description of a field: its position, type and meaning."""
    meaning: Field = meanings.get(field.get("about", "")) or meanings.get(field["name"]) or {}
    size = field["end"] - field["start"]
    summary = f"{field['name']}: {field['type']}, {size} byte{'' if size == 1 else 's'} from {field['start']}"
    kip = meaning.get("kip")
    source = f" (KIP-{kip})" if isinstance(kip, int) else f" ({kip})" if kip else ""
    remark = field.get("fault") or field.get("note")
    return f"{summary}\n{meaning.get('text', '')}{source}" + (f"\n{remark}" if remark else "")


def _shorten(text: str) -> str:
    text = "".join(character if character.isprintable() else "·" for character in text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


class HexPane(ScrollView):
    """A hex pane for any number of bytes, which draws only the visible lines.

    Attributes:
        data: The bytes.
        marked: The range of the marked bytes.
    """

    data = b""
    marked = range(0)

    def show(self, data: bytes, marked: range) -> None:
        """Show bytes with a marked range, and scroll to the range."""
        self.data = data
        self.marked = marked
        self.virtual_size = Size(_COLUMNS, -(-len(data) // _WIDTH))
        line = marked.start // _WIDTH
        if not self.scroll_offset.y <= line < self.scroll_offset.y + max(1, self.size.height):
            self.scroll_to(y=max(0, line - 2), animate=False)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return one line of the pane."""
        start = (y + self.scroll_offset.y) * _WIDTH
        part = self.data[start : start + _WIDTH]
        if not part:
            return Strip.blank(self.size.width)
        styles = [_MARK if start + index in self.marked else _PLAIN for index in range(len(part))]
        segments = [Segment(f"{start:06x}  ", _DIM)]
        for byte, style in zip(part, styles, strict=True):
            segments += [Segment(f"{byte:02x}", style), Segment(" ")]
        segments.append(Segment("   " * (_WIDTH - len(part)) + " "))
        for byte, style in zip(part, styles, strict=True):
            segments.append(Segment(chr(byte) if byte in _PRINTABLE else "·", style))
        return Strip(segments).crop(self.scroll_offset.x, self.scroll_offset.x + self.size.width)
