package chunkindex

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
)

const (
	copySuffix    = ".index"          // of a local copy's name, behind its generation
	partialPrefix = "millrace-index-" // of a copy that is being made
)

// copyOf is the path of a generation's local copy.
func copyOf(dir, generation string) string { return filepath.Join(dir, generation+copySuffix) }

// RemoveCopies removes from OpenOptions.CacheDir the copies of indexes that no Open has used for a while, and those that a killed
// program left half made. Copies that keep names stay. It returns how many it has removed. An index that is open is not disturbed
// where a file may be removed while it is read, as on Linux and macOS.
func RemoveCopies(dir string, unused time.Duration, keep func(generation string) bool) (removed int, err error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		generation, isCopy := strings.CutSuffix(f.Name(), copySuffix)
		isCopy = isCopy && layout.IsDigest(generation) && !keep(generation)
		if !isCopy && !strings.HasPrefix(f.Name(), partialPrefix) {
			continue
		}
		info, gone := f.Info()
		if gone != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < unused {
			continue
		}
		switch fault := os.Remove(filepath.Join(dir, f.Name())); {
		case fault == nil:
			removed++
		case !errors.Is(fault, fs.ErrNotExist): // another gateway with the same directory was first
			err = errors.Join(err, fault)
		}
	}
	return removed, err
}
