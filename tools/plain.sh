#!/usr/bin/env bash
# Runs a CPython that has pytest and ruff and no other package; --help says how to use it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'HELP'
usage: tools/plain.sh VERSION            make what is missing and print the interpreter's version
       tools/plain.sh VERSION -- ARGS    run CPython VERSION (3.10, 3.14; 3: python3) with ARGS, with client/python on its path

The interpreter is pythonVERSION of the PATH or of pyenv, with tools/requirements-plain.txt in a directory of the user's cache
(millrace/plain-VERSION-HASH). Where there is none, 3.14 comes from Debian's testing (tools/frameworks.sh plain: Linux, root).
Exit code 3: this machine has no such interpreter.
HELP
}

find_python() { # version
  local candidate
  for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
    # A wrapper of pyenv's may be there for a version that is not in use.
    if "$candidate" -c 'import sys; sys.exit(sys.implementation.name != "cpython" or sys.version_info < (3, 10))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

case ${1:-} in
'' | -h | --help) usage && exit ;;
esac
version=$1
shift
if [ "${1:-}" = -- ]; then shift; else set -- --version; fi

if ! python=$(find_python "$version"); then
  if [ "$version" = 3.14 ] && [ "$(uname)" = Linux ]; then
    exec "$here/frameworks.sh" plain -- "$@"
  fi
  echo "there is no CPython $version, at least 3.10: put python$version into the PATH" >&2
  exit 3
fi
packages=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/plain-$version-$(cksum <"$here/requirements-plain.txt" | tr ' ' -)
if [ ! -e "$packages" ]; then
  making=$packages.$$
  mkdir -p "$making"
  "$python" -m pip --disable-pip-version-check install -q --root-user-action ignore --no-deps --target "$making" -r "$here/requirements-plain.txt" >&2 ||
    { rm -rf "$making"; exit 1; }
  mv "$making" "$packages"
fi
PYTHONPATH=$here/../client/python:$packages${PYTHONPATH:+:$PYTHONPATH} exec "$python" "$@"
