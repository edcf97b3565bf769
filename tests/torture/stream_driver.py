"""A Spark with one stream, in a process of its own: `stream_runs.StreamProcess` is the other end.

It reads `start`, `stop` and `check`, a line each, and answers each with a line.
"""

import os
import sys

from minibroker_pipeline import session
from tests.torture.ledger import TortureError
from tests.torture.stream_runs import FAILED, StreamErrand, StreamInSession


def main() -> None:
    # The Java that is started below writes to the same standard output, which is to hold answers only.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    settings = {**session.test_settings(), "spark.sql.streaming.fileSink.log.compactInterval": "3"}
    run = StreamInSession(session.spark_session("torture", **settings), StreamErrand(*sys.argv[1:]))
    steps = {"start": run.start, "stop": run.stop, "check": run.check}
    print("ready", file=answers, flush=True)
    for command in sys.stdin:
        try:
            steps[command.strip()]()
        except TortureError as failure:
            print(FAILED + str(failure).replace("\n", " "), file=answers, flush=True)
        else:
            print("done", file=answers, flush=True)


if __name__ == "__main__":
    main()
