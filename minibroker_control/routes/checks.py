"""The route for checks of applications. It answers with the result, where Python raises an error."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field

from minibroker.cluster.errors import OperationError
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.options import DEFAULT_TIMEOUT
from minibroker.operations.wording import Int64
from minibroker_chaos.check.results import CheckFailedError, CheckResult, Finding
from minibroker_control.models import Body, ResponseBody, Timeout, describes
from minibroker_control.remote import OnBroker
from minibroker_control.routes import calls


@describes(Finding)
class CheckFinding(ResponseBody):
    """Something that an application did wrong."""

    offset: Int64 = Field(description="Its offset, or -1.")


@describes(CheckResult)
class CheckedApplication(ResponseBody):
    """The result of a check."""

    findings: list[CheckFinding] = Field(description="The certain ones first.")


class Checking(Body):
    """A check and what it is about."""

    check: Literal[
        "all",
        "caught_up",
        "commits_do_not_go_back",
        "exactly_once",
        "no_commit_ahead",
        "no_duplicates",
        "no_loss",
        "no_zombie_writes",
        "order_by_key",
    ]
    inputs: list[str] = Field(default=[], description="The topics that the application reads.")
    outputs: list[str] = Field(default=[], description="The topics that it writes.")
    key: str = Field(default="key", description='The id of a record: "key", "value", "header:NAME" or "json:FIELD".')
    output_key: str | None = Field(default=None, description="The id of an output, if it is found in another way.")
    expected: dict[str, list[str]] | None = Field(
        default=None, description="The ids of the outputs of an input, by its id. By default it is one: its own."
    )
    group: str | None = Field(default=None, description="The group that reads the inputs.")
    instances: dict[str, str] | None = Field(
        default=None, description="The client id of the producer that belongs to that of each consumer."
    )
    timeout: Annotated[Timeout, Field(description="For caught_up, in seconds.")] = DEFAULT_TIMEOUT


router = APIRouter(tags=["Checks"])
_METHODS = (
    "all caught_up commits_do_not_go_back exactly_once no_commit_ahead no_duplicates no_loss no_zombie_writes "
    "order_by_key run"
)


@router.post("/check", openapi_extra=calls(*(f"check.{name}" for name in _METHODS.split())))
async def check_application(checking: Checking, on_broker: OnBroker) -> CheckedApplication:
    """Judge an application by what the broker saw of it.

    The broker keeps what checks of commits need from the first check on, or from the start with `--check`.
    """
    about: dict[str, Any] = {
        "key": checking.key,
        "output_key": checking.output_key,
        "expected": checking.expected,
        "group": checking.group,
        "instances": checking.instances,
    }

    async def work(broker: AsyncOperations) -> CheckResult:
        try:
            if checking.check == "caught_up":
                if checking.group is None:
                    raise OperationError("group: caught_up needs the group that reads")
                topic = next(iter(checking.inputs), None)
                return await broker.check.caught_up(checking.group, topic, timeout=checking.timeout)
            return await broker.check.run(checking.check, checking.inputs, checking.outputs, **about)
        except CheckFailedError as error:
            return error.result

    return CheckedApplication.model_validate(await on_broker(work))
