"""The modules of the product, their imports, and import cycles."""

import ast
import functools
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.documented import ROOT

_PACKAGES: Final = {
    "minibroker": ".",
    "minibroker_lab": ".",
    "minibroker_grade": ".",
    "minibroker_chaos": ".",
    "minibroker_control": ".",
    "minibroker_container": ".",
    "minibroker_registry": ".",
    "minibroker_tools": ".",
    "minibroker_protocol": "protocol",
    "minibroker_storage": "storage",
    "minibroker_pipeline": "pipeline",
}
Graph = Mapping[str, Iterable[str]]


def modules_of_product() -> dict[str, Path]:
    """Return the paths of the product's modules by module name."""
    paths: dict[str, Path] = {}
    for package, base in _PACKAGES.items():
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", f"{base}/{package}/*.py"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        for line in listed.stdout.split():
            path = ROOT / line
            if path.exists():
                dotted = ".".join(path.relative_to(ROOT / base).with_suffix("").parts)
                paths[dotted.removesuffix(".__init__")] = path
    return paths


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text())


def statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the statements of a body and those within them, in order."""
    for node in body:
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(node, field, ()))


def imported_names(name: str, path: Path, nodes: Iterable[ast.AST] | None = None) -> Iterable[str]:
    """Yield the names that a module imports, including imports in functions and for types, or those in `nodes`."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in statements(tree_of(path).body) if nodes is None else nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def import_graph() -> dict[str, set[str]]:
    """Return which modules of the product each module imports."""
    modules = modules_of_product()
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for imported in imported_names(name, path):
            target = imported if imported in modules else imported.rpartition(".")[0]
            if target in modules and target != name:
                graph[name].add(target)
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components of more than one node (Tarjan), the largest first."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    results: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = lowest[name] = len(index)
        stack.append(name)
        for target in graph[name]:
            if target not in index:
                visit(target)
            if target in stack:
                lowest[name] = min(lowest[name], lowest[target])
        if lowest[name] == index[name]:
            circle = stack[stack.index(name) :]
            del stack[-len(circle) :]
            if len(circle) > 1:
                results.append(sorted(circle))

    for name in graph:
        if name not in index:
            visit(name)
    return sorted(results, key=len, reverse=True)
