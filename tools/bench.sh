#!/usr/bin/env bash
# Measures the goals against their yardsticks, stores their rows and makes docs/benchmarks.md of all rows. Arguments go
# to the program: see bin/bench -h.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools/deps.sh
python=$(tools/python.sh)
go build -C integration -o ../bin/ ./bench ./bench/wire
bin/bench -python "$python" -out integration/bench/figures "$@"
exec bin/bench -page docs/benchmarks.md
