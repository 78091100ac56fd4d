package client

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// makeDir makes the directory of batches, if there is to be one.
func makeDir(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("write batches: %w", err)
	}
	return nil
}

// writeBatch writes a batch to a file of its own, whole or not at all.
func writeBatch(dir string, b *Batch, opt Options) error {
	name := fmt.Sprintf("batch-%06d", b.Number)
	if opt.WorldSize > 1 {
		name += fmt.Sprintf(".rank-%d-of-%d", opt.Rank, opt.WorldSize)
	}
	name += extension(b.ContentType)
	tmp, err := os.CreateTemp(dir, ".batch-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = tmp.Write(b.Bytes())
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func extension(contentType string) string {
	switch contentType {
	case "application/x-tar", "":
		return ".tar"
	case "application/x-ndjson", "application/jsonl":
		return ".jsonl"
	}
	return ".bin"
}
