"""Writes `blocking.py` and its handles, the face of `asynchronous.py` for other threads: so they cannot drift apart.

    python -m minibroker.operations.twin

Each class `AsyncX` becomes a class `X` with the same methods, which have the work done on the broker's thread and wait
for it. What gives another handle gives the handle's twin. Needs ruff, which lays the lines out.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

FOLDER: Final = os.path.dirname(__file__)
FACE: Final = "blocking"
HANDLES: Final = "blocking_handles"
_SOURCES: Final = {FACE: "asynchronous", HANDLES: "asynchronous_handles"}
_PREFIX: Final = "Async"
_ROOT: Final = "AsyncOperations"
_ON_THE_LOOP: Final = frozenset(
    {"__del__", "__enter__", "__exit__", "__init__", "_patience", "make_topics", "patience", "services"}
)
"""Without a twin."""
_WAITING: Final = {"__aenter__": "__enter__", "__aexit__": "__exit__"}
_HEADS: Final = {
    FACE: '''"""`Broker`'s methods beside its life, for other threads than its own: those of `asynchronous`.

Written by `python -m minibroker.operations.twin`.
"""

from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from minibroker.operations import asynchronous
from minibroker.operations.blocking_handles import BrokerClock, Brokers, ConsumerGroup, FaultContext, Faults, Retention
from minibroker.operations.errors import is_the_callers
from minibroker.services import Services
''',
    HANDLES: '''"""What `Broker` gives that has methods of its own, for other threads: see `asynchronous_handles`.

Written by `python -m minibroker.operations.twin`.
"""

from collections.abc import Coroutine, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from minibroker.operations import asynchronous_handles
from minibroker.operations.errors import is_the_callers
''',
}
_WORK: Final = """
__tracebackhide__ = is_the_callers

T = TypeVar("T")

"""
_WAIT: Final = '''
class Wait(Protocol):
    """Has something done on the broker's thread, and waits for it."""

    def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        """RuntimeError unless the broker runs."""
        ...

'''
_ROOT_MEMBERS: Final = '''
    @property
    def twin(self) -> asynchronous.AsyncOperations:
        """The broker on its own loop."""
        raise NotImplementedError

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done on the broker's thread, and wait for it. RuntimeError unless it runs."""
        raise NotImplementedError

    @property
    def services(self) -> Services:
        """What its handlers share, for those who look behind the door: it belongs to the broker's thread."""
        return self.twin.services
'''
_HANDLE_MEMBERS: Final = """
    def __init__(self, twin: asynchronous_handles.{name}, wait: Wait) -> None:
        self.twin = twin
        self.wait = wait
"""


def path_of(module: str) -> str:
    """Where a module beside this one is."""
    return os.path.join(FOLDER, f"{module}.py")


def blocking_source(target: str) -> str:
    """What the module FACE or HANDLES should hold."""
    module = _parsed(target)
    parts = [_HEADS[target]]
    parts += [f"{ast.unparse(each)}\n\n" for each in module.body if isinstance(each, ast.If)]
    parts.append(_WORK if target == FACE else _WORK + _WAIT)
    parts += ["\n".join(_class(each)) for each in _classes(module)]
    ruff = os.path.join(os.path.dirname(sys.executable), "ruff")
    command = [ruff, "format", "-", "--stdin-filename", path_of(target)]
    return subprocess.run(command, input="\n".join(parts), capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own words


def _parsed(target: str) -> ast.Module:
    with open(path_of(_SOURCES[target]), encoding="utf-8") as file:
        return ast.parse(file.read())


def _classes(module: ast.Module) -> list[ast.ClassDef]:
    return [each for each in module.body if isinstance(each, ast.ClassDef) and each.name.startswith(_PREFIX)]


def _class(source: ast.ClassDef) -> Iterator[str]:
    name = "BlockingOperations" if source.name == _ROOT else source.name.removeprefix(_PREFIX)
    yield f"\nclass {name}:"
    yield f'    """{_doc(source).replace("an `AsyncBroker`", "a `Broker`")}"""'
    yield _ROOT_MEMBERS if source.name == _ROOT else _HANDLE_MEMBERS.format(name=source.name)
    for each in source.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name not in _ON_THE_LOOP:
            yield from _method(each)


def _method(source: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for decorator in source.decorator_list:
        yield f"    @{ast.unparse(decorator)}"
    assert source.returns is not None
    returned = ast.unparse(source.returns)
    call = f"self.twin.{source.name}" + ("" if source.decorator_list else f"({_passed_on(source.args)})")
    if isinstance(source, ast.AsyncFunctionDef):
        work = f"self.wait({call})"
        body = work if returned == "None" else f"return {work}"
    elif _PREFIX in returned:
        returned = returned.replace(_PREFIX, "")
        body = f"return {returned.strip(chr(39))}({call}, self.wait)"
    else:
        body = f"return {call}"
    yield f"    def {_WAITING.get(source.name, source.name)}({ast.unparse(source.args)}) -> {returned}:"
    yield f'        """{_doc(source)}"""'
    yield f"        {body}\n"


def _doc(source: ast.AsyncFunctionDef | ast.FunctionDef | ast.ClassDef) -> str:
    return ast.get_docstring(source, clean=False) or ""


def _passed_on(arguments: ast.arguments) -> str:
    """The arguments of a call that passes all of its own on."""
    passed = [each.arg for each in arguments.args if each.arg != "self"]
    if arguments.vararg is not None:
        passed.append(f"*{arguments.vararg.arg}")
    passed += [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        passed.append(f"**{arguments.kwarg.arg}")
    return ", ".join(passed)


if __name__ == "__main__":
    for each in (HANDLES, FACE):
        text = blocking_source(each)
        with open(path_of(each), "w", encoding="utf-8") as written:
            written.write(text)
