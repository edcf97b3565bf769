"""Modules form no large circle of imports, an import in a function saves time, the core of the broker stays small."""

import ast
import functools
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from minibroker.core import Core
from tests.broker.harness import Harness
from tests.samples import not_in_check

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


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _imported(name: str, path: Path, nodes: Iterable[ast.AST] | None = None) -> Iterable[str]:
    """All names that a module imports from, also in functions and for types alone; or those that `nodes` import."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(_tree(path)) if nodes is None else nodes:
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


def _loaded_with(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is loaded: not those of functions, nor those for types alone."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        for field in ("body", "orelse", "finalbody"):
            yield from _loaded_with(getattr(node, field, ()))


def _deferred(tree: ast.Module) -> Iterator[ast.stmt]:
    """The imports in functions."""
    found: dict[int, ast.stmt] = {}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            found |= {node.lineno: node for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)}
    yield from found.values()


def _module_of(imported: str, modules: Mapping[str, Path], node: ast.stmt) -> str:
    """The module that an import loads: of the product, or as it is written."""
    return imported if imported in modules or isinstance(node, ast.Import) else imported.rpartition(".")[0]


def _loads(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """The modules that the head of each module loads, with the packages that they are in."""
    loads: dict[str, set[str]] = {}
    for name, path in modules.items():
        loads[name] = set()
        for node in _loaded_with(_tree(path).body):
            for imported in _imported(name, path, [node]):
                target = _module_of(imported, modules, node)
                while target:
                    loads[name].add(target)
                    target = target.rpartition(".")[0]
        loads[name].add(name.rpartition(".")[0])
    return loads


def _reached(loads: Mapping[str, Iterable[str]], first: str) -> set[str]:
    """All that is loaded when a module is."""
    reached: set[str] = set()
    todo = [first]
    while todo:
        for each in loads.get(todo.pop(), ()):
            if each not in reached:
                reached.add(each)
                todo.append(each)
    return reached


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


@not_in_check
def test_no_circle_of_imports_is_larger_than_three_modules() -> None:
    large = [circle for circle in _circles(_graph()) if len(circle) > _LARGEST_CIRCLE]
    assert not large, os.linesep.join(", ".join(circle) for circle in large)


def _needless(modules: Mapping[str, Path]) -> Iterator[str]:
    """The imports in functions of what the head of their module loads anyway; circles aside."""
    loads = _loads(modules)
    for name, path in modules.items():
        deferred = list(_deferred(_tree(path)))
        loaded = _reached(loads, name) if deferred else set()
        for node in deferred:
            for imported in _imported(name, path, [node]):
                target = _module_of(imported, modules, node)
                if target in loaded and name not in _reached(loads, target):
                    yield f"{path.name}:{node.lineno}: {target}"


@not_in_check
def test_an_import_in_a_function_defers_a_module() -> None:
    """A start loads little, so imports may stand in functions. One of a module that is loaded anyway may not."""
    assert list(_needless(_modules())) == []


def test_needless_imports_in_functions_are_found(tmp_path: Path) -> None:
    sources = {
        "p.a": "import json\nfrom p import b\ndef f():\n    import json\n    from p.c import x\n    import os\n",
        "p.b": "import p.c",
        "p.c": "if TYPE_CHECKING:\n    import os\ndef f():\n    from p import b, d\n",
        "p.d": "from p import c",
    }
    modules = {name: tmp_path / f"{name}.py" for name in sources}
    for name, source in sources.items():
        modules[name].write_text(source)
    assert list(_needless(modules)) == ["p.a.py:4: json", "p.a.py:5: p.c"]


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
