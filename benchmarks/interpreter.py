"""The Python that runs brokers and clients, and whether it was built with profile-guided optimization."""

import sys
import sysconfig
from collections.abc import Mapping


def is_optimized(variables: Mapping[str, object]) -> bool | None:
    """Whether a Python was built with profile-guided optimization; None where its build settings do not tell.

    `variables` are those of `sysconfig.get_config_vars()`. A Python from python.org, conda, Fedora or Homebrew was
    configured with --enable-optimizations. Debian calls the compiler with a profile by itself, and takes the flag out
    of the settings afterwards, which leaves one of a pair empty. Windows has no such settings.
    """
    flags = " ".join(str(variables.get(name) or "") for name in ("CONFIG_ARGS", "PY_CFLAGS_NODIST", "PY_CORE_CFLAGS"))
    if any(sign in flags for sign in ("--enable-optimizations", "-fprofile-use", "-fprofile-instr-use")):
        return True
    if variables.get("PGO_PROF_GEN_FLAG") and variables.get("PGO_PROF_USE_FLAG") == "":
        return True
    return False if variables.get("CONFIG_ARGS") else None


_WORDS = {
    True: "an optimized build",
    False: "not an optimized build",
    None: "built with or without optimization: it does not tell",
}


def description() -> str:
    """Return the version of this Python and whether it is an optimized build, for a report."""
    return f"{sys.version.split()[0]}, {_WORDS[is_optimized(sysconfig.get_config_vars())]}"
