#!/usr/bin/env bash
# Runs its arguments, as the entry points of bitnami/kafka and redpanda do; without any the broker.
if [ $# -eq 0 ]; then
  set -- /opt/bitnami/scripts/kafka/run.sh
elif [ "$1" = redpanda ]; then
  set -- rpk "$@"
fi
exec "$@"
