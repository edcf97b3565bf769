"""The one limit for everything that a test waits for."""

from typing import Final

PATIENCE_S: Final = 300.0
"""Seconds to wait for an event before a test fails.

It only turns a hang into a failure: a slow, busy machine must never reach it. A test that passes because nothing
happens needs a short time of its own.
"""
