#!/usr/bin/env bash
# Installs, from the system's packages, what integration/release looks at packages with: rpm installs that of RPM, and
# systemd-analyze reads the unit of systemd. No systemd needs to run.
set -euo pipefail
missing=()
command -v rpm >/dev/null || missing+=(rpm)
command -v systemd-analyze >/dev/null || missing+=(systemd)
[ ${#missing[@]} -gt 0 ] || exit 0
echo "installing ${missing[*]}"
as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}
as_root apt-get update -qq
DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
