//go:build linux

package kubernetes_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

type service struct {
	Metadata meta
	Spec     struct {
		ClusterIP, InternalTrafficPolicy string
		Ports                            []struct {
			Name string
			Port int
		}
	}
}

type slice struct {
	Metadata  meta
	Endpoints []struct {
		Addresses  []string
		NodeName   string
		Conditions struct{ Ready bool }
	}
	Ports []struct {
		Name string
		Port int
	}
}

// forwarder acts as the service proxies of all nodes: it listens on the addresses of all services,
// and connects each client to a ready endpoint.
type forwarder struct {
	kubelet *kubelet
	at      *harness.Node

	mu     sync.Mutex        // guards the fields below
	slices map[string]slice  // by namespace and name
	open   map[string]string // address of each service that it listens on, with the service's namespace and name
}

func newForwarder(t *testing.T, k *kubelet) *forwarder {
	t.Helper()
	f := &forwarder{kubelet: k, at: k.cluster.island.Node(t, "services", ""), slices: map[string]slice{}, open: map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		watch(ctx, k.cluster, "/apis/discovery.k8s.io/v1/endpointslices", func(e event[slice]) {
			f.mu.Lock()
			defer f.mu.Unlock()
			name := e.Object.Metadata.Namespace + "/" + e.Object.Metadata.Name
			if f.slices[name] = e.Object; e.Type == "DELETED" {
				delete(f.slices, name)
			}
		})
	})
	running.Go(func() {
		watch(ctx, k.cluster, "/api/v1/services", func(e event[service]) {
			if e.Type != "DELETED" && e.Object.Spec.ClusterIP != "None" {
				f.listen(ctx, t, e.Object)
			}
		})
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return f
}

// listen starts listening on the addresses of a service, unless it does so already.
func (f *forwarder) listen(ctx context.Context, t *testing.T, s service) {
	for _, port := range s.Spec.Ports {
		address := net.JoinHostPort(s.Spec.ClusterIP, strconv.Itoa(port.Port))
		f.mu.Lock()
		_, known := f.open[address]
		f.open[address] = s.Metadata.Namespace + "/" + s.Metadata.Name
		f.mu.Unlock()
		if known {
			continue
		}
		var l net.Listener
		err := f.at.Do(func() (err error) {
			if out, err := exec.CommandContext(ctx, "ip", "addr", "replace", s.Spec.ClusterIP+"/32", "dev", "eth0").CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			l, err = new(net.ListenConfig).Listen(ctx, "tcp", address)
			return err
		})
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("service %s: %v", s.Metadata.Name, err)
			}
			return
		}
		context.AfterFunc(ctx, func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go f.join(ctx, c, s, port.Name)
			}
		}()
	}
}

// join forwards a connection's bytes in both directions.
func (f *forwarder) join(ctx context.Context, c net.Conn, s service, port string) {
	defer c.Close()
	to := f.endpoint(c.RemoteAddr(), s, port)
	if to == "" {
		return
	}
	there, err := f.at.Dial(ctx, "tcp", to)
	if err != nil {
		return
	}
	defer there.Close()
	stop := context.AfterFunc(ctx, func() { c.Close(); there.Close() })
	defer stop()
	go func() {
		_, _ = io.Copy(there, c)
		if tcp, ok := there.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}()
	_, _ = io.Copy(c, there)
}

// endpoint picks a random ready endpoint, on the client's own machine if the service requires that.
func (f *forwarder) endpoint(asker net.Addr, s service, port string) string {
	host, _, _ := net.SplitHostPort(asker.String())
	local := ""
	if s.Spec.InternalTrafficPolicy == "Local" {
		if local = f.kubelet.machineOf(host); local == "" {
			return ""
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var ready []string
	for _, one := range f.slices {
		if one.Metadata.Namespace != s.Metadata.Namespace || one.Metadata.Labels["kubernetes.io/service-name"] != s.Metadata.Name {
			continue
		}
		for _, p := range one.Ports {
			for _, e := range one.Endpoints {
				if p.Name == port && e.Conditions.Ready && (local == "" || local == e.NodeName) {
					ready = append(ready, net.JoinHostPort(e.Addresses[0], strconv.Itoa(p.Port)))
				}
			}
		}
	}
	if len(ready) == 0 {
		return ""
	}
	return ready[rand.IntN(len(ready))]
}
