"""Imports that load a module when it is first used, so that a start pays for nothing that it may not need.

    with lazy:
        from minibroker.server.faults import observer

    observer.RequestObserver(...)  # The module is loaded here.

A block imports modules, not names of theirs: Python looks those up at once, and so loads the module. A module that is
missing or not Python source is imported as everywhere else. Python 3.15 has `lazy import` for this.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from threading import RLock
from types import ModuleType
from typing import Any, Final


class _LazyModule(ModuleType):
    """A module that is executed when an attribute is looked up that it does not have yet."""

    def __getattr__(self, name: str) -> Any:
        # Programs look up names such as __file__ in all modules, which must not load them.
        if not (name.startswith("__") and name.endswith("__")):
            _execute(self)
        return ModuleType.__getattribute__(self, name)


class _LazyLoader(SourceFileLoader):
    def __init__(self, fullname: str, path: str) -> None:
        super().__init__(fullname, path)
        self.lock = RLock()
        self.is_started = False

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _LazyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is until it is used."""


class _Lazy:
    """The context manager. Imports of other threads meanwhile are lazy, too, which makes no difference to them."""

    def __enter__(self) -> None:
        sys.meta_path.insert(0, self)

    def __exit__(self, *_: object) -> None:
        sys.meta_path.remove(self)

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find a module as Python does, with a loader that waits."""
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _LazyLoader(name, spec.loader.path)
        return spec


lazy: Final = _Lazy()


def is_loaded(name: str) -> bool:
    """Return whether a module is imported and has been executed."""
    return name in sys.modules and type(sys.modules[name]) is not _LazyModule


def load(name: str) -> None:
    """Import a module, and execute it if only lazy imports have named it."""
    module = importlib.import_module(name)
    if type(module) is _LazyModule:
        _execute(module)


def _execute(module: ModuleType) -> None:
    loader = module.__spec__ and module.__spec__.loader
    assert isinstance(loader, _LazyLoader)
    with loader.lock:  # Another thread waits for the whole module; this one may be in an import cycle.
        if loader.is_started:
            return
        loader.is_started = True
        try:
            SourceFileLoader.exec_module(loader, module)
        except BaseException:
            loader.is_started = False
            raise
        module.__class__ = ModuleType
