"""The routes for chaos: the broker misbehaves as a Kafka cluster may, see docs/chaos.md."""

from typing import Any

from fastapi import APIRouter
from pydantic import Field

from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.asynchronous_trials import AsyncChaos
from minibroker.operations.wording import Int64
from minibroker_chaos.steps import DEFAULT_PROFILE, Step
from minibroker_control.models import Body, ResponseBody, describes
from minibroker_control.remote import OnBroker
from minibroker_control.routes import calls


@describes(Step)
class ChaosStep(ResponseBody):
    """A misbehavior of the broker that happened at a request."""

    number: Int64 = Field(description="The number of the request.")


class ChaosRun(ResponseBody):
    """What has happened under chaos. `POST /chaos` repeats it if all of this is passed as `steps`."""

    chaos: int = Field(description="The version of the steps.")
    seed: Int64 | None = Field(description="Null if steps are repeated.")
    profile: str
    steps: list[ChaosStep]
    is_felt: bool = Field(description="Whether a client has reacted. Otherwise the run has shown nothing.")
    met: list[int] = Field(
        description="The numbers of repeated steps that happened exactly, at a later attempt, and not at all."
    )
    report: list[str] = Field(description="The same in lines of text.")


class NewChaos(Body):
    """How to misbehave: by a seed, or by the steps of an earlier run."""

    seed: Int64 | None = Field(default=None, description="The seed of all decisions.")
    profile: str = Field(
        default=DEFAULT_PROFILE,
        description="`default`, `heavy`, `network`, `rebalances`, `failovers` or `transactions`.",
    )
    only: list[str] = Field(default=[], description="The only misbehaviours to use, instead of those of the profile.")
    without: list[str] = Field(default=[], description="The misbehaviours to leave out.")
    steps: dict[str, Any] | list[Any] | None = Field(
        default=None, description="A stored [ChaosRun](#chaosrun), or its `steps`, to repeat instead of a seed."
    )


router = APIRouter(tags=["Chaos"])


@router.post("/chaos", status_code=201, openapi_extra=calls("chaos", "chaos.start"))
async def start_chaos(new: NewChaos, on_broker: OnBroker) -> ChaosRun:
    """Begin to misbehave, until `DELETE /chaos`. Chaos that is running ends first."""

    async def work(broker: AsyncOperations) -> ChaosRun:
        chaos = broker.chaos(new.seed, profile=new.profile, only=new.only, without=new.without, steps=new.steps)
        await chaos.start(replace=True)
        return _describe(chaos)

    return await on_broker(work)


@router.get("/chaos", openapi_extra=calls("chaos.steps", "chaos.is_felt", "chaos.met", "chaos.report", "chaos.to_json"))
async def read_chaos(on_broker: OnBroker) -> ChaosRun:
    """Return what has happened so far. Returns 404 without chaos."""
    return await on_broker.get(lambda broker: _describe(broker.chaos()))


@router.post("/chaos/settle", openapi_extra=calls("chaos.settle"))
async def settle_chaos(on_broker: OnBroker) -> ChaosRun:
    """Begin the quiet phase: nothing new goes wrong, what is late is applied, and what is held is released."""

    async def work(broker: AsyncOperations) -> ChaosRun:
        chaos = broker.chaos()
        await chaos.settle()
        return _describe(chaos)

    return await on_broker(work)


@router.delete("/chaos", openapi_extra=calls("chaos.stop"))
async def stop_chaos(on_broker: OnBroker) -> ChaosRun:
    """End the chaos after the quiet phase has begun, and return what has happened. Returns 404 without chaos."""

    async def work(broker: AsyncOperations) -> ChaosRun:
        chaos = broker.chaos()
        await chaos.stop()
        return _describe(chaos)

    return await on_broker(work)


def _describe(chaos: AsyncChaos) -> ChaosRun:
    return ChaosRun(**chaos.to_json(), is_felt=chaos.is_felt, met=list(chaos.met), report=chaos.report())
