"""CRC-32C (Castagnoli), the checksum of message format v2, taken from the `crc32c` package's compiled module.

The package's own `__init__` reads its distribution metadata, which pulls in `email`, `zipfile` and `socket` and costs
some 20 ms of a start-up that should take 150 in all. So the compiled module inside it is loaded by itself; where that
is not possible (a zip import, a layout that changed), the package is imported as usual.
"""

from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Protocol, cast


class Checksum(Protocol):
    """The shape of a checksum function."""

    def __call__(self, data: bytes | bytearray | memoryview, value: int = 0, /) -> int:
        """The checksum of `data`, continued from `value`."""
        ...


def load_crc32c() -> Checksum:
    """The compiled function, by the short road if there is one."""
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations:
        spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return cast("Checksum", module.crc32c)
    return cast("Checksum", import_module("crc32c").crc32c)


crc32c: Checksum = load_crc32c()
