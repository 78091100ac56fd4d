#!/usr/bin/env bash
# Reads an epoch from Millrace gateways with curl and od, and prints a line for each sample.
set -euo pipefail
read -ra gateways <<<"$MILLRACE_URL"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

for ((i = 0; i < 256; i++)); do
  for ((n = i, bit = 0; bit < 8; bit++)); do n=$((n & 1 ? n >> 1 ^ 0x82f63b78 : n >> 1)); done
  table[i]=$n
done
crc32c() { # FILE OFFSET LENGTH: sets sum. Some hundred thousand bytes a second: a tool of yours may be faster
  local crc=0xffffffff bytes byte
  while read -ra bytes; do
    for byte in "${bytes[@]}"; do crc=$((table[(crc ^ byte) & 255] ^ crc >> 8)); done
  done < <(od -An -v -tu1 -j "$2" -N "$3" "$1")
  printf -v sum %08x $((crc ^ 0xffffffff))
}
number() { od -An -v -tu4 -j "$1" -N 4 "$dir/body" | tr -d ' '; } # of four bytes, little-endian if the machine is
header() { tr -d '\r' <"$dir/head" | sed -n "s/^$1: //Ip" | tail -n 1; }

get() { # PATH: the body in $dir/body and its headers in $dir/head: retried, resumed, checked
  local attempt=0 size=0 etag="" have status pause resume end=$((SECONDS + 120))
  : >"$dir/body"
  while [ "$SECONDS" -lt "$end" ]; do
    have=$(($(wc -c <"$dir/body")))
    resume=()
    [ "$have" -eq 0 ] || resume=(-r "$have-" -H "If-Range: $etag")
    : >"$dir/head"
    : >"$dir/part"
    status=$(curl -s --max-time 60 -D "$dir/head" -o "$dir/part" -w '%{http_code}' ${resume[@]+"${resume[@]}"} "${gateways[0]}$1") || true
    pause=$(header retry-after)
    case $status in
      200) # the whole of it, even for a range
        mv "$dir/part" "$dir/body" && size=$(header content-length) && etag=$(header etag)
        ;;
      206)
        [[ $(header content-range) == "bytes $have-"* ]] || { echo "$1: another range than was asked for" >&2 && exit 1; }
        cat "$dir/part" >>"$dir/body"
        ;;
      000 | 408 | 429 | 500 | 503 | 504) ;; # 000: no answer
      *) [ -n "$pause" ] || { echo "$1: status $status: $(cat "$dir/part")" >&2 && exit 1; } ;;
    esac
    have=$(($(wc -c <"$dir/body")))
    if [[ $status == 20? ]] && [ "$have" -eq "$size" ]; then
      crc32c "$dir/body" 0 "$size"
      [ "$sum" != "$(header millrace-crc32c)" ] || return 0
      : >"$dir/body" # the damage could be anywhere
    fi
    attempt=$((attempt + 1))
    gateways=(${gateways[@]+"${gateways[@]:1}"} "${gateways[0]}")
    if [ $((attempt % ${#gateways[@]})) -eq 0 ]; then sleep "${pause:-0.$((attempt < 9 ? attempt : 9))}"; fi # all of them were asked
  done
  echo "$1: given up after 120 s" >&2
  exit 1
}

path="/v1/datasets/$MILLRACE_DATASET/epochs/$MILLRACE_EPOCH/batches/0?format=framed${MILLRACE_PLAN:+&$MILLRACE_PLAN}"
while [ -n "$path" ]; do
  get "$path"
  [ "$(head -c 4 "$dir/body")" = MLRF ] || { echo "$path: this is not the framed form" >&2 && exit 1; }
  samples=$(number 8) at=$(number 28) batch=$(header millrace-batch) i=0
  while read -r length; do
    crc32c "$dir/body" "$at" "$length"
    echo "$batch $i $length $sum"
    at=$((at + length)) i=$((i + 1))
  done < <(od -An -v -tu4 -j 40 -N $((4 * samples)) "$dir/body" | tr -s ' ' '\n' | sed '/^$/d')
  path=$(header link | sed -n 's/^<\(.*\)>; rel="next"$/\1/p') # it pins the generation
done
