"""The actions of the Do view: all forms, the request and commands of one action, and the values that forms suggest."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import Field

from minibroker.cluster.errors import NotFoundError, OperationError
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.operations.topics import topics_page
from minibroker_control.models import Body
from minibroker_control.remote import OnBroker
from minibroker_lab.page.actions import ControlRequest, Form, control_request, curl_line, forms, python_line, tool_line
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.error_codes import ErrorCode

router = APIRouter()

_MAX_LISTED = 1_000


class FormTexts(Body):
    """The texts that a user has typed into a form."""

    fields: dict[str, str] = Field(description="By the names of the fields; an empty text for a field without a value.")


@router.get("/actions")
async def list_actions(request: Request) -> dict[str, Any]:
    """Return all actions with their fields."""
    return {
        "actions": [
            {
                "name": form.action.name,
                "title": form.action.title,
                "meaning": form.meaning,
                "fields": [field._asdict() for field in form.fields],
            }
            for form in _load_forms(request).values()
        ]
    }


@router.post("/actions/{name}")
async def prepare(
    request: Request, on_broker: OnBroker, name: Annotated[str, Path()], filled: FormTexts
) -> dict[str, Any]:
    """Return the control plane request of an action, and the equivalent Python, curl and tool commands.

    An incomplete form is not a failure: `error` describes what is missing.
    """
    form = _load_forms(request).get(name)
    if form is None:
        raise NotFoundError(f"there is no action {name!r}")
    try:
        prepared = control_request(form, filled.fields)
        directory = _directory_of(request, name, prepared)
    except OperationError as error:
        return {"error": str(error)}
    servers, replicas = await on_broker(lambda broker: _read_facts(broker, prepared))
    base = f"{str(request.base_url).rstrip('/')}/control"
    tool = tool_line(name, prepared.values, servers, replicas)
    return {
        "request": {"method": prepared.method, "path": prepared.path, "body": prepared.body},
        "lines": {
            "python": python_line(name, prepared.values, directory),
            "curl": curl_line(prepared, base, needs_token=request.app.state.needs_token),
            "tool": tool.line,
        },
        "no_tool": tool.reason,
    }


@router.get("/choices")
async def choices(request: Request, on_broker: OnBroker) -> dict[str, Any]:
    """Return the values that forms suggest, and the state that actions change."""

    async def work(broker: AsyncOperations) -> dict[str, Any]:
        topics, _ = topics_page(broker.services, "", _MAX_LISTED)
        return {
            "topics": [topic.name for topic in topics if not topic.is_internal],
            "groups": (await broker.groups())[:_MAX_LISTED],
            "brokers": [{"node_id": node_id, "is_up": broker.brokers[node_id].is_up} for node_id in broker.brokers],
            "faults": [{"fired": fault.fired, "fault": fault.to_json()} for fault in await broker.faults.list()],
            "now_ms": await broker.clock.now_ms(),
        }

    shelf = request.app.state.control.state.snapshots
    return {
        **await on_broker(work),
        "snapshots": list(shelf.all()),
        "apis": sorted(api_key.message for api_key in ApiKey),
        "errors": [error.name for error in ErrorCode if error],
    }


def _load_forms(request: Request) -> dict[str, Form]:
    """Return the forms of all actions. The OpenAPI document is generated once, on the first request."""
    return forms(request.app.state.control.openapi())


async def _read_facts(broker: AsyncOperations, request: ControlRequest) -> tuple[str, tuple[int, ...]]:
    """Return the bootstrap servers, and the replicas of the partition in the request's values, or ()."""
    topic, index = str(request.values.get("topic", "")), request.values.get("partition")
    partition = broker.services.core.topics.find_partition(topic, index) if isinstance(index, int) else None
    return broker.bootstrap_servers, () if partition is None else partition.replicas


def _directory_of(request: Request, name: str, control_request: ControlRequest) -> str | None:
    """Return the directory of the snapshot to restore, or None for other actions.

    Raises:
        NotFoundError: There is no such snapshot.
    """
    if name != "restore_snapshot":
        return None
    return str(request.app.state.control.state.snapshots.get(control_request.values["name"]).directory)
