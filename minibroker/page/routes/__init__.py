"""The data of the page, one module per view."""

from typing import Annotated

from fastapi import Depends, Request

from minibroker.page.recorder import Recorder
from minibroker.page.source import Source


async def _source(request: Request) -> Source:
    source: Source = request.app.state.source
    return source


async def _recorder(request: Request) -> Recorder:
    recorder: Recorder = request.app.state.source
    return recorder


OnSource = Annotated[Source, Depends(_source)]
"""A parameter of a route that looks at recorded requests, of a broker or of a proxy."""
OnRecorder = Annotated[Recorder, Depends(_recorder)]
"""A parameter of a route that looks at requests and events of this process's broker."""
