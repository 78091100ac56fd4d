package tempfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFileLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	f, err := File(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("bytes"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := f.ReadAt(got, 0); err != nil || string(got) != "bytes" {
		t.Errorf("got %q, %v, want what was written", got, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("got %v, %v in the directory, want nothing", left, err)
	}
	if _, err := File(filepath.Join(dir, "none")); err == nil {
		t.Error("got no error, want one for a missing directory")
	}
}

func TestFile_ErrorNamesTMPDIR(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/absent")
	if _, err := File(""); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "set TMPDIR to a directory for temporary files") {
		t.Errorf("got %v, want an error that names TMPDIR", err)
	}
}
