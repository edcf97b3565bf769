"""`python -m benchmarks.page_reader URL` reads the stream of minibroker's page, as a browser does."""

import http.client
import sys
import time
from urllib.parse import urlsplit

_BREATH_S = 0.2


def main() -> int:
    """Read the stream of requests until the broker ends it."""
    address = urlsplit(sys.argv[1])
    deadline = time.monotonic() + 30
    while True:
        connection = http.client.HTTPConnection(address.hostname or "", address.port)
        try:
            connection.request("GET", "/data/requests/live")
            with connection.getresponse() as stream:
                while stream.read1(1 << 16):
                    pass
                return 0
        except OSError:  # The broker is not up yet.
            if time.monotonic() > deadline:
                raise
            time.sleep(_BREATH_S)
        finally:
            connection.close()


if __name__ == "__main__":
    sys.exit(main())
