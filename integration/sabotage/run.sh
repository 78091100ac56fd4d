#!/usr/bin/env bash
# Plants the bugs of plants/ one at a time in copies of the tree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec python3 integration/sabotage/sabotage.py "$@"
