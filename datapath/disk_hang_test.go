package datapath

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/diskcache"
	"github.com/millrace-data/millrace/shuffle"
)

// onHungDisk returns a source with all chunks on a disk that hangs: each file is a named pipe
// without a writer. goOn lets the disk resume.
func onHungDisk(t *testing.T, d *dataset, cfg Config) (s *Source, goOn func()) {
	t.Helper()
	dir := t.TempDir()
	var err error
	cfg.Disk, err = diskcache.Open(diskcache.Config{Dir: dir, MaxBytes: 4 << 20, Datasets: []string{"here"}})
	must(t, err)
	t.Cleanup(cfg.Disk.Close)
	s = d.opened(newPath(t, cfg), "here")
	for c := range d.index.Chunks() {
		desc := d.index.Chunk(c)
		if !s.write(t.Context(), c, d.packed[d.start[desc.First]:][:desc.Length]) {
			t.Fatalf("chunk %d is not on disk", c)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "chunks", "*", "*"))
	must(t, err)
	for _, f := range files {
		must(t, os.Remove(f))
		must(t, syscall.Mkfifo(f, 0o600))
	}
	goOn = func() {
		for _, f := range files {
			w, err := os.OpenFile(f, os.O_RDWR, 0) // unblocks the pending open calls
			if errors.Is(err, os.ErrNotExist) {
				continue // an open call that resumed has removed it as corrupt
			}
			must(t, err)
			_ = os.Remove(f)
			must(t, w.Close())
		}
	}
	t.Cleanup(goOn)
	return s, goOn
}

// A hanging disk delays no request beyond its deadline, in any kind of read. It does not prevent
// closing the source or the path.
func TestDisk_HangKeepsNoRequestPastItsDeadline(t *testing.T) {
	d := newDataset(t, 76, same(40, 3000), 10, 1<<20) // 4 chunks
	plan := d.plan(t, shuffle.None, 0)
	whole := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 40, BatchSize: 40}
	question := func(cached bool) *peer.Query {
		desc := d.index.Chunk(1)
		return &peer.Query{Dataset: "set", Generation: d.index.Generation(), Cached: cached, Chunks: []peer.ChunkQuery{{
			Chunk: 1, Digest: desc.Digest, Ranges: []peer.Range{{Length: uint32(desc.Length)}},
		}}}
	}
	for name, read := range map[string]func(ctx context.Context, s *Source) (*batch.Body, error){
		"whole chunks": func(ctx context.Context, s *Source) (*batch.Body, error) {
			return s.Read(ctx, whole, d.ranges(t, []uint64{5, 15}))
		},
		"samples by range": func(ctx context.Context, s *Source) (*batch.Body, error) {
			return s.Read(ctx, shuffle.Cursor{}, d.ranges(t, []uint64{5}))
		},
		"a peer's question": func(ctx context.Context, s *Source) (*batch.Body, error) {
			return s.path.answer(ctx, question(false))
		},
		"a new owner's question": func(ctx context.Context, s *Source) (*batch.Body, error) {
			return s.path.answer(ctx, question(true))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := onHungDisk(t, d, Config{NoPrefetch: true, Budget: bud(4 << 20), Peers: alone{}})
			s.Share("set")
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := read(ctx, s); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, peer.ErrNotHere) {
				t.Errorf("got %v, want the deadline exceeded", err)
			}
			s.Close()
		})
	}
}

// Chunks that a hanging disk does not deliver in time are read from the store, and the disk's late
// bytes are discarded.
func TestDisk_StoreAnswersForDiskThatHangs(t *testing.T) {
	t.Parallel()
	d := newDataset(t, 77, same(40, 3000), 10, 1<<20) // 4 chunks
	plan := d.plan(t, shuffle.None, 0)
	s, goOn := onHungDisk(t, d, Config{NoPrefetch: true, Budget: bud(4 << 20)})
	for n, at := range []shuffle.Cursor{{Plan: plan, Epoch: plan.Epoch(0), End: 40, BatchSize: 40}, {}} {
		chunks := d.ranges(t, []uint64{uint64(20 * n), uint64(20*n + 10)})
		body, err := s.Read(t.Context(), at, chunks)
		must(t, err)
		must(t, d.check(chunks, body))
		body.Close()
	}
	if got := s.path.Stats(); !got.Disk.ReadsOff || got.Disk.Hits != 0 || got.StoreReads == 0 {
		t.Errorf("got %+v, want all from the store and reads of the disk off", got)
	}
	goOn()
	s.Close()
}
