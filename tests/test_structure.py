"""The modules of the packages form no large circle, and the core of the broker stays small."""

import ast
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import pytest

from minibroker.core import Core
from tests.broker.harness import Harness

_ROOT: Final = Path(__file__).parent.parent
_PACKAGES: Final = {
    "minibroker": ".",
    "minibroker_tools": ".",
    "minibroker_protocol": "protocol",
    "minibroker_storage": "storage",
    "minibroker_pipeline": "pipeline",
}
_LARGEST_CIRCLE: Final = 3
_MOST_ATTRIBUTES: Final = 18

Graph = Mapping[str, Iterable[str]]


def _modules() -> dict[str, Path]:
    """The modules of the product by name."""
    found: dict[str, Path] = {}
    for package, base in _PACKAGES.items():
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", f"{base}/{package}/*.py"],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        for line in listed.stdout.split():
            path = _ROOT / line
            if path.exists():
                dotted = ".".join(path.relative_to(_ROOT / base).with_suffix("").parts)
                found[dotted.removesuffix(".__init__")] = path
    return found


def _imported(name: str, path: Path) -> Iterable[str]:
    """All names that a module imports from, also in functions and for types alone."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            yield from (f"{base}.{each.name}" for each in node.names)


def _graph() -> dict[str, set[str]]:
    """The imports of each module of the product that are of the product."""
    modules = _modules()
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for imported in _imported(name, path):
            target = imported if imported in modules else imported.rpartition(".")[0]
            if target in modules and target != name:
                graph[name].add(target)
    return graph


def _circles(graph: Graph) -> list[list[str]]:
    """The strongly connected components of more than one node (Tarjan), the largest one first."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = lowest[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
            if other in stack:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == index[name]:
            circle = stack[stack.index(name) :]
            del stack[-len(circle) :]
            if len(circle) > 1:
                found.append(sorted(circle))

    for name in graph:
        if name not in index:
            visit(name)
    return sorted(found, key=len, reverse=True)


def test_circles_are_found() -> None:
    graph = {"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": ["e"], "e": ["d"], "f": ["a"]}
    assert _circles(graph) == [["a", "b", "c"], ["d", "e"]]


def test_imports_in_functions_and_for_types_count(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(
        "import a\nfrom . import b\nif TYPE_CHECKING:\n    from .c import d\ndef f():\n    from e.g import h\n"
    )
    assert sorted(_imported("p.m", path)) == ["a", "e.g.h", "p.b", "p.c.d"]


def test_no_circle_of_imports_is_larger_than_three_modules() -> None:
    large = [circle for circle in _circles(_graph()) if len(circle) > _LARGEST_CIRCLE]
    assert not large, os.linesep.join(", ".join(circle) for circle in large)


def test_the_core_does_not_grow(harness: Harness) -> None:
    """New modules belong to `Services`, or to a room of the core."""
    public = {name for name in (*vars(harness.core), *vars(Core)) if not name.startswith("_")} - {"close", "closing"}
    assert len(public) <= _MOST_ATTRIBUTES, sorted(public)


@pytest.fixture
def harness(tmp_path: Path) -> Iterable[Harness]:
    """A broker without sockets."""
    made = Harness(str(tmp_path))
    yield made
    made.close()
