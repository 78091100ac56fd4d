#!/usr/bin/env bash
# Makes the Python environment of the tests and benchmarks; --help says how to use it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'HELP'
usage: tools/python.sh            install what is missing and print the interpreter's path
       tools/python.sh --path     print it, or fail if it is not installed: nothing is downloaded
       tools/python.sh -- ARGS    run the interpreter with ARGS, with client/python on its path

One virtual environment for all Python tests and benchmarks, in the user's cache directory
(millrace/python-HASH; HASH is that of the pins, so that a change of them makes a new one, and takes away
those that nobody used for a day):
pytest, mypy, ruff, build, numpy, pyarrow, redbot (tools/requirements-test.txt), mkdocs and Jupyter's kernel
(tools/requirements-docs.txt), the libraries that the formats come from
and those that trainers use (tools/requirements-peers.txt): webdataset, mosaicml-streaming, litdata, tfrecord,
datasets, duckdb, polars, fastparquet, torchdata, lightning, accelerate. torch and torchvision are Debian 12's (1.13, CPU, for CPython 3.11),
of which the environment sees nothing else; on macOS they are PyPI's. Millrace itself is not
installed: set PYTHONPATH=client/python, or use `--`. In Go: harness.Python(t). The newest release of litdata, which only
integration/python/layouts.py imports, has a directory of its own there (tools/requirements-litdata.txt).
HELP
}

find_python() { # a CPython 3.11, since Debian's torch is built for it
  local candidate
  for candidate in python3.11 /usr/bin/python3.11 python3 /usr/bin/python3; do
    # The program itself rather than a wrapper of pyenv's, which is found or not as the PATH has it: there is one environment.
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.version_info[:2] == (3, 11) or sys.exit(1); print(sys.executable)' 2>/dev/null; then
      return
    fi
  done
  return 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

apt_install() {
  if ! command -v apt-get >/dev/null; then
    echo "there is no apt-get to install $* with" >&2
    exit 1
  fi
  echo "installing $* (once)" >&2
  as_root apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

digest() {
  if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi
}

install_torch() { # site-packages
  if [ "$(uname)" = Darwin ]; then
    pip_install torch==2.2.2 torchvision==0.17.2 sympy==1.13.1 mpmath==1.3.0 networkx==3.2.1 jinja2==3.1.6 markupsafe==3.0.2
    return
  fi
  local debian=/usr/lib/python3/dist-packages missing=()
  [ -e "$debian/torch" ] || missing+=(python3-torch)
  [ -e "$debian/torchvision" ] || missing+=(python3-torchvision)
  [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"
  # Links, and not that directory on the path: it holds old versions of much else.
  local part
  for part in "$debian"/{torch,torchgen,functorch,torchvision} "$debian"/torch-*.egg-info "$debian"/torchvision-*.egg-info; do
    ln -sfn "$part" "$1/${part##*/}"
  done
}

pip_install() {
  "$python" -m pip --python "$interpreter" --disable-pip-version-check install -q --no-deps --no-compile "$@" >&2
}

install() {
  local began=$SECONDS
  echo "making the Python environment $venv (once)" >&2
  if ! "$python" -m pip --version >/dev/null 2>&1; then
    apt_install python3-pip
  fi
  rm -rf "$venv"
  "$python" -m venv --without-pip "$venv"
  install_torch "$("$interpreter" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
  pip_install -r "$here/requirements-test.txt" -r "$here/requirements-docs.txt" -r "$here/requirements-peers.txt"
  # An environment whose torch does not fit its numpy shows only when the two meet.
  "$interpreter" -W ignore -c 'import numpy, torch; assert int(torch.from_numpy(numpy.arange(4)).sum()) == 6 and torch.ones(2).numpy().sum() == 2'
  touch "$venv/complete"
  prune
  echo "made the Python environment in $((SECONDS - began)) s" >&2
}

# Removes the environments of other pins that nobody used for a day: another checkout may have those that are younger.
prune() {
  local other stamp hex='[0-9a-f][0-9a-f][0-9a-f][0-9a-f]'
  for other in "$cache"/python-$hex$hex$hex; do
    stamp=$other/complete
    [ -e "$stamp" ] || stamp=$other # one that was never finished
    if [ -d "$other" ] && [ ! -L "$other" ] && [ "$other" != "$venv" ] && [ -n "$(find "$stamp" -maxdepth 0 -mtime +0)" ]; then
      echo "removing the Python environment $other, which nobody used for a day" >&2
      rm -rf "$other"
    fi
  done
}

[ "${1:-}" != --help ] && [ "${1:-}" != -h ] || { usage; exit; }
if ! python=$(find_python); then
  [ "${1:-}" != --path ] || { echo "there is no CPython 3.11; run make deps" >&2; exit 1; }
  if [ "$(uname)" = Linux ]; then apt_install python3.11 python3-pip; fi
  python=$(find_python) || { echo "there is no CPython 3.11 to make the Python environment with" >&2; exit 1; }
fi
cache=${XDG_CACHE_HOME:-$HOME/.cache}/millrace
hash=$({ cat "$here"/requirements-{test,docs,peers}.txt; echo "layout 1, $python"; } | digest | cut -c1-12)
venv=$cache/python-$hash
interpreter=$venv/bin/python

newest=$venv/newest-$(digest <"$here/requirements-litdata.txt" | cut -c1-12)

if [ ! -e "$venv/complete" ] || [ ! -e "$newest" ]; then
  if [ "${1:-}" = --path ]; then
    echo "the Python environment is not installed; run make deps" >&2
    exit 1
  fi
  mkdir -p "$cache"
  if command -v flock >/dev/null; then
    # Whoever comes second waits, and finds it made.
    exec 9>"$cache/python.lock"
    flock 9
  fi
  [ -e "$venv/complete" ] || install
  if [ ! -e "$newest" ]; then
    rm -rf "$venv"/newest-*
    pip_install --target "$newest.part" -r "$here/requirements-litdata.txt"
    mv "$newest.part" "$newest"
  fi
  exec 9>&-
fi

touch -c "$venv/complete" 2>/dev/null || true # it is in use, whatever its age

if [ "${1:-}" = -- ]; then
  shift
  PYTHONPATH=$here/../client/python${PYTHONPATH:+:$PYTHONPATH} exec "$interpreter" "$@"
fi
echo "$interpreter"
