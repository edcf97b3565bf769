"""A disk that knows what fsync has covered, and that a crash of the machine leaves with no more than that.

The crash model is that of a journalling file system which writes names in their order and data whenever it likes:

- Names (creations, links, renames, removals) are on disk up to some operation; all later ones are undone. The fsync of
  a directory forces its own operations to disk, and with them all that were before these in the journal.
- A file whose bytes were changed since its last fsync is whole, empty, cut off, full of zeros, or has the bytes of that
  fsync. This holds also where its new name is on disk: a rename waits for no data.
- New directories stay, unless an older one gets its name back. So do segments and indexes: their crashes are those of
  `kill -9` (see `steps`), and the recovery of a log after a crash of the machine has tests of its own.

The calls of the `os` module are watched, in this process. From a chosen call on none is made any more.
"""

import errno
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.torture.steps import CHANGING, Killed

_WATCHED: Final = (*CHANGING, "fdatasync", "fsync")
_OF_LOGS: Final = (".log", ".index", ".timeindex", ".txnindex", ".cleaned", ".swap", ".deleted")
_WRITES: Final = frozenset({"ftruncate", "pwrite", "pwritev", "write"})
_MOVES: Final = frozenset({"rename", "replace"})
_REMOVES: Final = frozenset({"remove", "unlink"})
_MOST_BYTES: Final = 1 << 24


class _Undo(NamedTuple):
    """The names before an operation. `kept` is another link of the file that `name` then lost, if any."""

    name: str
    kept: str | None
    moved_to: str | None = None


class CrashDisk:
    """Everything under `root`, which is on disk when it begins.

    Args:
        root: a data directory.
        graveyard: a directory on the same file system, for files that have lost their names.
        rng: decides what a crash leaves.

    Attributes:
        calls: how many calls were watched since the last crash.
        damage: how many files each kind of damage has hit.
    """

    def __init__(self, root: Path, graveyard: Path, rng: random.Random) -> None:
        self.calls = 0
        self.damage: dict[str, int] = {}
        self._root, self._graveyard, self._rng = str(root), str(graveyard), rng
        self._at: int | None = None
        self._buried = 0
        self._pending: list[tuple[int, _Undo]] = []  # with the directory's inode
        self._unsynced: dict[int, bytes | None] = {}  # inode -> the bytes of its last fsync
        graveyard.mkdir(exist_ok=True)

    @contextmanager
    def watched(self, at: int | None) -> Iterator[None]:
        """Watch the `os` module within the block, and raise `Killed` from the call with this number on."""
        self._at = at
        real = {name: getattr(os, name) for name in _WATCHED if hasattr(os, name)}
        for name, call in real.items():
            setattr(os, name, self._guarded(name, call))
        try:
            yield
        finally:
            for name, call in real.items():
                setattr(os, name, call)

    def crash(self) -> None:
        """Leave what the crash leaves; all of that is on disk then."""
        directories = {os.stat(path).st_ino: path for path, _, _ in os.walk(self._root)}
        lost = self._rng.randint(0, len(self._pending))
        for inode, undo in self._pending[len(self._pending) - lost :][::-1]:
            if home := directories.get(inode):
                self._count("names undone")
                _undo(f"{home}/{undo.name}", undo.kept, undo.moved_to and f"{home}/{undo.moved_to}")
                directories = {os.stat(path).st_ino: path for path, _, _ in os.walk(self._root)}
        for path, directories_in, names in os.walk(self._root):
            directories_in.sort()
            for name in sorted(names):
                self._spoil(f"{path}/{name}")
        self.settle()

    def settle(self) -> None:
        """All that is there is on disk: the machine has had time."""
        self._pending.clear()
        self._unsynced.clear()
        self.calls = 0
        for name in os.listdir(self._graveyard):
            os.unlink(f"{self._graveyard}/{name}")

    def _spoil(self, path: str) -> None:
        inode = os.stat(path).st_ino
        if inode not in self._unsynced or path.endswith(_OF_LOGS):
            return
        synced = self._unsynced.pop(inode)  # another link of the file is as damaged
        data = Path(path).read_bytes()
        kind = self._rng.choice(["whole", "empty", "cut", "cut at a bracket", "zeros", "bytes of the last fsync"])
        self._count(kind)
        ends = [at + 1 for at, byte in enumerate(data[:-1]) if byte in b"}]\n"]
        left = {
            "empty": b"",
            "cut": data[: self._rng.randrange(len(data) or 1)],
            "cut at a bracket": data[: self._rng.choice(ends or [0])],
            "zeros": bytes(len(data)),
            "bytes of the last fsync": synced or b"",
        }.get(kind, data)
        with open(path, "r+b") as file:  # the same inode, for all its names
            file.truncate()
            file.write(left)

    def _count(self, kind: str) -> None:
        self.damage[kind] = self.damage.get(kind, 0) + 1

    def _guarded(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if name == "open" and not arguments[1] & (os.O_CREAT | os.O_TRUNC):
                return real(*arguments, **named)
            self.calls += 1
            if self._at is not None and self.calls > self._at:
                raise Killed(name)
            note = self._before(name, arguments)
            result = real(*arguments, **named)
            note()
            return result

        return call

    def _before(self, name: str, arguments: tuple[Any, ...]) -> Callable[[], None]:
        """Look at what a call is about to change; returns how to note that it has."""
        if name in _WRITES:
            self._touch(arguments[0])
        elif name in {"fsync", "fdatasync"}:
            inode = os.fstat(arguments[0]).st_ino
            return lambda: self._forced(inode)
        elif name == "open":
            path = str(arguments[0])
            if not os.path.lexists(path):
                return lambda: self._note(path, None)
            if arguments[1] & os.O_TRUNC:
                self._unsynced.setdefault(os.stat(path).st_ino, Path(path).read_bytes())
        elif name == "link":
            target = str(arguments[1])
            return lambda: self._note(target, None)
        elif name in _MOVES:
            source, target = map(str, arguments[:2])
            kept = self._bury(target)
            return lambda: self._note(target, kept, os.path.basename(source))
        elif name in _REMOVES:
            path = str(arguments[0])
            kept = self._bury(path)
            return lambda: self._note(path, kept)
        return lambda: None

    def _touch(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        if status.st_ino not in self._unsynced:
            data: bytes | None = None
            with suppress(OSError):  # opened for writing only: it is new
                data = os.pread(descriptor, _MOST_BYTES, 0)
            self._unsynced[status.st_ino] = data

    def _forced(self, inode: int) -> None:
        self._unsynced.pop(inode, None)
        last = max((at for at, (home, _) in enumerate(self._pending) if home == inode), default=-1)
        del self._pending[: last + 1]

    def _note(self, path: str, kept: str | None, moved_to: str | None = None) -> None:
        if path.startswith(self._root) and not path.endswith(_OF_LOGS):
            home = os.stat(os.path.dirname(path)).st_ino
            self._pending.append((home, _Undo(os.path.basename(path), kept, moved_to)))

    def _bury(self, path: str) -> str | None:
        """Link a file that is about to lose its name; None where there is none. Its inode stays its own so."""
        if not path.startswith(self._root) or not os.path.isfile(path) or path.endswith(_OF_LOGS):
            return None
        self._buried += 1
        kept = f"{self._graveyard}/{self._buried}"
        _real_link(path, kept)
        return kept


_real_link: Final = os.link


def _undo(path: str, kept: str | None, moved_to: str | None) -> None:
    """Take one operation back. One whose subject has gone with a directory leaves nothing to do."""
    with suppress(FileNotFoundError):
        if moved_to is not None:
            if os.path.isdir(path) and os.path.isdir(moved_to):  # made since, under the same name
                shutil.rmtree(moved_to)
            os.rename(path, moved_to)
        else:
            os.unlink(path)
    if kept is not None:
        try:
            os.link(kept, path)
        except OSError as error:
            if error.errno not in {errno.EEXIST, errno.ENOENT}:
                raise
