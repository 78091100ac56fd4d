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

// iterations are samples per second by round, of the Python client without and with the package that checks CRC-32C, of a
// bare loop of readinto over the same bytes, and of one GET per sample, all from Python.
type iterations struct {
	Client   []float64 `json:"client"`
	Checked  []float64 `json:"checked"`
	Readinto []float64 `json:"readinto"`
	Get1     []float64 `json:"get1"`
}

// python measures how fast the Python client iterates a gateway that holds everything.
func (s *suite) python(ctx context.Context) error {
	for _, d := range []set{s.world.photos, s.world.text} {
		if err := s.pythonSet(ctx, d); err != nil {
			return fmt.Errorf("python, %s: %w", d.name, err)
		}
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
	query := fmt.Sprintf("shuffle=window&window=%d", window)
	cmd := exec.CommandContext(ctx, s.interpreter, filepath.Join("bench", "iterate", "iterate.py"), "http://"+gw.addr, d.name, query,
		fmt.Sprint(s.span.Seconds()), fmt.Sprint(s.rounds), "http://"+s.world.minio.addr, bucket+"/loose-"+d.name+"/")
	cmd.Env = append(append(os.Environ(), s.world.env...), "PYTHONPATH="+filepath.Join("client", "python"))
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", s.interpreter, err, strings.TrimSpace(log.String()))
	}
	var found iterations
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		return err
	}
	toGet1 := 17.
	if d.name == "text" {
		toGet1 = 120
	}
	s.table.paired(10, "Python, iterating, "+d.name+", against a bare readinto loop", found.Client, found.Readinto, perSecond, .9, false)
	s.table.shown(10, "Python, checking CRC-32C, "+d.name+", against a bare readinto loop", found.Checked, found.Readinto, perSecond)
	s.table.paired(10, "Python, iterating, "+d.name+", against one GET per sample", found.Client, found.Get1, perSecond, toGet1, false)
	return nil
}
