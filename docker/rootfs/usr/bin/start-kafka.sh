#!/usr/bin/env bash
# The command of wurstmeister/kafka.
if [ -n "${CUSTOM_INIT_SCRIPT:-}" ]; then
  eval "$CUSTOM_INIT_SCRIPT"
  unset CUSTOM_INIT_SCRIPT
fi
exec python /opt/minibroker/bin/entrypoint.py "$@"
