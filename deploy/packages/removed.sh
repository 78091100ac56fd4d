#!/bin/sh
# Runs after the files are gone.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
