#!/usr/bin/env bash
# Asks a running gateway for what it promises, with curl and tar only.
# usage: integration/smoke.sh http://localhost:8080
set -euo pipefail
base=${1:?usage: smoke.sh URL}
base=${base%/}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

checks=0
ok() {
  checks=$((checks + 1))
  echo "ok    $*"
}
fail() {
  echo "FAIL  $*" >&2
  exit 1
}
# get NAME PATH [CURL OPTIONS]: body to NAME, headers to NAME.head, prints the status
get() {
  curl -sS --max-time 60 -D "$dir/$1.head" -o "$dir/$1" -w '%{http_code}' "${@:3}" "$base$2"
}
want() { # STATUS NAME PATH [CURL OPTIONS]
  local status
  status=$(get "${@:2}")
  [ "$status" = "$1" ] || fail "$3: got $status, want $1: $(head -c 300 "$dir/$2")"
  ok "$1 $3 ${*:4}"
}
header() { # NAME HEADER
  tr -d '\r' <"$dir/$1.head" | grep -i "^$2: " | head -n 1 | cut -d ' ' -f 2- || true
}

want 200 alive /healthz
want 200 ready /readyz
want 200 datasets /v1/datasets
want 200 spec /openapi.json

want 200 batch /epoch/0/batch/0
tar -tf "$dir/batch" >"$dir/names"
[ -s "$dir/names" ] || fail "/epoch/0/batch/0 holds no member"
ok "tar lists the members of batch 0"
[ "$(header batch Content-Length)" = "$(wc -c <"$dir/batch" | tr -d ' ')" ] || fail "Content-Length is not the length"
ok "Content-Length is the length of the body"

place=$(header batch Content-Location)
etag=$(header batch ETag)
[ -n "$place" ] && [ -n "$etag" ] || fail "no Content-Location or no ETag"
want 200 canonical "$place"
cmp -s "$dir/batch" "$dir/canonical" || fail "the canonical URL gives other bytes"
ok "the canonical URL gives the same bytes"
case $(header canonical Cache-Control) in
  *immutable*) ok "the canonical URL may be cached for ever" ;;
  *) fail "the canonical URL is not immutable" ;;
esac

want 304 same "$place" -H "If-None-Match: $etag"
want 206 part "$place" -H 'Range: bytes=512-1023'
[ "$(wc -c <"$dir/part" | tr -d ' ')" = 512 ] || fail "a range of 512 bytes has another length"
ok "a range has its length"
want 200 head "$place" --head
want 200 again "$place"
cmp -s "$dir/batch" "$dir/again" || fail "a second answer has other bytes"
ok "a second answer has the same bytes"

want 200 manifest "${place%%\?*}/manifest?${place#*\?}"
want 200 plan "${place%/batches/*}"
want 400 wrong '/epoch/0/batch/0?batch_size=-1'
want 404 past '/epoch/0/batch/99999999'
grep -q end_of_epoch "$dir/past" || fail "past the end: no end_of_epoch"
ok "past the end says so"
echo "all $checks checks passed"
