#!/bin/sh
# Makes what the gateways of a cluster know each other by: a certificate authority, and a certificate and a key for each
# gateway. What is there already stays, so that a gateway can be added later. Good for a year; gateways take new files
# without a restart.
# usage: certificates.sh DIR NAME...
set -eu
dir=${1:?usage: certificates.sh DIR NAME...}
shift
umask 077
mkdir -p "$dir"
cd "$dir"

key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null; }

if [ ! -s ca.pem ]; then
  key ca.key
  openssl req -x509 -new -key ca.key -sha256 -days 3650 -subj "/CN=millrace cluster" -out ca.pem
fi
for name; do
  [ ! -s "$name.pem" ] || continue
  key "$name.key"
  printf 'basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=DNS:%s\n' "$name" >"$name.ext"
  openssl req -new -key "$name.key" -subj "/CN=$name" -out "$name.csr"
  openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -sha256 -days 365 -extfile "$name.ext" -out "$name.new" 2>/dev/null
  mv "$name.new" "$name.pem"
  rm -f "$name.ext" "$name.csr"
done
