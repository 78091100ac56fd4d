//go:build linux

package kubernetes_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// image is the root directory of an image's containers, without their volumes.
type image struct {
	binds []bind
	entry []string // its entry point
	env   []string
}

// kubelet acts as the kubelet of all nodes: it runs the pods that the scheduler assigns to them.
type kubelet struct {
	cluster  *cluster
	machines []string
	images   map[string]image // by image name without a tag
	asker    *http.Client     // for probes, without keep-alive

	mu        sync.Mutex          // guards the fields below
	sandboxes map[string]*sandbox // by UID of the pod
	pods      int                 // number of pods ever started
	running   sync.WaitGroup
}

// newKubelet adds machines to the cluster, each in a separate zone, and runs their pods until the
// test ends.
func newKubelet(t *testing.T, c *cluster, images map[string]image, machines ...string) *kubelet {
	t.Helper()
	transport := c.control.Transport()
	transport.DisableKeepAlives = true
	k := &kubelet{cluster: c, machines: machines, images: images, sandboxes: map[string]*sandbox{}, asker: &http.Client{Transport: transport}}
	k.serveLogs(t)
	for i, name := range machines {
		capacity := map[string]string{"cpu": "64", "memory": "1Ti", "pods": "200", "ephemeral-storage": "10Ti"}
		node := map[string]any{
			"apiVersion": "v1", "kind": "Node",
			"metadata": map[string]any{"name": name, "labels": map[string]string{
				"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "topology.kubernetes.io/zone": fmt.Sprint("zone-", i),
			}},
			"status": map[string]any{
				"capacity": capacity, "allocatable": capacity,
				"addresses":       []map[string]string{{"type": "InternalIP", "address": c.control.IP}},
				"conditions":      []map[string]string{{"type": "Ready", "status": "True"}},
				"daemonEndpoints": map[string]any{"kubeletEndpoint": map[string]int{"Port": 10250}},
			},
		}
		if err := c.call(t.Context(), http.MethodPost, "/api/v1/nodes", asJSON, node, nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	k.running.Go(func() {
		watch(ctx, c, "/api/v1/pods", func(e event[pod]) { k.changed(ctx, t, e) })
	})
	t.Cleanup(func() {
		cancel()
		k.running.Wait()
	})
	return k
}

// changed starts a new pod, or notifies the sandbox of a known pod.
func (k *kubelet) changed(ctx context.Context, t *testing.T, e event[pod]) {
	p := e.Object
	k.mu.Lock()
	defer k.mu.Unlock()
	s, known := k.sandboxes[p.Metadata.UID]
	switch {
	case known:
		s.update(p, e.Type == "DELETED")
	case p.Spec.NodeName == "" || e.Type == "DELETED" || p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed":
	default:
		if k.pods++; k.pods > highestPod-8 {
			t.Errorf("start pod %s: the island has no address left", p.Metadata.Name)
			return
		}
		s = newSandbox(t, k, p)
		k.sandboxes[p.Metadata.UID] = s
		k.running.Go(func() { s.run(ctx, t) })
	}
}

// find returns the sandbox of the running pod with this name, or nil.
func (k *kubelet) find(namespace, name string) *sandbox {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.sandboxes {
		if s.pod.Metadata.Namespace == namespace && s.pod.Metadata.Name == name {
			return s
		}
	}
	return nil
}

func (k *kubelet) forget(s *sandbox) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.sandboxes, s.pod.Metadata.UID)
}

// serveLogs serves containers' logs to the API server, for kubectl logs.
func (k *kubelet) serveLogs(t *testing.T) {
	t.Helper()
	own := k.cluster.tls.Issue(t, t.TempDir(), func(x *x509.Certificate) { x.IPAddresses = append(x.IPAddresses, net.ParseIP(k.cluster.control.IP)) })
	pair, err := tls.LoadX509KeyPair(own.Cert, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	l := k.cluster.control.Listen(t, k.cluster.control.IP+":10250")
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(k.log), TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeTLS(l, "", "")
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
}

func (k *kubelet) log(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/") // of /containerLogs/NAMESPACE/POD/CONTAINER
	if len(parts) != 5 || parts[1] != "containerLogs" {
		http.Error(w, "this kubelet shows logs, nothing else", http.StatusNotFound)
		return
	}
	s := k.find(parts[2], parts[3])
	if s == nil || s.logs[parts[4]] == nil {
		http.NotFound(w, r)
		return
	}
	sent := 0
	for {
		last := s.over() || r.URL.Query().Get("follow") != "true"
		n, err := s.logs[parts[4]].writeFrom(sent, w)
		if err != nil || last {
			return
		}
		if sent += n; n > 0 {
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// machineOf returns the name of the machine that runs the pod with this address.
func (k *kubelet) machineOf(ip string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.sandboxes {
		if s.at.IP == ip {
			return s.pod.Spec.NodeName
		}
	}
	return ""
}

// node gives a pod its own node on the island.
func (k *kubelet) node(t testing.TB, p pod) *harness.Node {
	t.Helper()
	return k.cluster.island.Node(t, p.Metadata.Name, "")
}
