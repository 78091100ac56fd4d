#!/usr/bin/env bash
# Compares the micro-benchmarks of the working tree with those of another commit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ref=${1:?usage: make bench-compare REF=commit}
packages=${PACKAGES:-./shuffle/... ./chunkindex/... ./datapath/...}
count=${COUNT:-8}
tree=$(mktemp -d)
trap 'git worktree remove --force "$tree" 2>/dev/null || true; rm -rf "$tree"' EXIT
git worktree add --quiet --detach "$tree" "$ref"
mkdir -p bin
measure() { go test -run '^$' -bench . -benchmem -count "$count" $packages </dev/null; }
(cd "$tree" && measure) >bin/bench-old.txt
measure >bin/bench-new.txt
go tool -modfile=tools/go.mod benchstat bin/bench-old.txt bin/bench-new.txt
