package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

const scanRow = len(scanName{}) + 8 // bytes of a row of the table

// keptTogether returns a store with two shards and the key of an object that contains the scans of
// both. A killed run has stored this object.
func keptTogether(t *testing.T) (store *memstore.Store, key string) {
	t.Helper()
	store, _ = indexedTars(t)
	for _, key := range store.Keys() {
		if strings.HasPrefix(key, layout.StateDir) {
			if err := store.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op == memstore.Put && strings.HasPrefix(c.Key, layout.IndexDir) {
			return memstore.Fault{Err: objstore.ErrUnavailable}
		}
		return memstore.Fault{}
	})
	if _, err := RunKeeping(t.Context(), store, "", Options{Parallel: 1}, 1<<40, 2); !errors.Is(err, objstore.ErrUnavailable) {
		t.Fatalf("got %v, want %v", err, objstore.ErrUnavailable)
	}
	store.SetFault(nil)
	for _, key := range store.Keys() {
		if strings.HasPrefix(key, layout.ScanDir) {
			return store, key
		}
	}
	t.Fatal("no scans were kept")
	return nil, ""
}

// listedKept returns a builder that has listed the shards and the stored scans of a store. It also
// returns the units to scan.
func listedKept(t *testing.T, store *memstore.Store, opt Options) (b *builder, todo []int) {
	t.Helper()
	opt.Parallel = 1
	b, err := newBuilder(store, "", opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	if err := b.previous(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	if todo, err = b.reuse(t.Context(), b.share()); err != nil || len(todo) != 2 {
		t.Fatalf("got %v, %v, want two units to scan", todo, err)
	}
	return b, todo
}

// addressed stores an object of scans under the key that its digest determines.
func addressed(store *memstore.Store, body []byte) {
	sum := sha256.Sum256(body)
	store.Set(layout.ScanDir+hex.EncodeToString(sum[:]), body)
}

// TestTakeKept_IgnoresDamagedObjects checks that none of the scans in a damaged object are used.
// The object must leave no bytes in the temporary file and make no run fail. The undamaged object
// is used afterwards.
func TestTakeKept_IgnoresDamagedObjects(t *testing.T) {
	store, key := keptTogether(t)
	sound, _ := store.Bytes(key)
	second := len(keptMagic) + 4 + scanRow // second row of the table
	sizeAt := second + len(scanName{})
	changed := func(change func(b []byte) []byte) []byte { return change(bytes.Clone(sound)) }
	for name, c := range map[string]struct {
		body   []byte
		honest bool // the object's key is the digest of its bytes
		err    error
	}{
		"another digest":            {changed(func(b []byte) []byte { b[len(b)-1] ^= 1; return b }), false, nil},
		"bytes that follow":         {append(bytes.Clone(sound), 0), false, nil},
		"honest, bytes that follow": {append(bytes.Clone(sound), 0), true, nil},
		"a byte less":               {sound[:len(sound)-1], false, nil},
		"honest, a byte less":       {sound[:len(sound)-1], true, nil},
		"a table that is cut":       {sound[:second], true, nil},
		"a head that is cut":        {sound[:len(keptMagic)+3], true, nil},
		"no bytes":                  {nil, true, nil},
		"another form":              {changed(func(b []byte) []byte { b[7]++; return b }), true, nil},
		"too many scans":            {changed(func(b []byte) []byte { binary.LittleEndian.PutUint32(b[8:], maxKept+1); return b }), true, nil},
		"a scan that is too long":   {changed(func(b []byte) []byte { binary.LittleEndian.PutUint64(b[sizeAt:], 1<<40); return b }), true, nil},
		"a scan beyond 63 bits":     {changed(func(b []byte) []byte { binary.LittleEndian.PutUint64(b[sizeAt:], 1<<63); return b }), true, nil},
		"unknown, beyond 63 bits": {changed(func(b []byte) []byte {
			b[second]++
			binary.LittleEndian.PutUint64(b[sizeAt:], 1<<63)
			return b
		}), true, nil},
		"unavailable": {sound, true, objstore.ErrUnavailable},
		"denied":      {sound, true, objstore.ErrDenied},
	} {
		t.Run(name, func(t *testing.T) {
			if err := store.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			defer store.Set(key, sound)
			if store.Set(key, c.body); c.honest {
				if err := store.Delete(t.Context(), key); err != nil {
					t.Fatal(err)
				}
				addressed(store, c.body)
			}
			b, todo := listedKept(t, store, Options{})
			for _, after := range []int64{0, int64(len(sound)) - 1} {
				if c.err != nil {
					store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Err: c.err, After: after} })
				}
				left, err := b.takeKept(t.Context(), slices.Clone(todo))
				store.SetFault(nil)
				if err != nil || !slices.Equal(left, todo) || b.report.ReusedShards != 0 || b.progress.Done != 0 {
					t.Errorf("got units %v left, %v, %+v, want all of %v", left, err, b.progress, todo)
				}
				if w := b.writers[0]; w.end != 0 {
					t.Errorf("got %d bytes of unused scans", w.end)
				}
			}
			for _, key := range b.kept {
				if err := store.Delete(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
			store.Set(key, sound)
			b.kept = []string{key}
			if left, err := b.takeKept(t.Context(), todo); err != nil || len(left) != 0 || b.report.ReusedShards != 2 || b.progress.Done != b.progress.Total {
				t.Errorf("the sound object: got units %v left, %v, %+v", left, err, b.progress)
			}
		})
	}
}

// TestTakeKept_FailsWithoutSpace checks that takeKept returns an error if the failure does not
// concern the object: no space for scans, or a context that has ended.
func TestTakeKept_FailsWithoutSpace(t *testing.T) {
	store, _ := keptTogether(t)
	b, todo := listedKept(t, store, Options{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.takeKept(ended, slices.Clone(todo)); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: got %v, want %v", err, context.Canceled)
	}
	b, todo = listedKept(t, store, Options{TempDir: t.TempDir() + "/missing"})
	if _, err := b.takeKept(t.Context(), todo); err == nil {
		t.Error("without a directory for scans: got no error")
	}
}

// TestTakeKept_CountsAScanOnce checks that a scan that two interrupted runs stored in different
// objects counts once.
func TestTakeKept_CountsAScanOnce(t *testing.T) {
	store, key := keptTogether(t)
	both, _ := store.Bytes(key)
	rows := both[len(keptMagic)+4:]
	size := binary.LittleEndian.Uint64(rows[len(scanName{}):])
	first := binary.LittleEndian.AppendUint32([]byte(keptMagic), 1)
	first = append(append(first, rows[:scanRow]...), rows[2*scanRow:2*scanRow+int(size)]...)
	addressed(store, first)
	var told chunkindex.Progress
	b, todo := listedKept(t, store, Options{Progress: func(p chunkindex.Progress) { told = p }})
	if len(b.kept) != 2 {
		t.Fatalf("got %q, want two objects", b.kept)
	}
	left, err := b.takeKept(t.Context(), todo)
	if err != nil || len(left) != 0 || b.report.ReusedShards != 2 {
		t.Errorf("got units %v left, %v, %d shards taken over, want 2", left, err, b.report.ReusedShards)
	}
	if want := (chunkindex.Progress{Done: b.report.Bytes, Total: b.report.Bytes, Kept: b.report.Bytes, Shards: 2, Of: 2, Samples: 3}); told != want {
		t.Errorf("got %+v, want %+v", told, want)
	}
}
