package harness_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestDisk_HangsUntilItGoesOn checks that a process that reads a hanging disk receives no data
// before the disk resumes, and that it exits when it is killed.
func TestDisk_HangsUntilItGoesOn(t *testing.T) {
	d := harness.NewDisk(t)
	file := filepath.Join(d.Dir, "file")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func() (cat *exec.Cmd, done chan string) {
		t.Helper()
		done = make(chan string, 1)
		before := d.Hung()
		cat = exec.CommandContext(t.Context(), "cat", file)
		var out bytes.Buffer
		cat.Stdout = &out
		if err := cat.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			_ = cat.Wait()
			done <- out.String()
		}()
		for d.Hung() == before {
			time.Sleep(time.Millisecond)
		}
		return cat, done
	}
	d.Hang()
	killed, done := read()
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got != "" {
		t.Errorf("killed: got %q, want nothing", got)
	}
	_, done = read()
	select {
	case got := <-done:
		t.Errorf("got %q from a disk that hangs", got)
	default:
	}
	d.GoOn()
	if got := <-done; got != "text" {
		t.Errorf("got %q, want the text", got)
	}
}
