#!/usr/bin/env bash
# Plants the bugs of plants/ one by one in a copy of the tree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec python3 integration/sabotage/sabotage.py "$@"
