package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// iterations holds samples per second by round, all in Python: the client without and with the
// package that checks CRC-32C, a bare loop of readinto over the same bytes, and one GET per sample.
type iterations struct {
	Client   []float64 `json:"client"`
	Checked  []float64 `json:"checked"`
	Readinto []float64 `json:"readinto"`
	Get1     []float64 `json:"get1"`
}

// python measures the rate at which the Python client iterates over a gateway with all data in
// memory, and the effect of client threads.
func (s *suite) python(ctx context.Context) error {
	for _, d := range []set{s.world.photos, s.world.text} {
		if err := s.pythonSet(ctx, d); err != nil {
			return fmt.Errorf("python, %s: %w", d.name, err)
		}
	}
	if err := s.pythonThreads(ctx); err != nil {
		return fmt.Errorf("python, threads: %w", err)
	}
	return nil
}

func (s *suite) pythonSet(ctx context.Context, d set) error {
	s.logf("Python, %s: %d rounds of 3 arms", d.name, s.rounds)
	gw, err := s.world.serve(ctx, s.room(), nil)
	if err != nil {
		return err
	}
	defer gw.stop()
	if _, err := read(ctx, gw.addr, conns, 0, d.once(0)); err != nil {
		return err
	}
	if _, err := d.genuine(ctx, s.world.store, gw.addr, d.path(0, 0)); err != nil {
		return err
	}
	query := fmt.Sprintf("shuffle=window&window=%d", window)
	var found iterations
	if err := s.script(ctx, &found, "iterate.py", "http://"+gw.addr, d.name, query,
		fmt.Sprint(s.span.Seconds()), fmt.Sprint(s.rounds), "http://"+s.world.minio.addr, bucket+"/loose-"+d.name+"/"); err != nil {
		return err
	}
	s.table.paired(10, "Python, iterating, "+d.name, "a bare readinto loop", found.Client, found.Readinto, perSecond())
	s.table.paired(10, "Python, checking CRC-32C, "+d.name, "a bare readinto loop", found.Checked, found.Readinto, perSecond())
	s.table.paired(10, "Python, iterating, "+d.name, "one GET per sample", found.Client, found.Get1, perSecond())
	return nil
}

// pythonThreads measures the benefit of client threads that switch between fetching and decoding:
// Lobster's flexible allocation (Liu et al., ICPP 2022).
func (s *suite) pythonThreads(ctx context.Context) error {
	s.logf("Python, threads: %d rounds of 3 works and 4 arms", s.rounds)
	d := s.world.photos
	gw, err := s.world.serve(ctx, s.room(), nil)
	if err != nil {
		return err
	}
	defer gw.stop()
	line, err := s.line(ctx, gw.addr)
	if err != nil {
		return err
	}
	defer line.stop()
	var found map[string]map[string][]float64
	query := fmt.Sprintf("shuffle=window&window=%d&batch_size=32", window)
	if err := s.script(ctx, &found, "threads.py", "http://"+gw.addr, "http://"+line.addr, d.name, query,
		fmt.Sprint(2*s.span.Seconds()), fmt.Sprint(s.rounds)); err != nil {
		return err
	}
	for _, work := range []struct{ name, what string }{
		{"line", "a slow network"}, {"decoder", "a slow decoder"}, {"both", "both in turn"},
	} {
		arms := found[work.name]
		best := "2+2"
		for _, arm := range []string{"1+3", "3+1"} {
			if median(arms[arm]) > median(arms[best]) {
				best = arm
			}
		}
		what := "Python, 4 threads that move between fetching and decoding, " + work.what
		s.table.paired(10, what, "2 + 2 that do not", arms["moving"], arms["2+2"], perSecond())
		s.table.paired(10, what, "the best of three such divisions ("+strings.Replace(best, "+", " + ", 1)+")", arms["moving"], arms[best], perSecond())
	}
	return nil
}

// line starts a simulated network in front of a gateway, on which one connection is slow and
// several are faster.
func (s *suite) line(ctx context.Context, backend string) (*process, error) {
	listen, err := freePort()
	if err != nil {
		return nil, err
	}
	control, err := freePort()
	if err != nil {
		return nil, err
	}
	return start(ctx, listen, "/readyz", nil, s.wire, "--listen", listen, "--control", control, "--backend", backend, "--stream", "40e6")
}

// script runs one of the Python scripts and decodes its output.
func (s *suite) script(ctx context.Context, found any, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, s.interpreter, append([]string{filepath.Join("integration", "bench", "iterate", name)}, args...)...)
	cmd.Env = append(append(os.Environ(), s.world.env...), "PYTHONPATH="+filepath.Join("client", "python"))
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", s.interpreter, name, err, strings.TrimSpace(log.String()))
	}
	return json.Unmarshal(out.Bytes(), found)
}
