"""`python -m benchmarks.clients CLIENT JSON` runs one client and prints its numbers as one line of JSON.

Each client is a separate process. Its CPU time is then not counted as the broker's, its garbage disappears with it, and
the thread of the progress display does not disturb its latencies.
"""

import importlib
import json
import resource
import signal
import sys


def raise_descriptor_limit() -> None:
    """Raise the limit of open files as far as allowed, because a thousand connections need as many descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 20_000 if hard == resource.RLIM_INFINITY else min(hard, 20_000)
    if soft == resource.RLIM_INFINITY or soft >= limit:
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def main() -> None:
    client, text = sys.argv[1:]
    module, name = client.split(".")
    parameters = json.loads(text)
    signal.alarm(parameters.pop("timeout") + 5)  # In case the parent no longer exists to end it.
    raise_descriptor_limit()
    address = tuple(parameters.pop("address"))
    run = getattr(importlib.import_module(f"benchmarks.clients.{module}"), name)
    print(json.dumps(run(address, **parameters)))


if __name__ == "__main__":
    main()
