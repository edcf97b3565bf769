"""The sweeps of which `make test` takes samples, as a whole: pytest on their files, in a process of its own."""

import os
import subprocess
import sys
from typing import Final

from tests.documented import ROOT
from tests.samples import ROOMS, SWEEPS, property_files, swept_files

PROCESSES: Final = 2


def run() -> int:
    """Run them; the exit status of pytest."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--numprocesses={PROCESSES}"]
    environment = {**os.environ, SWEEPS: "whole"}
    others = {file for file in (*swept_files(), *property_files()) if not file.startswith(ROOMS)}
    return subprocess.run([*command, *ROOMS, *sorted(others)], cwd=ROOT, env=environment, check=False).returncode
