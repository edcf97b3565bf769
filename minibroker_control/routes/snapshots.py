"""Routes for resets and snapshots."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from minibroker.cluster.errors import ConflictError, NotFoundError
from minibroker.operations import snapshots
from minibroker_control.models import Body, NamesRoute, ResponseBody
from minibroker_control.remote import OnBroker, from_state
from minibroker_control.routes import calls


class Reset(Body):
    """The kind of reset."""

    keep_topics: bool = Field(default=False, description="Whether to keep topics. Their offsets continue.")
    keep_schemas: bool = Field(default=False, description="Whether the schema registry keeps its subjects.")


def _check_url_name(name: str | None) -> str | None:
    """Return the name if it can be part of a URL. HTTP clients remove the segments `.` and `..` from a path."""
    if name is not None and not {".", ".."}.isdisjoint(name.split("/")):
        raise PydanticCustomError("dot_segment", "a snapshot's name has no part . or .. between slashes")
    return name


class NewSnapshot(Body):
    """The snapshot to take."""

    name: Annotated[str | None, AfterValidator(_check_url_name)] = Field(
        default=None,
        min_length=1,
        description="The name, or null for a number. It can have slashes, but no part `.` or `..` between them.",
    )
    directory: str | None = Field(
        default=None,
        description="A new directory on the broker's machine, or null for one that the broker deletes at its end.",
    )


class Snapshot(ResponseBody):
    """A snapshot."""

    name: str
    directory: str


class Snapshots(ResponseBody):
    """The list of all snapshots."""

    snapshots: list[Snapshot]


class Restore(Body):
    """The directory to restore."""

    directory: str = Field(description="The directory of a snapshot on the broker's machine.")


router = APIRouter(tags=["Reset and snapshots"], route_class=NamesRoute)


class SnapshotShelf:
    """The snapshots taken over HTTP, by name. Removing a temporary snapshot also deletes its directory."""

    def __init__(self) -> None:
        self._taken: dict[str, snapshots.Snapshot | None] = {}  # The value is None while the snapshot is being taken.
        self._count = 0

    def reserve(self, name: str | None) -> str:
        """Reserve a name for a new snapshot, and return the name.

        Raises:
            ConflictError: The name is in use.
        """
        if name is None:
            self._count += 1
            return self.reserve(str(self._count)) if str(self._count) not in self._taken else self.reserve(None)
        if name in self._taken:
            raise ConflictError(f"there is a snapshot {name!r}")
        self._taken[name] = None
        return name

    def put(self, name: str, snapshot: snapshots.Snapshot) -> None:
        """Store a snapshot under a reserved name."""
        self._taken[name] = snapshot

    def drop(self, name: str) -> None:
        """Release a reserved name after a failure."""
        del self._taken[name]

    def get(self, name: str) -> snapshots.Snapshot:
        """Return the snapshot with this name.

        Raises:
            NotFoundError: There is no such snapshot.
        """
        snapshot = self._taken.get(name)
        if snapshot is None:
            raise NotFoundError(f"there is no snapshot {name!r}; snapshots: {', '.join(self.all()) or 'none'}")
        return snapshot

    def remove(self, name: str) -> None:
        """Remove the snapshot with this name, and delete it if it is temporary.

        Raises:
            NotFoundError: There is no such snapshot.
        """
        self.get(name).delete()
        del self._taken[name]

    def all(self) -> dict[str, snapshots.Snapshot]:
        """Return the complete snapshots by name."""
        return {name: snapshot for name, snapshot in self._taken.items() if snapshot is not None}

    def clear(self) -> None:
        """Remove all snapshots."""
        for name in self.all():
            self.remove(name)


Shelf = Annotated[SnapshotShelf, from_state("snapshots")]


@router.post("/reset", status_code=204, openapi_extra=calls("reset"))
async def reset(on_broker: OnBroker, how: Reset | None = None) -> None:
    """Delete all records, groups, transactions and faults, start all brokers, and set the clock to the machine's time.

    All topics are deleted, and those given to the broker at its start are created again. Connections and snapshots
    are kept.
    """
    kept = (how or Reset()).model_dump()
    await on_broker(lambda broker: broker.reset(**kept))


@router.get("/snapshots", openapi_extra=calls("snapshot"))
async def list_snapshots(shelf: Shelf) -> Snapshots:
    """List the snapshots that were taken over HTTP."""
    return Snapshots(
        snapshots=[Snapshot(name=name, directory=snapshot.directory) for name, snapshot in shelf.all().items()]
    )


@router.post("/snapshots", status_code=201, openapi_extra=calls("snapshot"))
async def take_snapshot(on_broker: OnBroker, shelf: Shelf, new: NewSnapshot | None = None) -> Snapshot:
    """Take a snapshot of all topics, records, groups and transactions."""
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
    """Replace the broker's state with a snapshot. Clients continue as after a restart."""
    snapshot = shelf.get(name)
    await on_broker(lambda broker: broker.restore(snapshot))


@router.delete("/snapshots/{name:path}", status_code=204, openapi_extra=calls("snapshot"))
async def delete_snapshot(name: str, shelf: Shelf) -> None:
    """Remove a snapshot. Its directory is deleted, too, unless a client chose the directory."""
    shelf.remove(name)


@router.post("/restore", status_code=204, openapi_extra=calls("restore"))
async def restore_directory(restore: Restore, on_broker: OnBroker) -> None:
    """Replace the broker's state with the snapshot in a directory."""
    await on_broker(lambda broker: broker.restore(restore.directory))
