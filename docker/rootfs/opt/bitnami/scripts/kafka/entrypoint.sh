#!/usr/bin/env bash
# Runs its arguments, like the entry points of bitnami/kafka and redpanda, or the broker without arguments.
if [ $# -eq 0 ]; then
  set -- /opt/bitnami/scripts/kafka/run.sh
elif [ "$1" = redpanda ]; then
  set -- rpk "$@"
fi
exec "$@"
