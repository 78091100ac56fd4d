//go:build linux

package client_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/client"
)

// compileC compiles the example of client/c with sanitizers. The program fails if it accesses
// memory that it does not own, or leaks memory.
func compileC(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("there is no cc on this machine")
	}
	program := filepath.Join(t.TempDir(), "example")
	flags := strings.Fields("-std=c99 -Wall -Wextra -Werror -g -fsanitize=address,undefined -fno-sanitize-recover=all -o")
	if out, err := exec.CommandContext(t.Context(), "cc", append(flags, program, "c/example.c")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// TestC reads epochs with the C header, and compares the program's report of the batches with the
// expected one.
func TestC(t *testing.T) {
	program := compileC(t)
	address, pool := sharing(t, 64<<20)
	c := newClient(t, client.Config{Gateways: []string{address}})
	for size, way := range map[uint64]string{20: "memory", 6: "bytes"} {
		var want strings.Builder
		for b, err := range c.Batches(t.Context(), client.Options{Format: "framed", BatchSize: size, Epoch: 3}) {
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for i := range b.Samples() {
				n += len(b.Sample(i))
			}
			fmt.Fprintf(&want, "%d %d %d %08x %s\n", b.Number, b.Samples(), n, b.CRC, way)
		}
		query := fmt.Sprintf("batch_size=%d", size)
		var said bytes.Buffer
		run := exec.CommandContext(t.Context(), program, strings.TrimPrefix(address, "unix:"), "/v1/datasets/photos/epochs/3", query)
		run.Stderr = &said
		got, err := run.Output()
		if err != nil || string(got) != want.String() {
			t.Errorf("%s: got %v\n%s%s\nwant\n%s", query, err, got, said.Bytes(), want.String())
		}
	}
	if s := pool.Stats(); s.Leases != 3 || s.Segments > 2 {
		t.Errorf("got %+v, want three leases of memory that is used again", s)
	}
	run := exec.CommandContext(t.Context(), program, strings.TrimPrefix(address, "unix:"), "/v1/datasets/nothing/epochs/3", "")
	if out, err := run.CombinedOutput(); err == nil || !strings.Contains(string(out), "status 404") || strings.Contains(string(out), "Sanitizer") {
		t.Errorf("a dataset that is not there: got %v\n%s", err, out)
	}
}

// TestCLies: the C client refuses replies that contradict themselves, and never reads outside its
// memory.
func TestCLies(t *testing.T) {
	program := compileC(t)
	_, address := startLiar(t, nil)
	out, _ := exec.CommandContext(t.Context(), program, strings.TrimPrefix(address, "unix:"), "/epoch/0", "").CombinedOutput()
	if !strings.Contains(string(out), "\n63 2 120000 ") || strings.Contains(string(out), "Sanitizer") {
		t.Fatalf("got %.300s, want the batches of a server that does not lie until there are too many", out)
	}
	for name, one := range lies() {
		if name == "an unreadable header" {
			continue // the C header looks for the members that it supports and ignores the others
		}
		_, address := startLiar(t, one.tell)
		out, err := exec.CommandContext(t.Context(), program, strings.TrimPrefix(address, "unix:"), "/epoch/0", "").CombinedOutput()
		if err == nil || strings.Contains(string(out), "memory\n") || strings.Contains(string(out), "Sanitizer") || strings.Contains(string(out), "runtime error") {
			t.Errorf("%s: got %v\n%s", name, err, out)
		}
	}
}
