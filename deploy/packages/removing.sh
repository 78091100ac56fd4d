#!/bin/sh
# Runs before the package is removed (dpkg says remove, rpm 0) or upgraded, which leaves the gateway running.
set -e
if [ -d /run/systemd/system ] && { [ "$1" = remove ] || [ "$1" = 0 ]; }; then
  systemctl disable --now millrace.service
fi
