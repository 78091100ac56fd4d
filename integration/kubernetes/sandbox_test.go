//go:build linux

package kubernetes_test

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

const (
	look      = 50 * time.Millisecond  // interval between checks of a pod's processes
	refresh   = time.Second            // interval between checks of its ConfigMaps and Secrets; a kubelet waits a minute
	probeUnit = 100 * time.Millisecond // duration of one second in a probe's period, so that tests are fast
	backOff   = time.Second            // pause before a container restarts; a kubelet waits at least ten seconds
)

// sandbox is a pod on its machine.
type sandbox struct {
	kubelet *kubelet
	pod     pod // at its start
	at      *harness.Node
	dir     string
	logs    map[string]*journal // by container

	dirs     map[string]string  // of volumes
	written  map[string]content // of volumes with files
	versions int

	told   chan struct{} // receives a value when a field below changes
	mu     sync.Mutex    // guards the fields below
	last   pod           // the latest state from the API server
	gone   bool          // the API server no longer has the pod
	done   bool          // all containers have exited
	doomed bool          // the processes must be killed

	// Only the goroutine in run uses the fields below.
	containers []*running
	said       string // the last status sent to the API server
}

// running is a container of a pod, with its probes.
type running struct {
	spec     *podContainer
	process  *process
	began    time.Time
	restarts int
	started  bool // the startup probe has succeeded
	ready    bool
	failures map[*probe]int
	next     map[*probe]time.Time
}

func newSandbox(t *testing.T, k *kubelet, p pod) *sandbox {
	t.Helper()
	s := &sandbox{
		kubelet: k, pod: p, last: p, at: k.node(t, p), dir: t.TempDir(), told: make(chan struct{}, 1),
		logs: map[string]*journal{}, dirs: map[string]string{}, written: map[string]content{},
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		s.logs[c.Name] = &journal{}
	}
	return s
}

func (s *sandbox) update(p pod, gone bool) {
	s.mu.Lock()
	s.last, s.gone = p, gone
	s.mu.Unlock()
	select {
	case s.told <- struct{}{}:
	default:
	}
}

// over reports whether all containers have exited for good.
func (s *sandbox) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

// leaving reports whether the pod is being deleted, its grace period, and whether it has been
// deleted.
func (s *sandbox) leaving() (deleted bool, grace time.Duration, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.last.Metadata
	return m.DeletionTimestamp != "" || s.gone, time.Duration(m.DeletionGracePeriodSeconds) * time.Second, s.gone
}

// pause waits for a change of the pod or for the next check.
func (s *sandbox) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.told:
	case <-time.After(look):
	}
}

// run runs the pod until it is deleted.
func (s *sandbox) run(ctx context.Context, t *testing.T) {
	name := s.pod.Metadata.Namespace + "/" + s.pod.Metadata.Name
	defer func() {
		for _, c := range s.containers {
			c.kill()
		}
		if t.Failed() {
			for container, log := range s.logs {
				t.Logf("log of %s %s:\n%s", name, container, tail(log.String()))
			}
		}
		if ctx.Err() == nil { // otherwise the island is being removed
			s.at.Unplug(t)
		}
		s.mu.Lock()
		s.done = true
		s.mu.Unlock()
	}()
	phase := s.live(ctx)
	if ctx.Err() != nil {
		return
	}
	deleted, grace, gone := s.leaving()
	if deleted && !gone {
		s.terminate(ctx, grace)
	}
	if phase != "" && !deleted {
		s.report(ctx, phase)
		s.mu.Lock()
		s.done = true
		s.mu.Unlock()
		for !deleted && ctx.Err() == nil { // clients may still request its log
			s.pause(ctx)
			deleted, _, gone = s.leaving()
		}
	}
	if deleted && !gone {
		body := map[string]any{"gracePeriodSeconds": 0, "preconditions": map[string]string{"uid": s.pod.Metadata.UID}}
		if err := s.kubelet.cluster.call(ctx, http.MethodDelete, s.path(), asJSON, body, nil); err != nil && !missing(err) && ctx.Err() == nil {
			t.Errorf("delete pod %s: %v", name, err)
		}
	}
	s.kubelet.forget(s)
}

func (s *sandbox) path() string {
	return "/api/v1/namespaces/" + s.pod.Metadata.Namespace + "/pods/" + s.pod.Metadata.Name
}

// live starts the containers and supervises them until all have exited or the pod is deleted. phase
// is empty if the pod is deleted.
func (s *sandbox) live(ctx context.Context) (phase string) {
	stay := func() bool {
		deleted, _, _ := s.leaving()
		return !deleted && ctx.Err() == nil
	}
	for stay() {
		err := s.mountVolumes(ctx)
		if err == nil {
			break
		}
		s.note("mount volumes: " + err.Error())
		s.pause(ctx)
	}
	for i := range s.pod.Spec.InitContainers {
		if !s.initialize(ctx, stay, &s.pod.Spec.InitContainers[i]) {
			return ""
		}
	}
	for i := range s.pod.Spec.Containers {
		s.containers = append(s.containers, &running{spec: &s.pod.Spec.Containers[i]})
	}
	written := time.Now()
	for stay() {
		s.killed()
		for _, c := range s.containers {
			s.look(ctx, c)
		}
		if phase := s.phase(); phase != "" {
			return phase
		}
		if time.Since(written) > refresh {
			written = time.Now()
			if err := s.refreshVolumes(ctx); err != nil {
				s.note(err.Error())
			}
		}
		s.report(ctx, "Running")
		s.pause(ctx)
	}
	return ""
}

// initialize runs an init container, and restarts it until it succeeds.
func (s *sandbox) initialize(ctx context.Context, stay func() bool, spec *podContainer) bool {
	c := &running{spec: spec}
	defer c.kill()
	for stay() {
		s.look(ctx, c)
		if c.process != nil && c.process.ended() && c.process.exitCode() == 0 {
			return true
		}
		s.pause(ctx)
	}
	return false
}

// note writes a line to the logs of all containers.
func (s *sandbox) note(line string) {
	for _, log := range s.logs {
		fmt.Fprintln(log, "kubelet:", line)
	}
}

// phase returns the pod's final phase, or "" if a container still runs or will restart.
func (s *sandbox) phase() string {
	phase := "Succeeded"
	for _, c := range s.containers {
		if c.process == nil || !c.process.ended() || s.again(c) {
			return ""
		}
		if c.process.exitCode() != 0 {
			phase = "Failed"
		}
	}
	return phase
}

func (s *sandbox) again(c *running) bool {
	switch s.pod.Spec.RestartPolicy {
	case "Never":
		return false
	case "OnFailure":
		return c.process.exitCode() != 0
	}
	return true
}

// look starts a container that should run but does not, and executes the probes that are due.
func (s *sandbox) look(ctx context.Context, c *running) {
	if c.process != nil && c.process.ended() {
		c.ready = false
		if !s.again(c) || time.Since(c.began) < backOff {
			return
		}
		c.restarts++
		c.process = nil
	}
	if c.process == nil {
		if err := s.start(ctx, c); err != nil {
			fmt.Fprintln(s.logs[c.spec.Name], "kubelet: start container:", err)
		}
		return
	}
	if p := c.spec.StartupProbe; !c.started && p != nil {
		verdict := s.probe(ctx, c, p)
		c.started = verdict == good
		if verdict == bad {
			c.process.signal(syscall.SIGKILL)
		}
		return
	}
	if p := c.spec.LivenessProbe; p != nil && s.probe(ctx, c, p) == bad {
		fmt.Fprintln(s.logs[c.spec.Name], "kubelet: the liveness probe fails")
		c.process.signal(syscall.SIGKILL)
	}
	p := c.spec.ReadinessProbe
	if p == nil {
		c.ready = true
		return
	}
	switch s.probe(ctx, c, p) {
	case good:
		c.ready = true
	case bad:
		c.ready = false
	case unknown:
	}
}

func (s *sandbox) start(ctx context.Context, c *running) error {
	c.began, c.started, c.ready = time.Now(), false, false
	c.failures, c.next = map[*probe]int{}, map[*probe]time.Time{}
	plan, err := s.plan(ctx, c.spec)
	if err != nil {
		return err
	}
	c.process, err = plan.start(s.at, s.logs[c.spec.Name])
	return err
}

// verdict is the result of a probe.
type verdict string

const (
	good    verdict = "good"
	bad     verdict = "bad"     // the number of consecutive failures has reached the probe's limit
	unknown verdict = "unknown" // the probe was not due, or has failed fewer times
)

func (s *sandbox) probe(ctx context.Context, c *running, p *probe) verdict {
	if time.Now().Before(c.next[p]) {
		return unknown
	}
	c.next[p] = time.Now().Add(time.Duration(max(1, p.PeriodSeconds)) * probeUnit)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(1, p.TimeoutSeconds))*time.Second)
	defer cancel()
	if s.handle(ctx, c, p.handler) == nil {
		c.failures[p] = 0
		return good
	}
	if c.failures[p]++; c.failures[p] >= max(1, p.FailureThreshold) {
		return bad
	}
	return unknown
}

// handle executes a probe or a hook.
func (s *sandbox) handle(ctx context.Context, c *running, h handler) error {
	switch {
	case h.Sleep != nil:
		select {
		case <-time.After(time.Duration(h.Sleep.Seconds) * time.Second):
		case <-ctx.Done():
		}
		return ctx.Err()
	case h.HTTPGet != nil:
		url := strings.ToLower(cmp.Or(h.HTTPGet.Scheme, "HTTP")) + "://" + net.JoinHostPort(s.at.IP, c.port(h.HTTPGet.Port)) + h.HTTPGet.Path
		r, err := harness.DoWith(ctx, s.kubelet.asker, http.MethodGet, url)
		if err == nil && r.Status >= http.StatusBadRequest {
			err = fmt.Errorf("status %d", r.Status)
		}
		return err
	}
	return fmt.Errorf("this kubelet knows no other hooks and probes than httpGet and sleep")
}

// port returns the number of a port given by number or name.
func (c *running) port(of any) string {
	if number, ok := of.(float64); ok {
		return strconv.Itoa(int(number))
	}
	for _, p := range c.spec.Ports {
		if p.Name == of {
			return strconv.Itoa(p.ContainerPort)
		}
	}
	return "0"
}

// terminate stops the containers within the pod's grace period: first the hook, then SIGTERM, then
// SIGKILL.
func (s *sandbox) terminate(ctx context.Context, grace time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, max(grace, look))
	defer cancel()
	var ending sync.WaitGroup
	for _, c := range s.containers {
		if c.process == nil {
			continue
		}
		ending.Go(func() {
			if hook := c.spec.Lifecycle.PreStop; hook != nil {
				if err := s.handle(ctx, c, *hook); err != nil {
					fmt.Fprintln(s.logs[c.spec.Name], "kubelet: preStop:", err)
				}
			}
			c.process.signal(syscall.SIGTERM)
			select {
			case <-c.process.done:
			case <-ctx.Done():
				fmt.Fprintln(s.logs[c.spec.Name], "kubelet: killed at the end of the grace period")
				c.kill()
			}
		})
	}
	ending.Wait()
}

func (c *running) kill() {
	if c.process != nil {
		c.process.signal(syscall.SIGKILL)
		<-c.process.done
	}
}

// tail returns the last part of a log.
func tail(text string) string { return text[max(0, len(text)-16<<10):] }

// kill requests that the processes of all containers are killed, as the kernel does when memory is
// short.
func (s *sandbox) kill() {
	s.mu.Lock()
	s.doomed = true
	s.mu.Unlock()
}

// killed kills the processes if kill has been called.
func (s *sandbox) killed() {
	s.mu.Lock()
	doomed := s.doomed
	s.doomed = false
	s.mu.Unlock()
	for _, c := range s.containers {
		if doomed {
			c.kill()
		}
	}
}
