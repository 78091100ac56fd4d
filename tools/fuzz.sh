#!/usr/bin/env bash
# Runs every fuzz target of the repository for FUZZTIME, one after another.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
fuzztime=${FUZZTIME:-5s}
count=0
while IFS=: read -r file target; do
  dir=./$(dirname "$file")
  echo "fuzz $dir $target $fuzztime"
  log=$(mktemp)
  if ! go test -run '^$' -fuzz "^${target}\$" -fuzztime "$fuzztime" -timeout 2h "$dir" >"$log" 2>&1 </dev/null; then
    cat "$log"
    rm -f "$log"
    exit 1
  fi
  tail -n 2 "$log" | head -n 1
  rm -f "$log"
  count=$((count + 1))
done < <(git ls-files -co --exclude-standard '*_test.go' | xargs grep -Ho '^func Fuzz[A-Za-z0-9_]*' | sed 's/func //')
mkdir -p bin
if [ "$count" -eq 0 ]; then
  echo "FAIL  fuzz: no target found" | tee -a bin/test-summary
  exit 1
fi
echo "ok    fuzz: $count targets, $fuzztime each" | tee -a bin/test-summary
