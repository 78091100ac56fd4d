//go:build linux

package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"
)

// variants lists configurations of the chart, with the values to set.
var variants = []struct{ name, set string }{
	{"plain", ""},
	{"many", "replicas=8,spreadOver={kubernetes.io/hostname,topology.kubernetes.io/zone}"},
	{"disk", "disk.size=1Ti,disk.storageClassName=local-nvme"},
	{"daemonset", "mode=daemonset"},
	{"daemonset-disk", "mode=daemonset,disk.size=1Ti,disk.hostPath=/mnt/nvme/millrace"},
	{"daemonset-socket", "mode=daemonset,socket.hostPath=/run/millrace,access.grants[0].who[0]=anonymous"},
	{"https", "tls.secret=gateways-tls"},
	{"https-issuer", "tls.issuer.name=internal,tls.issuer.kind=ClusterIssuer"},
	{"peers", "peers.enabled=true,peers.secret=gateways-peers,replicas=3"},
	{"peers-issuer", "peers.enabled=true,peers.issuer.name=gateways,peers.issuer.kind=Issuer"},
	{"monitored", "prometheusRule.enabled=true,serviceMonitor.enabled=true,networkPolicy.monitoring[0].namespaceSelector.matchLabels.team=metrics"},
}

// acceptVariants applies the objects of each variant to the API server, like a user without Helm.
// The controllers must create pods from them. Each pod meets the restricted standard of pod
// security, except with a directory of the node.
func acceptVariants(t *testing.T, c *cluster) {
	c.kubectl(t, resource("PrometheusRule", "prometheusrules", "monitoring.coreos.com")+resource("ServiceMonitor", "servicemonitors", "monitoring.coreos.com")+resource("Certificate", "certificates", "cert-manager.io"), "apply", "-f", "-")
	c.kubectl(t, "", "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			c.kubectl(t, "", "create", "namespace", v.name)
			c.kubectl(t, "", "label", "namespace", v.name, "pod-security.kubernetes.io/enforce="+standard(v.set))
			defer c.kubectl(t, "", "delete", "namespace", v.name, "--wait=false")
			args := []string{"template", release, chart, "--namespace", v.name, "--set-json", `datasets=[{"name":"photos","url":"s3://train/photos"}]`}
			if v.set != "" {
				args = append(args, "--set", v.set)
			}
			text, err := c.tool(t, "helm", "", args...)
			if err != nil {
				t.Fatal(err)
			}
			out := c.kubectl(t, text, "apply", "--server-side", "--namespace", v.name, "-f", "-")
			t.Logf("figure: %s: %d objects", v.name, strings.Count(out, "serverside-applied"))
			if !strings.Contains(v.set, "daemonset") {
				c.kubectl(t, "", "-n", v.name, "wait", "--for=create", "pod/"+release+"-0", "--timeout=30s")
			}
		})
	}
}

// standard returns the standard of pod security. The restricted standard does not allow a directory
// of the node.
func standard(set string) string {
	if strings.Contains(set, "hostPath") {
		return "privileged"
	}
	return "restricted"
}

// resource defines a kind of objects of another project. kubeconform checks their schemas.
func resource(kind, plural, group string) string {
	return fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.%[3]s}
spec:
  group: %[3]s
  scope: Namespaced
  names: {kind: %[1]s, plural: %[2]s}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, kind, plural, group)
}
