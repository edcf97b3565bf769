"""`python -m tests.kafka.own_tests`: run Kafka's own tests against minibroker; `--help` lists the options.

A run continues where an earlier one in the same folder ended. The exit status is 1 when a test fails that neither
not-applicable.txt nor known-failures.txt lists, or when a listed test passes.
"""

import argparse
import sys
from pathlib import Path

from tests.kafka.own_tests import records
from tests.kafka.own_tests.campaign import DIRECTORY, NEWEST, Campaign, say
from tests.kafka.own_tests.releases import MODULES, RELEASES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.own_tests")
    option = parser.add_argument
    option("--emulate", choices=RELEASES, default=NEWEST, help="the release whose tests run (default: %(default)s)")
    option("--modules", default=",".join(MODULES), metavar="NAME,...", help="default: %(default)s")
    option("--classes", metavar="NAME,...", help="only classes with these names")
    option("--lanes", type=int, default=2, metavar="N", help="JVMs at the same time (default: %(default)s)")
    option("--directory", type=Path, default=DIRECTORY, metavar="DIR", help="for the results (default: %(default)s)")
    option("--on-kafka", action="store_true", help="leave Kafka's brokers in their place, to compare")
    option("--confirm", action="store_true", help="run on Kafka what not-applicable.txt has without INSIDE-KAFKA")
    option("--again", action="store_true", help="repeat the classes in which unlisted tests have failed")
    option("--record", action="store_true", help="run nothing; record the results for docs/compatibility.md")
    options = parser.parse_args()
    on_kafka = options.on_kafka or options.confirm
    campaign = Campaign(options.emulate, options.modules.split(","), options.directory, on_kafka=on_kafka)
    if options.confirm:
        campaign.keep_methods_to_confirm()
    if options.classes:
        campaign.keep(options.classes.split(","))
    if options.record:
        records.save(campaign.release.version, campaign.tallies())
        return 0
    if options.again:
        campaign.forget_failures()
    campaign.run(options.lanes, say)
    return campaign.report(say)


if __name__ == "__main__":
    sys.exit(main())
