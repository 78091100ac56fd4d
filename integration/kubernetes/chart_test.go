//go:build linux

package kubernetes_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestChart installs the Helm chart on a control plane, and reads through its gateways while they
// start, stop and are killed.
func TestChart(t *testing.T) {
	began := time.Now()
	c := newCluster(t)
	t.Logf("figure: the control plane is up after %.1f s", time.Since(began).Seconds())
	if !t.Run("variants", func(t *testing.T) { acceptVariants(t, c) }) {
		return
	}
	l := newLab(t, c)
	if !t.Run("index in parts", func(t *testing.T) { indexInParts(t, l) }) || !t.Run("page", func(t *testing.T) { typePage(t, l) }) {
		return
	}
	began = time.Now()
	l.install(t, "replicas=2")
	t.Logf("figure: two gateways are ready %.1f s after helm install", time.Since(began).Seconds())
	// Later steps use the results of earlier ones.
	for _, step := range []struct {
		name string
		run  func(*testing.T, *lab)
	}{
		{"each byte once", readOnce},
		{"other clients", readOtherwise},
		{"socket", readBySocket},
		{"scale", scale},
		{"kill", kill},
		{"rolling restart", roll},
		{"volumes", replaceVolumes},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, l) }) {
			return
		}
	}
}

func readOnce(t *testing.T, l *lab) {
	l.reads.Forget()
	name := l.job(t, "mkdir -p /out/once; touch /out/once/stop;"+epochs("once", 2))
	l.finish(t, name)
	l.right(t, "once", 2)
	// Both gateways read the chunk that contains the border between their homes.
	if again := l.reads.Again(); again > chunkSize {
		t.Errorf("got %d bytes of %d read from the store more than once, want one chunk of %d at most", again, l.bytes, chunkSize)
	}
	t.Logf("figure: an epoch of %d bytes by four ranks: %d bytes of the store", l.bytes, l.reads.Bytes())
}

// readOtherwise reads with the Python client and with curl. Both find the gateways by name.
func readOtherwise(t *testing.T, l *lab) {
	log := l.finish(t, l.job(t, `
curl -sf http://gateways-any.data.svc.cluster.local:8080/readyz > /dev/null
curl -sf http://gateways-any.data:8080/v1/datasets | grep -q photos`+l.python(`
print("python read", sum(len(batch) for rank in range(4) for batch in epoch(rank)))`)))
	if !strings.Contains(log, "python read 2048") {
		t.Errorf("got %s, want 2048 samples", log)
	}
}

// scale scales from two gateways to four and back to three while epochs are read.
func scale(t *testing.T, l *lab) {
	up := l.during(t, "up", 2, func() { l.install(t, "replicas=4") })
	down := l.during(t, "down", 4, func() {
		l.install(t, "replicas=3")
		until(t, "gateways-3", func(context.Context) error {
			if l.kubelet.find(namespace, release+"-3") != nil {
				return fmt.Errorf("it is there")
			}
			return nil
		})
	})
	t.Logf("figure: two to four gateways: %d epochs right; four to three: %d", up, down)
}

// kill kills a gateway while epochs are read, and waits until it is ready again.
func kill(t *testing.T, l *lab) {
	var took time.Duration
	n := l.during(t, "killed", 3, func() {
		s := l.kubelet.find(namespace, release+"-1")
		if s == nil {
			t.Fatal("find gateways-1: it does not run")
		}
		began := time.Now()
		s.kill()
		until(t, "the restart of gateways-1", func(ctx context.Context) error {
			var p struct {
				Status struct {
					ContainerStatuses []struct {
						RestartCount int
						Ready        bool
					}
				}
			}
			if err := l.call(ctx, http.MethodGet, s.path(), "", nil, &p); err != nil {
				return err
			}
			for _, c := range p.Status.ContainerStatuses {
				if c.RestartCount > 0 && c.Ready {
					return nil
				}
			}
			return fmt.Errorf("got %+v", p.Status)
		})
		took = time.Since(began)
	})
	t.Logf("figure: one of three killed: %d epochs right; ready again after %.1f s", n, took.Seconds())
}

// roll restarts all gateways, one after another, while epochs are read.
func roll(t *testing.T, l *lab) {
	began := time.Now()
	n := l.during(t, "rolled", 3, func() {
		l.kubectl(t, "", "-n", namespace, "rollout", "restart", "statefulset/"+release)
		l.rolled(t)
	})
	t.Logf("figure: a rolling restart of three: %d epochs right in %.1f s", n, time.Since(began).Seconds())
}

// replaceVolumes runs the page's commands for volumes: gateways get volumes of another size, one
// after another.
func replaceVolumes(t *testing.T, l *lab) {
	if out, err := l.tool(t, "helm", "", "uninstall", release, "--namespace", namespace, "--wait"); err != nil {
		t.Fatal(err, out)
	}
	l.install(t, "replicas=2", "disk.size=64Mi")
	volumes := func() string {
		return l.kubectl(t, "", "-n", namespace, "get", "pvc", "--output", `jsonpath={range .items[*]}{.metadata.name} {.spec.resources.requests.storage} {.spec.volumeName} {end}`)
	}
	before := volumes()
	for _, command := range pageCommands(t, "Change or clear volumes", 4) {
		if strings.HasPrefix(command, "helm ") {
			l.install(t, "replicas=2", "disk.size=128Mi")
			continue
		}
		words := typed(command)
		if out, err := l.tool(t, words[0], "", append(words[1:], "--namespace", namespace)...); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	after := strings.Fields(volumes())
	if len(after) != 6 || after[1] != "128Mi" || after[4] != "128Mi" || strings.Contains(before, after[2]) || strings.Contains(before, after[5]) {
		t.Errorf("got volumes %s, then %s, want two others of 128Mi", before, after)
	}
}
