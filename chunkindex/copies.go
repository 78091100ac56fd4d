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
	copySuffix    = ".index"          // suffix of a local copy; it follows the generation
	partialPrefix = "millrace-index-" // prefix of a copy that is being written
)

// copyOf returns the path of a generation's local copy.
func copyOf(dir, generation string) string { return filepath.Join(dir, generation+copySuffix) }

// RemoveCopies removes index copies from OpenOptions.CacheDir that no Open has used for the given
// time, and partial copies of a killed process. It skips generations for which keep returns true,
// and returns the number of removed files. Open indexes are unaffected on systems that allow
// removing open files, such as Linux and macOS.
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
		case !errors.Is(fault, fs.ErrNotExist): // ErrNotExist: another gateway that shares the directory removed the file first
			err = errors.Join(err, fault)
		}
	}
	return removed, err
}
