package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// process is a child process that listens on a port.
type process struct {
	cmd   *exec.Cmd
	addr  string        // host and port, after https:// if it uses TLS
	ended chan struct{} // closed when it has exited
	log   bytes.Buffer  // its standard error; complete and safe to read after its exit
}

// freePort returns a free loopback address.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close() // only the number is required
	return l.Addr().String(), nil
}

// start runs a command and waits until its health path responds with 200.
func start(ctx context.Context, addr, health string, env []string, name string, args ...string) (*process, error) {
	p := &process{addr: addr, ended: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, name, args...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = io.Discard, &p.log
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // killed; in other cases its log contains the reason
	}()
	end := time.Now().Add(30 * time.Second)
	for {
		if ok := healthy(ctx, addr, health); ok {
			return p, nil
		}
		if time.Now().After(end) || ctx.Err() != nil || p.gone() {
			p.stop()
			return nil, fmt.Errorf("%s did not answer on %s: %s", name, addr, strings.TrimSpace(p.log.String()))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// base returns the start of the URLs of a process.
func base(addr string) string {
	if strings.HasPrefix(addr, https) {
		return addr
	}
	return "http://" + addr
}

func healthy(ctx context.Context, addr, path string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base(addr)+path, nil)
	if err != nil {
		return false
	}
	prober := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: anyServer()}}
	resp, err := prober.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close() // only the status counts
	return resp.StatusCode == http.StatusOK
}

// gone reports whether the process has exited.
func (p *process) gone() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// stop kills the process and its children without a shutdown, because none of their state is
// needed.
func (p *process) stop() {
	if p == nil || p.cmd.Process == nil {
		return
	}
	children := p.children()
	_ = p.cmd.Process.Kill() // it may have exited already
	for _, pid := range children {
		if child, err := os.FindProcess(pid); err == nil {
			_ = child.Kill() // it may have exited already
		}
	}
	<-p.ended // the children share its standard error
}

// children returns the child processes of p, such as nginx's workers.
func (p *process) children() (pids []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", p.cmd.Process.Pid)) // absent without /proc
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

var errNoProc = errors.New("no /proc on this system")

// cpu returns the processor time of the process and its children.
func (p *process) cpu() (total float64, err error) {
	for _, pid := range append(p.children(), p.cmd.Process.Pid) {
		used, err := cpuOf(pid)
		if err != nil {
			return 0, err
		}
		total += used
	}
	return total, nil
}

func cpuOf(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, errNoProc
	}
	// The name in brackets may contain spaces; fields 14 and 15 are user and system time in
	// ticks of 10 ms.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100, errors.Join(err1, err2)
}

// settle waits until a process has finished its deferred work. MinIO's garbage collection after
// thousands of small requests halves the rate of the next reader, and a gateway maps its memory
// after its start.
func (p *process) settle() {
	const quiet = 50 * time.Millisecond
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		before, err1 := p.cpu()
		time.Sleep(quiet)
		after, err2 := p.cpu()
		if err1 != nil || err2 != nil || after-before <= 0.01 {
			return
		}
	}
}

// peak returns the largest resident size so far, in bytes.
func (p *process) peak() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, errNoProc
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb * 1024, err
		}
	}
	return 0, errNoProc
}
