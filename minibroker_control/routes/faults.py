"""Routes for faults, including those from a file or from Python. Each gets an id when it is first listed."""

from collections.abc import Iterable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body
from pydantic import Field, WithJsonSchema

from minibroker.cluster.errors import NotFoundError, collect_warnings
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.wording import UInt64
from minibroker.server.faults.fault import Fault
from minibroker.server.faults.fields import HOW_OFTEN, MATCH, WHAT
from minibroker_control.models import ResponseBody, WithWarnings, warnings_field
from minibroker_control.remote import OnBroker, from_state
from minibroker_control.routes import calls
from minibroker_control.routes.requests import JournalEntry, entry_json


class _Counted(ResponseBody):
    id: str
    fired: UInt64 = Field(description="The number of requests that the fault has hit.")
    fault: dict[str, Any] = Field(description="The fields of the fault.")


class InstalledFault(_Counted, WithWarnings):
    """An installed fault. Warnings appear only in the response to the request that installs the fault."""


class InstalledFaults(ResponseBody):
    """The faults in the order in which they were added."""

    faults: list[InstalledFault]


class FaultHits(_Counted):
    """A fault and the requests that it has hit."""

    hits: list[JournalEntry] = Field(description="The newest 1000 requests.")


router = APIRouter(tags=["Faults"])

_TYPES: Final[dict[str, dict[str, Any]]] = {
    "pattern": {"type": "string"},
    "range": {"type": ["string", "integer"]},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "name": {"type": ["string", "integer"]},
}
"""JSON schemas by the first word of a field's type in `faults.fields`."""


def _make_schema(kind: str) -> dict[str, Any]:
    if kind == "`true`":
        return {"const": True, "type": "boolean"}
    if kind.startswith("`"):
        return {"type": "string", "enum": [value.strip("` ") for value in kind.split(",")]}
    return _TYPES[kind.replace(",", " ").split()[0]]


_FIELDS: Final = WithJsonSchema(
    {
        "type": "object",
        "title": "Fault",
        "additionalProperties": False,
        "properties": {
            row.name: {**_make_schema(row.kind), "description": row.meaning} for row in (*MATCH, *HOW_OFTEN, *WHAT)
        },
    }
)


class FaultIds:
    """The ids of faults, numbered in the order in which they were first listed. Used only on the broker's thread."""

    def __init__(self) -> None:
        self._faults: dict[str, Fault] = {}
        self._count = 0

    def see(self, installed: Iterable[Fault]) -> dict[str, Fault]:
        """Return the installed faults by id. New faults get the next ids."""
        ids = {id(fault): name for name, fault in self._faults.items()}
        faults: dict[str, Fault] = {}
        for fault in installed:
            name = ids.get(id(fault))
            if name is None:
                self._count += 1
                name = str(self._count)
            faults[name] = fault
        self._faults = faults
        return faults

    async def find(self, broker: AsyncOperations, fault_id: str) -> Fault:
        """Return the installed fault with this id.

        Raises:
            NotFoundError: There is no such fault.
        """
        faults = self.see(await broker.faults.list())
        if fault_id not in faults:
            raise NotFoundError(f"there is no fault {fault_id!r}; faults: {', '.join(faults) or 'none'}")
        return faults[fault_id]


Ids = Annotated[FaultIds, from_state("faults")]


@router.get("/faults", response_model_exclude_unset=True, openapi_extra=calls("faults", "faults.list"))
async def list_faults(on_broker: OnBroker, ids: Ids) -> InstalledFaults:
    """List the installed faults in the order in which they were added.

    Of several matching faults, the first takes effect.
    """

    async def work(broker: AsyncOperations) -> InstalledFaults:
        faults = ids.see(await broker.faults.list())
        return InstalledFaults(faults=[_describe_installed(name, fault) for name, fault in faults.items()])

    return await on_broker(work)


@router.post("/faults", status_code=201, response_model_exclude_unset=True, openapi_extra=calls("faults.add", "fault"))
async def add_fault(
    fields: Annotated[dict[str, Any], Body(description="The fields of the fault, as in docs/faults.md."), _FIELDS],
    on_broker: OnBroker,
    ids: Ids,
) -> InstalledFault:
    """Install a fault. It stays until it is deleted or has hit `times` requests."""

    async def work(broker: AsyncOperations) -> InstalledFault:
        fault = await broker.faults.add(Fault.from_json(fields))
        faults = ids.see(await broker.faults.list())
        return _describe_installed(next(fault_id for fault_id, other in faults.items() if other is fault), fault)

    with collect_warnings() as warnings:
        installed = await on_broker(work)
    return installed.model_copy(update=warnings_field(warnings))


@router.delete("/faults", status_code=204, openapi_extra=calls("faults.clear"))
async def clear_faults(on_broker: OnBroker) -> None:
    """Remove all faults."""
    await on_broker(lambda broker: broker.faults.clear())


@router.get("/faults/{fault_id}", openapi_extra=calls("faults.list"))
async def read_fault(fault_id: str, on_broker: OnBroker, ids: Ids) -> FaultHits:
    """Return a fault and the requests that it has hit."""

    async def work(broker: AsyncOperations) -> FaultHits:
        return _describe_hits(fault_id, await ids.find(broker, fault_id))

    return await on_broker(work)


@router.delete("/faults/{fault_id}", openapi_extra=calls("faults.remove"))
async def remove_fault(fault_id: str, on_broker: OnBroker, ids: Ids) -> FaultHits:
    """Remove a fault, and return the fault with the requests that it has hit."""

    async def work(broker: AsyncOperations) -> FaultHits:
        fault = await ids.find(broker, fault_id)
        await broker.faults.remove(fault)
        return _describe_hits(fault_id, fault)

    return await on_broker(work)


def _describe_installed(fault_id: str, fault: Fault) -> InstalledFault:
    return InstalledFault(id=fault_id, fired=fault.fired, fault=fault.to_json())


def _describe_hits(fault_id: str, fault: Fault) -> FaultHits:
    return FaultHits(
        id=fault_id,
        fired=fault.fired,
        fault=fault.to_json(),
        hits=[JournalEntry.model_validate(entry_json(hit)) for hit in fault.hits],
    )
