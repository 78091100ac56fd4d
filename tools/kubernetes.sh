#!/usr/bin/env bash
# Builds the control plane that integration/kubernetes runs, from the sources that tools/kubernetes/go.mod pins, into the
# user's cache directory: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, and CoreDNS with the
# plugins of a cluster. Does nothing when they are there already. The first build takes six minutes on two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=install.sh
source ./install.sh

# Helm charts may ask a server for its version, which Kubernetes' own build puts in.
version=$(cd kubernetes && go list -m -f '{{.Version}}' k8s.io/kubernetes)
plain=(-trimpath -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version")

export CGO_ENABLED=0
install_here kubernetes etcd go.etcd.io/etcd/server/v3 "${plain[@]}"
install_here kubernetes coredns ./coredns "${plain[@]}"
for program in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
  install_here kubernetes "$program" "k8s.io/kubernetes/cmd/$program" "${plain[@]}"
done
