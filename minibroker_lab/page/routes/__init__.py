"""The data of the page, one module per view."""

from typing import Annotated

from fastapi import Depends, Request

from minibroker_lab.page.recorder import Recorder


async def _recorder(request: Request) -> Recorder:
    recorder: Recorder = request.app.state.recorder
    return recorder


OnRecorder = Annotated[Recorder, Depends(_recorder)]
"""A parameter of a route that looks at recorded requests, of a broker or of a proxy."""
