"""The data of the page, one module per view."""

from typing import Annotated

from fastapi import Depends, Request

from minibroker.page.source import Source


async def _recorder(request: Request) -> Source:
    recorder: Source = request.app.state.recorder
    return recorder


OnRecorder = Annotated[Source, Depends(_recorder)]
"""A parameter of a route that looks at recorded requests."""
