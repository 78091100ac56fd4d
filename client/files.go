package client

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
)

// folder is a directory with one file per batch. Files are written atomically.
type folder string

// partMark is part of the names of temporary files. The next run that reads the same rank removes
// leftovers, so only one run at a time may write the batches of a rank.
const partMark = ".part-"

// prepare creates the directory and removes temporary files that killed runs of the same ranks
// left.
func (d folder) prepare(opt Options, allRanks bool) error {
	if err := os.MkdirAll(string(d), 0o777); err != nil {
		return fmt.Errorf("write batches: %w", err)
	}
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return fmt.Errorf("write batches: %w", err)
	}
	own := rankSuffix(opt) + "."
	if allRanks && opt.WorldSize > 1 {
		own = fmt.Sprintf("-of-%d.", opt.WorldSize)
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, ".batch-") || !strings.Contains(name, partMark) {
			continue
		}
		if opt.WorldSize > 1 && strings.Contains(name, own) || opt.WorldSize <= 1 && !strings.Contains(name, ".rank-") {
			if err := os.Remove(filepath.Join(string(d), name)); err != nil {
				return fmt.Errorf("remove a temporary file of a killed run: %w", err)
			}
		}
	}
	return nil
}

func rankSuffix(opt Options) string {
	if opt.WorldSize <= 1 {
		return ""
	}
	return fmt.Sprintf(".rank-%d-of-%d", opt.Rank, opt.WorldSize)
}

// stem returns the file name of a batch without its extension.
func stem(number uint64, opt Options) string {
	return fmt.Sprintf("batch-%06d%s", number, rankSuffix(opt))
}

// has reports whether the batch has a file in any format, complete or incomplete.
func (d folder) has(number uint64, opt Options) bool {
	return slices.ContainsFunc([]string{".tar", ".jsonl", ".csv", ".tsv", ".bin"}, func(ext string) bool {
		_, err := os.Stat(filepath.Join(string(d), stem(number, opt)+ext))
		return err == nil
	})
}

// fill sets the data of a batch from its file, if the length and CRC-32C match the batch's header.
func (d folder) fill(b *Batch, size int64, opt Options) bool {
	path := filepath.Join(string(d), stem(b.Number, opt)+extension(b.ContentType))
	if info, err := os.Stat(path); err != nil || info.Size() != size {
		return false
	}
	data, err := os.ReadFile(path)
	if err != nil || int64(len(data)) != size || crc32.Checksum(data, castagnoli()) != b.CRC {
		return false
	}
	b.data = data
	return true
}

// write writes a batch to its file atomically.
func (d folder) write(b *Batch, opt Options) error {
	name := stem(b.Number, opt) + extension(b.ContentType)
	tmp, err := os.CreateTemp(string(d), "."+name+partMark+"*")
	if err == nil {
		_, err = tmp.Write(b.Bytes())
		if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err == nil { // some file systems report that they are full only on close
			err = os.Rename(tmp.Name(), filepath.Join(string(d), name))
		}
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("write %s: no space for its %d bytes in %s: free space and run the same command again to resume: %w", name, len(b.Bytes()), d, err)
	case err != nil:
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
	case "text/csv":
		return ".csv"
	case "text/tab-separated-values":
		return ".tsv"
	}
	return ".bin"
}

// kept returns the batch if its file in Options.folder matches the response to a HEAD request, or
// nil if the batch must be fetched. It ignores error responses, because a HEAD response has no body
// with details: the fetch reports them.
func (t *transfer) kept(ctx context.Context, gw *gateway, came *atomic.Int64) (*Batch, error) {
	resp, err := t.client.send(ctx, gw, request{method: http.MethodHead, path: t.path(), query: t.opt.query(t.opt.Generation)})
	if e := (*Error)(nil); errors.As(err, &e) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	came.Add(1)
	if err := t.begin(resp); err != nil {
		return nil, fmt.Errorf("%s: %w", gw.name(), err)
	}
	b := t.batch
	b.kept = t.opt.folder.fill(b, t.size, t.opt)
	t.drop()
	if !b.kept {
		return nil, nil
	}
	return b, nil
}
