"""A drawing as SVG, with one set of colors for light and dark pages."""

from typing import Final
from xml.etree import ElementTree as ET

_NAMESPACE: Final = "http://www.w3.org/2000/svg"
_STYLE: Final = """
text { fill: #1f2328 }
.soft { fill: #59636e }
.title { font-weight: 600 }
.warm { fill: #bc4c00 }
.end { text-anchor: end }
.middle { text-anchor: middle }
.bytes { font-family: ui-monospace, monospace; font-size: 11px }
.output { font-family: ui-monospace, monospace; font-size: 11px; white-space: pre }
rect { fill: #f6f8fa; stroke: #d1d9e0 }
.number { fill: #ddf4ff; stroke: none }
.content { fill: #dafbe1; stroke: none }
.frame { fill: #eff2f5; stroke: none }
.part { fill: none; stroke: none }
.box { fill: #ddf4ff; stroke: #0969da }
.done { fill: #dafbe1; stroke: #1a7f37 }
path { stroke: #59636e; fill: none; stroke-width: 1.3 }
.arrow { marker-end: url(#tip) }
.life { stroke: #d1d9e0 }
#tip path { fill: #59636e; stroke: none }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .soft { fill: #9198a1 }
  .warm { fill: #f0883e }
  rect { fill: #151b23; stroke: #3d444d }
  .number { fill: #0c2d6b }
  .content { fill: #0f3d1c }
  .frame { fill: #262c36 }
  .box { fill: #0c2d6b; stroke: #4493f8 }
  .done { fill: #0f3d1c; stroke: #3fb950 }
  path { stroke: #9198a1 }
  .life { stroke: #3d444d }
  #tip path { fill: #9198a1 }
}
"""


class Drawing:
    """An SVG that grows downwards. Positions and sizes are in pixels."""

    def __init__(self, width: float, title: str) -> None:
        self.width = width
        self.height = 0.0
        self._root = ET.Element("svg", {"xmlns": _NAMESPACE, "role": "img"})
        self._root.set("font-family", "system-ui, sans-serif")
        self._root.set("font-size", "12")
        self._add("title", {}, title)
        self._add("style", {}, _STYLE)
        marker = ET.SubElement(self._add("defs", {}), "marker", {"id": "tip", "viewBox": "0 0 10 10"})
        for name, value in {"refX": 9, "refY": 5, "markerWidth": 8, "markerHeight": 8, "orient": "auto"}.items():
            marker.set(name, str(value))
        ET.SubElement(marker, "path", {"d": "M0 0L10 5L0 10z"})

    def box(self, x: float, y: float, width: float, height: float, kind: str = "") -> None:
        """Draw a rectangle. `kind` is a class of the style sheet."""
        place = {"x": x, "y": y, "width": width, "height": height}
        self._add("rect", {"class": kind, **{name: f"{value:g}" for name, value in place.items()}, "rx": "3"})
        self._reach(y + height)

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        """Write a text. `y` is its baseline."""
        if words:
            self._add("text", {"class": kind, "x": f"{x:g}", "y": f"{y:g}"}, words)
            self._reach(y + 4)

    def line(self, *points: tuple[float, float], kind: str = "") -> None:
        """Draw a line through points. The kind "arrow" adds an arrowhead."""
        self._add("path", {"class": kind, "d": "M" + "L".join(f"{x:g} {y:g}" for x, y in points)})
        self._reach(max(y for _, y in points))

    def source(self) -> str:
        """Return the text of the SVG file."""
        self._root.set("viewBox", f"0 0 {self.width:g} {self.height + 8:g}")
        ET.indent(self._root)
        return ET.tostring(self._root, encoding="unicode") + "\n"

    def _add(self, name: str, attributes: dict[str, str], text: str = "") -> ET.Element:
        element = ET.SubElement(self._root, name, {key: value for key, value in attributes.items() if value})
        element.text = text or None
        return element

    def _reach(self, y: float) -> None:
        self.height = max(self.height, y)
