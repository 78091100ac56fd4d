//go:build linux

package kubernetes_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// Addresses of the island: nodes count up from 1, and services use the last 64.
const (
	serviceRange = "10.77.0.192/26"
	highestPod   = 191
)

// cluster is a control plane on a node of an island, with the test's access to it.
type cluster struct {
	island  *harness.Island
	control *harness.Node // node of etcd, the API server, the controllers, the scheduler and the name server
	server  string        // URL of the API server
	token   string        // token of an administrator
	tls     *certtest.Authority
	asker   *http.Client
	config  string // kubeconfig of kubectl and helm
	dir     string
}

// newCluster starts a control plane without nodes.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	island := harness.NewIsland(t)
	c := &cluster{island: island, control: island.Node(t, "control", ""), token: rand.Text(), tls: certtest.New(t), dir: t.TempDir()}
	c.server = "https://" + c.control.IP + ":6443"
	transport := c.control.Transport()
	transport.TLSClientConfig = &tls.Config{RootCAs: c.tls.Pool()}
	c.asker = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	c.writeConfig(t)
	c.startServer(t)
	c.startControllers(t)
	c.startNames(t)
	return c
}

func (c *cluster) writeConfig(t *testing.T) {
	t.Helper()
	c.config = filepath.Join(c.dir, "kubeconfig")
	put(t, c.config, fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "%s", certificate-authority: %s}}]
users: [{name: admin, user: {token: %s}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
`, c.server, c.tls.File, c.token))
	put(t, filepath.Join(c.dir, "tokens.csv"), c.token+`,admin,1,"system:masters"`+"\n")
}

// start starts one program of the control plane.
func (c *cluster) start(t *testing.T, name string, args ...string) *harness.Process {
	t.Helper()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir}
	return harness.StartAt(t, c.control, name, harness.Installed(t, name), env, args...)
}

func (c *cluster) startServer(t *testing.T) {
	t.Helper()
	const peer, client = "http://127.0.0.1:2380", "http://127.0.0.1:2379"
	etcd := c.start(t, "etcd", "--data-dir", filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--name", "test", "--initial-cluster", "test="+peer)
	own := c.tls.Issue(t, c.dir, func(x *x509.Certificate) { x.IPAddresses = append(x.IPAddresses, net.ParseIP(c.control.IP)) })
	server := c.start(t, "kube-apiserver", "--etcd-servers", client, "--bind-address", c.control.IP,
		"--tls-cert-file", own.Cert, "--tls-private-key-file", own.Key, "--cert-dir", c.dir,
		"--token-auth-file", filepath.Join(c.dir, "tokens.csv"), "--authorization-mode", "RBAC",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", own.Cert, "--service-account-signing-key-file", own.Key,
		"--service-cluster-ip-range", serviceRange,
		// The controller that sets and removes the taints of nodes requires heartbeats of a
		// kubelet.
		"--disable-admission-plugins", "TaintNodesByCondition",
	)
	server.Ready(t, func(ctx context.Context) error {
		select {
		case <-etcd.Ended():
			t.Fatal("etcd ended")
		default:
		}
		return c.call(ctx, http.MethodGet, "/readyz", "", nil, nil)
	})
}

func (c *cluster) startControllers(t *testing.T) {
	t.Helper()
	c.start(t, "kube-controller-manager", "--kubeconfig", c.config, "--leader-elect=false", "--bind-address", "127.0.0.1", "--cert-dir", c.dir,
		"--root-ca-file", c.tls.File, "--service-account-private-key-file", filepath.Join(c.dir, "tls.key"),
		"--controllers", "*,-node-lifecycle-controller,-taint-eviction-controller")
	c.start(t, "kube-scheduler", "--kubeconfig", c.config, "--leader-elect=false", "--bind-address", "127.0.0.1", "--cert-dir", c.dir)
}

func (c *cluster) startNames(t *testing.T) {
	t.Helper()
	file := filepath.Join(c.dir, "Corefile")
	put(t, file, fmt.Sprintf("cluster.local:53 {\n errors\n ready 127.0.0.1:8181\n kubernetes cluster.local {\n  kubeconfig %s\n }\n}\n", c.config))
	coredns := c.start(t, "coredns", "-conf", file)
	asker := &http.Client{Transport: c.control.Transport()}
	t.Cleanup(asker.CloseIdleConnections)
	coredns.Ready(t, func(ctx context.Context) error {
		r, err := harness.DoWith(ctx, asker, http.MethodGet, "http://127.0.0.1:8181/ready")
		if err == nil && r.Status != http.StatusOK {
			err = fmt.Errorf("CoreDNS is not ready: %s", r.Body)
		}
		return err
	})
}

func put(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(strings.TrimLeft(text, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
}
