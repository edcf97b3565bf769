"""Import cycles stay small, imports in functions defer a module, and the broker's core does not grow."""

import ast
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from minibroker.cluster.core import Core
from tests.broker.harness import Harness
from tests.structure import circles, import_graph, imported_names, modules_of_product, statements, tree_of

_LARGEST_CIRCLE: Final = 3
_MOST_ATTRIBUTES: Final = 18


def _loaded_with(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements run when a module is loaded, without functions and imports for type checking."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        for field in ("body", "orelse", "finalbody"):
            yield from _loaded_with(getattr(node, field, ()))


def _deferred(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the imports in functions."""
    imports: dict[int, ast.stmt] = {}
    for function in statements(tree.body):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = statements(function.body)
            imports |= {node.lineno: node for node in inside if isinstance(node, ast.Import | ast.ImportFrom)}
    yield from imports.values()


def _module_of(imported: str, modules: Mapping[str, Path], node: ast.stmt) -> str:
    """Return the module that an import loads: one of the product, or the name as written."""
    return imported if imported in modules or isinstance(node, ast.Import) else imported.rpartition(".")[0]


def _loads(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """Return the modules loaded by the top level of each module, including the packages that contain them."""
    loads: dict[str, set[str]] = {}
    for name, path in modules.items():
        loads[name] = set()
        for node in _loaded_with(tree_of(path).body):
            for imported in imported_names(name, path, [node]):
                target = _module_of(imported, modules, node)
                while target:
                    loads[name].add(target)
                    target = target.rpartition(".")[0]
        loads[name].add(name.rpartition(".")[0])
    return loads


def _reached(loads: Mapping[str, Iterable[str]], first: str) -> set[str]:
    """Return all modules that are loaded together with a module."""
    reached: set[str] = set()
    todo = [first]
    while todo:
        for imported in loads.get(todo.pop(), ()):
            if imported not in reached:
                reached.add(imported)
                todo.append(imported)
    return reached


@pytest.mark.slow
def test_no_circle_of_imports_is_larger_than_three_modules() -> None:
    large = [circle for circle in circles(import_graph()) if len(circle) > _LARGEST_CIRCLE]
    assert not large, os.linesep.join(", ".join(circle) for circle in large)


def _needless(modules: Mapping[str, Path]) -> Iterator[str]:
    """Yield the imports in functions of modules that are loaded anyway, except those that avoid a cycle."""
    loads = _loads(modules)
    for name, path in modules.items():
        deferred = list(_deferred(tree_of(path)))
        loaded: set[str] = _reached(loads, name) if deferred else set()
        for node in deferred:
            for imported in imported_names(name, path, [node]):
                target = _module_of(imported, modules, node)
                if target in loaded and name not in _reached(loads, target):
                    yield f"{path.name}:{node.lineno}: {target}"


@pytest.mark.slow
def test_an_import_in_a_function_defers_a_module() -> None:
    """Imports in functions are only for modules that a start does not load anyway."""
    assert list(_needless(modules_of_product())) == []


def test_lazy_blocks_import_whole_modules() -> None:
    """A name in a module would load it immediately."""
    modules = modules_of_product()
    blocks = [
        (name, path, block)
        for name, path in modules.items()
        for block in statements(tree_of(path).body)
        if isinstance(block, ast.With) and ast.unparse(block.items[0]) == "lazy"
    ]
    assert blocks
    for name, path, block in blocks:
        ours = {imported for imported in imported_names(name, path, block.body) if imported.startswith("minibroker")}
        assert ours <= modules.keys(), name


def test_the_core_does_not_grow(harness: Harness) -> None:
    """New modules belong to `Services`, or to a part of the core."""
    public = {name for name in (*vars(harness.core), *vars(Core)) if not name.startswith("_")} - {"close", "close_logs"}
    assert len(public) <= _MOST_ATTRIBUTES, sorted(public)


@pytest.fixture
def harness(tmp_path: Path) -> Iterable[Harness]:
    """A broker without sockets."""
    harness = Harness(str(tmp_path))
    yield harness
    harness.close()
