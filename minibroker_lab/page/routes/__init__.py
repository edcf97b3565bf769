"""The data of the page, with one module per view."""

from typing import Annotated

from fastapi import Depends, Request

from minibroker_lab.page.recorder import Recorder


async def _recorder(request: Request) -> Recorder:
    recorder: Recorder = request.app.state.recorder
    return recorder


OnRecorder = Annotated[Recorder, Depends(_recorder)]
"""A route parameter: the recorder of a broker's or a proxy's requests."""
