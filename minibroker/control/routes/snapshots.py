"""Resets, and snapshots to go back to."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from minibroker.cluster.errors import ConflictError, NotFoundError
from minibroker.control.models import About, Body
from minibroker.control.parameters import NamesRoute
from minibroker.control.remote import OnBroker
from minibroker.control.routes import calls
from minibroker.operations import snapshots


class Reset(Body):
    """The kind of reset."""

    keep_topics: bool = Field(default=False, description="Topics stay, and their offsets go on where they were.")


def _without_dot_segments(name: str | None) -> str | None:
    """The name, if a URL can hold it: clients of HTTP leave out the segments `.` and `..` before they send a path."""
    if name is not None and not {".", ".."}.isdisjoint(name.split("/")):
        raise PydanticCustomError("dot_segment", "a snapshot's name has no part . or .. between slashes")
    return name


class NewSnapshot(Body):
    """A snapshot to be taken."""

    name: Annotated[str | None, AfterValidator(_without_dot_segments)] = Field(
        default=None,
        min_length=1,
        description="To restore it by; null for a number. It may have slashes, but no part `.` or `..` between them.",
    )
    directory: str | None = Field(
        default=None,
        description="A new one on the broker's machine; null for a temporary one that goes with the broker.",
    )


class Snapshot(About):
    """A snapshot."""

    name: str
    directory: str


class Snapshots(About):
    """The snapshots that were taken."""

    snapshots: list[Snapshot]


class Restore(Body):
    """The directory to restore."""

    directory: str = Field(description="That of a snapshot, on the broker's machine.")


router = APIRouter(tags=["Reset and snapshots"], route_class=NamesRoute)


class SnapshotShelf:
    """The snapshots that were taken over HTTP, by name. Temporary ones go when they are taken from it."""

    def __init__(self) -> None:
        self._taken: dict[str, snapshots.Snapshot | None] = {}  # None while it is being taken
        self._count = 0

    def reserve(self, name: str | None) -> str:
        """A name for a new one. `ConflictError` if it is in use."""
        if name is None:
            self._count += 1
            return self.reserve(str(self._count)) if str(self._count) not in self._taken else self.reserve(None)
        if name in self._taken:
            raise ConflictError(f"there is a snapshot {name!r}")
        self._taken[name] = None
        return name

    def put(self, name: str, snapshot: snapshots.Snapshot) -> None:
        """Keep it under a reserved name."""
        self._taken[name] = snapshot

    def drop(self, name: str) -> None:
        """Forget a name that was reserved in vain."""
        del self._taken[name]

    def get(self, name: str) -> snapshots.Snapshot:
        """The one of this name. `NotFoundError`."""
        found = self._taken.get(name)
        if found is None:
            raise NotFoundError(f"there is no snapshot {name!r}; snapshots: {', '.join(self.all()) or 'none'}")
        return found

    def remove(self, name: str) -> None:
        """Take it away. `NotFoundError`."""
        self.get(name).delete()
        del self._taken[name]

    def all(self) -> dict[str, snapshots.Snapshot]:
        """Those that are whole, by name."""
        return {name: each for name, each in self._taken.items() if each is not None}

    def clear(self) -> None:
        """Take all away."""
        for name in self.all():
            self.remove(name)


async def _shelf(request: Request) -> SnapshotShelf:
    shelf: SnapshotShelf = request.app.state.snapshots
    return shelf


Shelf = Annotated[SnapshotShelf, Depends(_shelf)]


@router.post("/reset", status_code=204, openapi_extra=calls("reset"))
async def reset(on_broker: OnBroker, how: Reset | None = None) -> None:
    """Forget all records, groups, transactions and faults; all brokers are up, and time is the machine's.

    Topics go, too; those given to the broker at its start are created again. Connections and snapshots stay.
    """
    keep = how is not None and how.keep_topics
    await on_broker(lambda broker: broker.reset(keep_topics=keep))


@router.get("/snapshots", openapi_extra=calls("snapshot"))
async def list_snapshots(shelf: Shelf) -> Snapshots:
    """The snapshots that were taken over HTTP."""
    return Snapshots(snapshots=[Snapshot(name=name, directory=each.directory) for name, each in shelf.all().items()])


@router.post("/snapshots", status_code=201, openapi_extra=calls("snapshot"))
async def take_snapshot(on_broker: OnBroker, shelf: Shelf, new: NewSnapshot | None = None) -> Snapshot:
    """Copy all topics, records, groups and transactions."""
    options = new or NewSnapshot()
    name = shelf.reserve(options.name)
    try:
        snapshot = await on_broker(lambda broker: broker.snapshot(options.directory))
    except BaseException:
        shelf.drop(name)
        raise
    shelf.put(name, snapshot)
    return Snapshot(name=name, directory=snapshot.directory)


@router.post("/snapshots/{name:path}/restore", status_code=204, openapi_extra=calls("restore"))
async def restore_snapshot(name: str, on_broker: OnBroker, shelf: Shelf) -> None:
    """Bring back what a snapshot holds, in the place of all there is; clients go on as after a restart."""
    snapshot = shelf.get(name)
    await on_broker(lambda broker: broker.restore(snapshot))


@router.delete("/snapshots/{name:path}", status_code=204, openapi_extra=calls("snapshot"))
async def delete_snapshot(name: str, shelf: Shelf) -> None:
    """Forget a snapshot; the directory goes unless it was named when it was taken."""
    shelf.remove(name)


@router.post("/restore", status_code=204, openapi_extra=calls("restore"))
async def restore_directory(restore: Restore, on_broker: OnBroker) -> None:
    """Bring back what the directory of a snapshot holds."""
    await on_broker(lambda broker: broker.restore(restore.directory))
