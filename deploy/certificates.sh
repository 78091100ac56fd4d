#!/bin/sh
# Makes certificates of gateways: a certificate authority, ca.pem, and NAME.pem and NAME.key for each NAME, which is a DNS name
# or an IP address. NAME,NAME... are further names of the same certificate; its files have the first one. Existing files stay, so
# that a gateway can be added later. Good for a year; gateways read new files without a restart.
# usage: certificates.sh DIR NAME[,NAME...]...
set -eu
dir=${1:?usage: certificates.sh DIR NAME[,NAME...]...}
shift
umask 077
mkdir -p "$dir"
cd "$dir"

key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null; }

# An IPv4 address has only digits and dots, an IPv6 address a colon.
names() { echo "$1" | tr ',' '\n' | sed -E 's/^[0-9.]+$|.*:.*/IP:&/; /^IP:/!s/^/DNS:/' | paste -s -d , -; }

if [ ! -s ca.pem ]; then
  key ca.key
  openssl req -x509 -new -key ca.key -sha256 -days 3650 -subj "/CN=millrace" -out ca.pem
fi
for all; do
  name=${all%%,*}
  [ ! -s "$name.pem" ] || continue
  key "$name.key"
  printf 'basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=%s\n' "$(names "$all")" >"$name.ext"
  openssl req -new -key "$name.key" -subj "/CN=$name" -out "$name.csr"
  openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -sha256 -days 365 -extfile "$name.ext" -out "$name.new" 2>/dev/null
  mv "$name.new" "$name.pem"
  rm -f "$name.ext" "$name.csr"
done
