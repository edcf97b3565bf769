#!/bin/sh
# What stands in Kafka's place for suites that start Kafka themselves. ZooKeeper is said to be there; the broker is ours.
# MINIBROKER_PYTHON, MINIBROKER_ROOT and MINIBROKER_NOTES come from the runner.
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
