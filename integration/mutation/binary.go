package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// memory bounds the address space of a test process, in KiB, so that a mutant that allocates
// without end fails.
const memory = 4 << 20

// binary is the test binary of a package, with all mutants of the package.
type binary struct {
	path, dir string
	mutants   []mutant
}

// build compiles a package with its tests and all its mutants. It writes only into dir.
func build(root, dir string, s *source) (*binary, error) {
	all, files := mutate(s)
	overlay := map[string]map[string]string{"Replace": {}}
	for name, text := range files {
		at := filepath.Join(dir, name)
		overlay["Replace"][filepath.Join(s.Dir, name)] = at
		if err := os.WriteFile(at, text, 0o600); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return nil, err
	}
	replaced := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(replaced, text, 0o600); err != nil {
		return nil, err
	}
	b := &binary{path: filepath.Join(dir, "mutants.test"), dir: s.Dir, mutants: all}
	_, err = output(root, "go", "test", "-c", "-vet=off", "-overlay", replaced, "-o", b.path, s.ImportPath)
	return b, err
}

// test is a test of the package: its duration, and the names of the mutants that it reaches.
type test struct {
	Name    string
	Seconds float64
	Reaches []string
}

// tests runs each test separately without a mutant, except for the tests in slow. It returns the
// tests, the fastest first.
func (b *binary) tests(slow map[string]string, progress func(done, all int)) (found []test, err error) {
	listed, err := output(b.dir, b.path, "-test.list", ".")
	if err != nil {
		return nil, err
	}
	names := regexp.MustCompile(`(?m)^(?:Test|Fuzz|Example)\w*$`).FindAllString(string(listed), -1)
	names = slices.DeleteFunc(names, func(n string) bool { return n == "TestMain" || slow[n] != "" })
	reached := b.path + ".reached"
	for i, name := range names {
		if err := os.WriteFile(reached, make([]byte, len(b.mutants)+1), 0o600); err != nil {
			return nil, err
		}
		start := time.Now()
		verdict := b.run(0, []string{name}, 10*time.Minute, "MILLRACE_MUTANTS_REACHED="+reached)
		if verdict != "" {
			return nil, fmt.Errorf("%s fails without a mutant: %s", name, verdict)
		}
		marks, err := os.ReadFile(reached)
		if err != nil {
			return nil, err
		}
		t := test{Name: name, Seconds: time.Since(start).Seconds()}
		for _, m := range b.mutants {
			if marks[m.id] != 0 {
				t.Reaches = append(t.Reaches, m.name)
			}
		}
		found = append(found, t)
		progress(i+1, len(names))
	}
	slices.SortFunc(found, func(a, b test) int { return cmp.Compare(a.Seconds, b.Seconds) })
	return found, nil
}

// Results of a mutant.
const (
	killed    = "killed"
	lived     = "lived"
	uncovered = "uncovered"
)

// timeout is the failure of a run that exceeded its limit.
const timeout = "timeout"

// verdict is the result of a mutant, and the test or the failure that killed it.
type verdict struct {
	Result string
	By     string `json:",omitempty"`
}

// judge runs the tests that reach a mutant until one fails. It begins with the fastest tests, of
// half a second in total, and then runs groups of four times the duration. A mutant is killed by a
// timeout only if the repeated run also exceeds its limit.
func (b *binary) judge(m mutant, tests []test) verdict {
	var groups [][]string
	var sums []float64
	total, most := 0.0, 0.0
	for _, t := range tests {
		if !slices.Contains(t.Reaches, m.name) {
			continue
		}
		if total += t.Seconds; total > most {
			most = max(0.5, 4*most)
			groups, sums = append(groups, nil), append(sums, 0)
		}
		last := len(groups) - 1
		groups[last], sums[last] = append(groups[last], t.Name), sums[last]+t.Seconds
	}
	for i, names := range groups {
		limit := limitFor(sums[i])
		by := b.run(m.id, names, limit)
		if by == timeout {
			by = b.repeat(m.id, names, limit)
		}
		if by != "" {
			return verdict{killed, by}
		}
	}
	if len(groups) == 0 {
		return verdict{Result: uncovered}
	}
	return verdict{Result: lived}
}

// limitFor returns the time limit of tests that take the given seconds without a mutant.
func limitFor(seconds float64) time.Duration {
	return time.Duration((3 + 4*seconds) * float64(time.Second))
}

// repeat repeats a run that exceeded its limit, because the machine may have been busy. The new
// limit is at least twice the old one. It is also at least twice the limit for the time that the
// tests now take without the mutant.
func (b *binary) repeat(id int, names []string, limit time.Duration) (failed string) {
	start := time.Now()
	b.run(0, names, 10*time.Minute)
	return b.run(id, names, 2*max(limit, limitFor(time.Since(start).Seconds())))
}

// run runs tests with a mutant, and returns how they failed, or "". It kills all processes that the
// tests have started. The tests' own timeout ends them if this process is killed.
func (b *binary) run(id int, names []string, limit time.Duration, env ...string) (failed string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	limited := fmt.Sprintf(`ulimit -v %d && ulimit -c 0 && exec "$0" "$@"`, memory)
	cmd := exec.CommandContext(ctx, "sh", "-c", limited, b.path, "-test.failfast", "-test.timeout", (limit + 5*time.Second).String(),
		"-test.run", "^("+strings.Join(names, "|")+")$")
	cmd.Dir = b.dir
	// Random tests draw the same values each time, with small counts, and write no failures
	// into the checkout.
	cmd.Env = append(os.Environ(), "MILLRACE_LONG=", "RAPID_SEED=1", "RAPID_NOFAILFILE=true", "RAPID_SHRINKTIME=0s",
		fmt.Sprintf("MILLRACE_MUTANT=%d", id))
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	text, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // processes that the tests left behind
	}
	switch {
	case err == nil:
		return ""
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return timeout
	}
	if found := regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)|^(?:panic|fatal error): .*`).FindStringSubmatch(string(text)); found != nil {
		return cmp.Or(found[1], found[0])
	}
	return err.Error()
}
