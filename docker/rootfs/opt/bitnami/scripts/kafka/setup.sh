#!/usr/bin/env bash
# Does nothing: run.sh prepares the broker and runs the scripts mounted into /docker-entrypoint-initdb.d.
