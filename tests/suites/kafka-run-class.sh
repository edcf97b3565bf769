#!/bin/sh
# Replaces Kafka in suites that start Kafka themselves. It reports that ZooKeeper is running, and starts minibroker as
# the broker. MINIBROKER_PYTHON, MINIBROKER_ROOT and MINIBROKER_NOTES come from the runner.
case "$1" in
*QuorumPeerMain)
    echo "binding to port"
    exec tail -f /dev/null
    ;;
kafka.Kafka)
    listen=$(sed -n 's/^listeners=[A-Z_]*:\/\///p' "$2")
    cd "$MINIBROKER_ROOT" || exit 1
    exec "$MINIBROKER_PYTHON" -m tests.suites.recording_broker "$listen" "$MINIBROKER_NOTES" "$2"
    ;;
esac
