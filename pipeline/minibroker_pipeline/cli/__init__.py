"""The command line `minibroker-pipeline`. Each job has a module: `add` declares its options, `run` runs it."""

from minibroker_pipeline.cli.command_line import main

__all__ = ["main"]
