"""Imports that load a minibroker module on first use, to keep start-up fast.

    with lazy:
        from minibroker.server.faults import registry

    registry.faults_of(...)  # The module is loaded here.

Import only modules in such a block. Importing a name from a module would load the module immediately, because Python
looks the name up. Other packages are imported as usual, because the program that uses minibroker shares them and can
inspect them. Missing modules are also handled as usual, and so are imports by other threads during the block. Python
3.15 has `lazy import` for this.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader, SourcelessFileLoader
from threading import RLock, local
from types import ModuleType
from typing import Any, Final

_OURS: Final = "minibroker"
"""The name prefix of all our packages."""


class _LazyModule(ModuleType):
    """A module that is executed on the first attribute access. Other threads wait until it is fully loaded."""

    def __getattribute__(self, name: str) -> Any:
        # Programs look up names such as __file__ in every module. These look-ups must not load the modules.
        if not (name.startswith("__") and name.endswith("__")):
            _execute(self)
        return ModuleType.__getattribute__(self, name)

    def __dir__(self) -> list[str]:
        _execute(self)
        return list(ModuleType.__dir__(self))


class _LazyLoader:
    """A loader that delays the execution of its module. On first use, the original `loader` executes the module."""

    def __init__(self, loader: SourceFileLoader | SourcelessFileLoader) -> None:
        self.loader = loader
        self.lock = RLock()
        self.is_started = False

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _LazyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing. The module is executed on first use."""

    def __getattr__(self, name: str) -> Any:
        """Delegate other attributes, such as those for resources and sources, to the original loader."""
        return getattr(self.loader, name)


class _Lazy(local):
    """A context manager that is also the finder for the modules imported in its block. Its state is per thread."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find a module as Python does, but give it a loader that delays the module's execution."""
        if not self.depth or not name.startswith(_OURS):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) in {SourceFileLoader, SourcelessFileLoader}:
            spec.loader = _LazyLoader(spec.loader)  # type: ignore[arg-type, assignment]  # one of the two
        return spec


lazy: Final = _Lazy()
sys.meta_path.insert(0, lazy)


def is_loaded(name: str) -> bool:
    """Return whether a module is imported and has been executed."""
    return name in sys.modules and type(sys.modules[name]) is not _LazyModule


def load(name: str) -> None:
    """Import a module, and execute it if it was imported lazily."""
    module = importlib.import_module(name)
    if type(module) is _LazyModule:
        _execute(module)


def _execute(module: ModuleType) -> None:
    loader: Any = module.__spec__ and module.__spec__.loader
    with loader.lock:  # Other threads wait until the module is loaded. This thread may enter again in an import cycle.
        if loader.is_started:
            return
        loader.is_started = True
        depth, lazy.depth = lazy.depth, 0  # Imports in the module itself are not lazy.
        try:
            loader.loader.exec_module(module)
        except BaseException:
            loader.is_started = False
            raise
        finally:
            lazy.depth = depth
        module.__class__ = ModuleType
