#!/usr/bin/env bash
# Measures the goals against their yardsticks and writes docs/benchmarks.md. Arguments go to the program: see
# bin/bench -h.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools/deps.sh
python=$(tools/python.sh)
go build -C integration -o ../bin/ ./bench ./bench/wire
exec bin/bench -python "$python" -out docs/benchmarks.md "$@"
