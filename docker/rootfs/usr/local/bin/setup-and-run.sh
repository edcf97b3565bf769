#!/usr/bin/env bash
# The command of lensesio/fast-data-dev. Only its broker runs here.
export ADV_HOST="${ADV_HOST:-localhost}"
exec python /opt/minibroker/bin/entrypoint.py
