#!/usr/bin/env bash
# Installs Slurm and MUNGE, which integration/slurm runs, from the system's packages: some seconds. Nothing of them is started.
set -euo pipefail

missing=()
for program in slurmctld slurmd munged sbatch; do
  PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || missing+=("$program")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "installing Slurm"
as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}
as_root apt-get update -qq
DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge >/dev/null
