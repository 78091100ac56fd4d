#!/usr/bin/env bash
# Makes roots of Debian, in which the Python package meets current frameworks and the newest CPython; --help says how to use it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'HELP'
usage: tools/frameworks.sh [ROOT]            make what is missing and print the root's path
       tools/frameworks.sh [ROOT] -- ARGS    run the root's Python with ARGS, in this directory, with client/python on its path

ROOT    Debian   CPython  torch              from PyPI, by tools/requirements-*.txt
stable  13       3.13     2.6 without CUDA   frameworks; the default
newest  testing  3.14     2.15 with CUDA     frameworks and newest
plain   testing  3.14     none               plain

mmdebstrap unpacks Debian's packages into a directory of the user's cache (millrace/frameworks-HASH, HASH that of what is installed);
pip adds the others, among them jax, ray, transformers and accelerate. ARGS are run by chroot, in namespaces of their own for mounts and processes: the checkout,
the home directory and the directory of temporary files are there under their own names, and no process is left at the end.
Needs Linux, root or sudo, and apt.
HELP
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n -E "$@"; fi
}

# Sets what a root is made of. procps and openssl are what the tests call.
choose() { # name
  local tools=python3-pip,procps,openssl,ca-certificates torch=python3-torch,python3-torchvision
  suite=forky python=/usr/bin/python3.14 packages=python3.14,$tools libuv=1
  try="import numpy, torch; assert int(torch.from_numpy(numpy.arange(4)).sum()) == 6"
  case $1 in
  # Debian's torch is built without libuv, which torch.distributed's store uses unless it is told not to.
  stable) suite=trixie python=/usr/bin/python3.13 packages=$torch,$tools libuv=0 requirements=("$here/requirements-frameworks.txt") ;;
  newest) packages+=,libstdc++6 requirements=("$here"/requirements-{frameworks,newest}.txt) ;;
  plain) requirements=("$here/requirements-plain.txt") try="import pytest" ;;
  *)
    echo "tools/frameworks.sh: there is no root $1; --help lists them" >&2
    exit 2
    ;;
  esac
}

# Runs a program in a root: mounts and processes end with it. A shell stays its first process, since that one has to wait for orphans.
inside() { # root program arguments...
  # shellcheck disable=SC2016 # the shell that is started expands it
  as_root unshare --mount --propagation private --pid --fork --kill-child bash -euc '
    root=$1 checkout=$2; shift 2
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    for place in "$checkout" "$HOME" "${TMPDIR:-/tmp}"; do
      mkdir -p "$root$place"
      mount --bind "$place" "$root$place"
    done
    for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
      [ ! -e "$file" ] || { touch "$root$file"; mount --bind "$file" "$root$file"; }
    done
    code=0
    # Of the home directory other Pythons could be on the path.
    chroot "$root" env -C "$PWD" PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin "$@" || code=$?
    exit "$code"
  ' inside "$1" "$(dirname "$here")" "${@:2}"
}

install() {
  local began=$SECONDS making=$root.making
  echo "making $root: Debian's $suite for the Python tests (once)" >&2
  if ! command -v mmdebstrap >/dev/null; then
    as_root apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -qq --no-install-recommends mmdebstrap debian-archive-keyring >/dev/null
  fi
  as_root rm -rf --one-file-system "$making"
  as_root mmdebstrap --quiet --mode=root --variant=essential --include="$packages" \
    --aptopt='Acquire::Retries "3"' --aptopt='Acquire::Check-Valid-Until "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    "$suite" "$making" "$archive" >&2
  # Over Debian's own packages, which stay: /usr/local comes first on the path.
  inside "$making" "$python" -m pip --disable-pip-version-check --no-cache-dir install -qq --no-deps --no-compile --ignore-installed \
    --break-system-packages --root-user-action ignore "${requirements[@]/#/--requirement=}" >&2
  inside "$making" "$python" -W ignore -c "$try"
  as_root touch "$making/complete"
  as_root mv "$making" "$root"
  prune
  echo "made $root in $((SECONDS - began)) s, $(as_root du -shx "$root" | cut -f1)" >&2
}

# Removes the roots that were never finished, and those of other pins that nobody used for a day: another checkout may have younger ones.
prune() {
  local other
  for other in "$cache"/frameworks-*; do
    if [ -d "$other" ] && [ "$other" != "$root" ] && [ -z "$(find "$other/complete" -maxdepth 0 -mtime -1 2>/dev/null)" ]; then
      echo "removing $other, which nobody used for a day" >&2
      as_root rm -rf --one-file-system "$other"
    fi
  done
}

archive=http://deb.debian.org/debian # testing's copies may be old: only the signature has to be valid
cache=${XDG_CACHE_HOME:-$HOME/.cache}/millrace
name=stable
case ${1:-} in
-h | --help) usage && exit ;;
'' | --) ;;
*) name=$1 && shift ;;
esac
choose "$name"
hash=$({ cat "${requirements[@]}"; echo "layout 1, $packages"; } | sha256sum | cut -c1-12)
root=$cache/frameworks-$hash
if [ "$(uname)" != Linux ]; then
  echo "a root of Debian wants Linux" >&2
  exit 1
fi
if [ ! -e "$root/complete" ]; then
  mkdir -p "$cache"
  # Whoever comes second waits, and finds it made.
  exec 9>"$cache/frameworks.lock"
  flock 9
  [ -e "$root/complete" ] || install
  exec 9>&-
fi
as_root touch "$root/complete" # it is in use, whatever its age

if [ "${1:-}" = -- ]; then
  shift
  inside "$root" env PYTHONPATH="$here/../client/python${PYTHONPATH:+:$PYTHONPATH}" USE_LIBUV=$libuv "$python" "$@"
else
  echo "$root"
fi
