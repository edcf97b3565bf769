"""The data routes of the page, one module per view."""

from typing import Annotated

from minibroker_control.remote import from_state
from minibroker_lab.page.recorder import Recorder
from minibroker_lab.page.schemas import PageSchemas

OnRecorder = Annotated[Recorder, from_state("recorder")]
"""A route parameter: the recorder of a broker's or a proxy's requests."""

OnSchemas = Annotated[PageSchemas | None, from_state("schemas")]
"""A route parameter: the schemas of a broker, or None for a proxy."""
