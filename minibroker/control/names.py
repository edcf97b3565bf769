"""Names in paths that hold slashes of their own."""

from collections.abc import MutableMapping
from typing import Any, Final
from urllib.parse import unquote

from fastapi.routing import APIRoute
from starlette.routing import Match

_SLASH: Final = "\ud82f"
"""Stands for a slash that came as %2F. No path holds it otherwise: a lone surrogate has no UTF-8."""


class NamesRoute(APIRoute):
    """A route whose `{name:path}` may hold slashes. One that came as `%2F` is of the name, and parts nothing.

    Servers decode a path before they choose a route. So `/groups/a%2Flag` would be the lag of the group `a`, and not
    the group `a/lag`. A slash that came as it is may be of the name as well, where no longer path fits.
    """

    def matches(self, scope: MutableMapping[str, Any]) -> tuple[Match, MutableMapping[str, Any]]:
        """Match a request's path as it was sent."""
        sent = scope.get("raw_path", b"").decode("ascii", "replace")
        if scope["type"] != "http" or "%2f" not in sent.lower():
            return super().matches(scope)
        path = unquote(sent.replace("%2f", "%2F").replace("%2F", _SLASH))
        match, found = super().matches({**scope, "path": path})
        if match is not Match.NONE:
            found["path_params"] = {
                name: value.replace(_SLASH, "/") if isinstance(value, str) else value
                for name, value in found["path_params"].items()
            }
        return match, found
