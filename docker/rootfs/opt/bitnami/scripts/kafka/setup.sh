#!/usr/bin/env bash
# Runs the scripts that are mounted into /docker-entrypoint-initdb.d.
for script in /docker-entrypoint-initdb.d/*.sh; do
  [ ! -e "$script" ] || bash "$script"
done
