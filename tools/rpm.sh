#!/usr/bin/env bash
# Installs rpm, with which integration/release installs the package of RPM, from the system's packages.
set -euo pipefail
command -v rpm >/dev/null && exit 0
echo "installing rpm"
as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}
as_root apt-get update -qq
DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -qq --no-install-recommends rpm >/dev/null
