"""The facts of a proxy that every view shows."""

from typing import Any

from fastapi import APIRouter, Request

router = APIRouter()


@router.get("/lab")
async def about(request: Request) -> dict[str, Any]:
    """The proxy, and the cluster behind it."""
    facts: dict[str, Any] = request.app.state.facts
    return facts
