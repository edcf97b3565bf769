"""Temporary files of a test run in memory, where there is plenty of it.

Tests start thousands of brokers, and each one forces files to disk. That took 44 % of the time of
`tests/broker/handlers` on a busy disk. No test can see the difference: a killed process loses nothing that its kernel
has, and the crashes of machines in `tests/torture` are simulated above the file system. `make torture` uses the disk.
"""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from tests.sparse_copies import copy_file

SHARED_MEMORY: Final = Path("/dev/shm")
"""Where Linux has a file system in memory (tmpfs)."""
ENOUGH_BYTES: Final = 8 << 30
"""A whole run fills about 1.5 GB, beside two JVMs and their clients."""
_PREFIX: Final = "minibroker-tests-"


def find() -> Path | None:
    """The file system in memory; None where there is none, it has too little room, or its programs may not run."""
    if sys.platform != "linux":
        return None
    try:
        volume = os.statvfs(SHARED_MEMORY)
        facts = Path("/proc/meminfo").read_text().split()
    except OSError:
        return None
    available = int(facts[facts.index("MemAvailable:") + 1]) * 1024 if "MemAvailable:" in facts else 0
    enough = min(available, volume.f_bavail * volume.f_frsize) >= ENOUGH_BYTES
    return SHARED_MEMORY if enough and not volume.f_flag & os.ST_NOEXEC and os.access(SHARED_MEMORY, os.W_OK) else None


def make(place: Path, environment: MutableMapping[str, str]) -> Path:
    """A folder there for all temporary files of this process and of its children; those of dead runs are removed."""
    for old in place.glob(f"{_PREFIX}*"):
        pid = old.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place))
    environment["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # so that this process looks at the environment again
    return folder


def release(folder: Path, environment: MutableMapping[str, str], *, keep: bool) -> Path | None:
    """Remove the folder from memory. With `keep` it goes to the disk first; returns where it is then."""
    environment.pop("TMPDIR", None)
    tempfile.tempdir = None
    kept = None
    if keep:
        kept = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with contextlib.suppress(shutil.Error):  # processes that still end remove files meanwhile
            shutil.copytree(folder, kept, symlinks=True, copy_function=copy_file, dirs_exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    return kept
