#!/usr/bin/env bash
# Has nothing to do: run.sh prepares the broker, and runs the scripts that are mounted into /docker-entrypoint-initdb.d.
