package fulldisk_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/fulldisk"
)

func TestAt_BoundsFilesUntilItIsFreed(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	free := fulldisk.At(t, 10)
	if n, err := f.Write(make([]byte, 12)); n != 10 || !errors.Is(err, syscall.EFBIG) {
		t.Errorf("got %d bytes and %v, want the 10 that fit and %v", n, err, syscall.EFBIG)
	}
	for range 37 {
		os.Getenv(strings.Repeat("x", 100)) // go test records the name of each variable in a file
	}
	free()
	if _, err := f.Write(make([]byte, 12)); err != nil {
		t.Errorf("after it was freed: %v", err)
	}
}
