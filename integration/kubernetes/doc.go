// Package kubernetes tests the Helm chart on a real control plane: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and CoreDNS, as tools/kubernetes.sh builds them. There is
// no container engine; the test acts as the kubelet and the service proxy. A pod is a process in
// separate namespaces, with its own address on an island of integration/harness.
package kubernetes
