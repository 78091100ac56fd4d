#!/bin/sh
# Runs after the package was installed or upgraded: systemd reads the unit, and a gateway that runs is replaced by the new program.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart millrace.service
fi
