"""Warm-up of Spark's Python workers: the decoder is loaded, and garbage collection passes over it."""

import gc
from typing import Final

from minibroker_pipeline.decode import prepare
from minibroker_pipeline.decode.request import Engine

_settled: Final[set[Engine]] = set()


def settle(engine: Engine = "auto") -> None:
    """Load the decoder and let the garbage collector pass over all that is there now. Called before each task.

    Spark's worker collects garbage after every task. Of what numba has loaded there is none, but to look through it
    takes 70 ms, as long as a task that decodes 30 MB. `ImportError` when the engine is not there.
    """
    if engine not in _settled:
        prepare(engine)
        gc.collect()
        gc.freeze()
        _settled.add(engine)
