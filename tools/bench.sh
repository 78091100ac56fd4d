#!/usr/bin/env bash
# Measures the goals against their yardsticks and writes docs/benchmarks.md. Arguments go to the program: see
# go run ./bench -h.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools/deps.sh
python=$(tools/python.sh)
go build -o bin/wire ./bench/wire
exec go run ./bench -python "$python" -out docs/benchmarks.md "$@"
