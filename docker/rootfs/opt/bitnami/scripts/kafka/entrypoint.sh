#!/usr/bin/env bash
# Runs its arguments, like the entry points of bitnami/kafka and redpanda, or the broker without arguments.
if [ $# -eq 0 ]; then
  set -- /opt/bitnami/scripts/kafka/run.sh
fi
case "$1" in
  redpanda* | start | "start "*) exec python /opt/minibroker/bin/entrypoint.py "$@" ;;
esac
exec "$@"
