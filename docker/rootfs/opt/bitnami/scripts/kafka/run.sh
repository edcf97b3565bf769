#!/usr/bin/env bash
# Replaces this process with the broker.
exec python /opt/minibroker/bin/entrypoint.py
