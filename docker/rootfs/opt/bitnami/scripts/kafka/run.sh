#!/usr/bin/env bash
# Becomes the broker.
exec python /opt/minibroker/bin/entrypoint.py
