#!/usr/bin/env bash
# Becomes the broker.
/opt/bitnami/scripts/kafka/setup.sh
exec python /opt/minibroker/bin/entrypoint.py
