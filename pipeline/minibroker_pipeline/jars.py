"""The command `python -m minibroker_pipeline.jars`: paths of the Kafka connector's jars, for `spark-submit --jars`."""

import sys

from minibroker_pipeline.connector.jars import NoJarsError, find


def main() -> int:
    """Print the paths, separated by commas, as `spark-submit --jars` takes them; arguments are `packages`."""
    try:
        sys.stdout.write(",".join(find(sys.argv[1:] or ("kafka",))) + "\n")
    except (NoJarsError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
