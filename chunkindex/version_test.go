package chunkindex

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shards"
)

// publishBytes replaces the stored index and binding, after recomputing the index's digests. The
// index has one segment.
func publishBytes(t *testing.T, store *memstore.Store, index, binding []byte) {
	t.Helper()
	fixDigests(index)
	root, segment := index[:rootSize(index)], segmentBytes(index)
	digest := sha256.Sum256(root)
	generation := hex.EncodeToString(digest[:])
	copy(binding[8:], digest[:])
	sum := sha256.Sum256(binding[:len(binding)-sha256.Size])
	copy(binding[len(binding)-sha256.Size:], sum[:])
	p := layout.Pointer{Version: layout.PointerVersion, Generation: generation, Binding: layout.BindingHash(binding)}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	store.Set(layout.IndexObject("", generation), root)
	store.Set(layout.SegmentObject("", layout.SegmentRef{Digest: sha256.Sum256(segment[:layout.HeaderSize])}.Name()), segment)
	store.Set(layout.BindingObject("", generation, p.Binding), binding)
	store.Set(layout.PointerKey, text)
}

// TestOpen_NewerProgram checks that objects of a newer program are neither read nor replaced, and
// are not reported as corrupt.
func TestOpen_NewerProgram(t *testing.T) {
	replace := func(old, new string) func(index, _ []byte) {
		return func(index, _ []byte) {
			at := bytes.Index(index, []byte(old))
			copy(index[at:], new)
		}
	}
	for name, c := range map[string]struct {
		change  func(index, binding []byte)
		pointer string
		opens   bool
	}{
		"index version":     {change: func(index, _ []byte) { index[8] = layout.IndexVersion + 1 }},
		"unknown constant":  {change: replace(`"chunk_size"`, `"chunk_kind"`)},
		"format":            {change: replace(`"tar"`, `"xyz"`)},
		"codec":             {change: func(index, _ []byte) { section(index, layout.SecChunks)[48] = 200 }},
		"rules of cutting":  {change: replace(`"chunk_size":8388608,"defaults":{"shuffle":"slot","window":128,"seed":"0","batch_size":256,"tail":"short"`, `"cutter":1,"chunk_size":8,"defaults":{"shuffle":"slot","window":1,"seed":"0","batch_size":2,"tail":"drop"`), opens: true},
		"rules of scanning": {change: replace(`"scanner":1`, `"scanner":2`), opens: true},
		"binding":           {change: func(_, binding []byte) { binding[7] += 8 }},
		"pointer":           {pointer: `{"version":4,"generation":["elsewhere"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			store, rep := smallStore(t)
			if c.change != nil {
				index, binding := indexBytes(t, store, rep.Generation), bytes.Clone(shards.Binding(t, store))
				c.change(index, binding)
				publishBytes(t, store, index, binding)
			} else {
				store.Set(layout.PointerKey, []byte(c.pointer))
			}
			leftAlone(t, store, c.opens)
			if c.pointer != "" {
				_, err := FindUnused(t.Context(), store, "", time.Hour)
				mustBeNewer(t, "gc", err)
			}
			// The action that the error recommends must work.
			store.Delete(t.Context(), layout.PointerKey)
			if again, err := IndexShards(t.Context(), store, "", IndexOptions{}); err != nil || again.Generation != rep.Generation {
				t.Errorf("without the pointer: got %+v, %v", again, err)
			}
		})
	}
	// Unchanged objects must not be mistaken for objects of a newer program.
	store, rep := smallStore(t)
	publishBytes(t, store, indexBytes(t, store, rep.Generation), bytes.Clone(shards.Binding(t, store)))
	if again, err := IndexShards(t.Context(), store, "", IndexOptions{}); err != nil || !again.Unchanged {
		t.Errorf("nothing changed: got %+v, %v", again, err)
	}
}

// Open rejects an older format version, and an index run replaces it.
func TestOpen_RefusesAnOlderVersion(t *testing.T) {
	store, rep := smallStore(t)
	key := layout.IndexObject("", rep.Generation)
	index, _ := store.Bytes(key)
	old := bytes.Clone(index)
	old[8] = 1
	store.Set(key, old)
	if _, err := Open(t.Context(), store, "", OpenOptions{}); !errors.Is(err, ErrOldVersion) || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), rep.Generation[:12]+": version 1: ") {
		t.Errorf("got %v, want %v with the generation and its version", err, ErrOldVersion)
	}
	if again, err := IndexShards(t.Context(), store, "", IndexOptions{}); err != nil || again.Generation != rep.Generation || again.Unchanged || again.ReadBytes != rep.Bytes {
		t.Errorf("built again: got %+v, %v, want all shards read", again, err)
	}
	if now, _ := store.Bytes(key); !bytes.Equal(now, index) {
		t.Error("the old index is still there")
	}
}

// leftAlone checks that an index run does not replace the objects of a newer program. Open may read
// them only if opens is set.
func leftAlone(t *testing.T, store *memstore.Store, opens bool) {
	t.Helper()
	before, _ := store.Bytes(layout.PointerKey)
	x, err := Open(t.Context(), store, "", OpenOptions{})
	switch {
	case !opens:
		mustBeNewer(t, "open", err)
	case err != nil:
		t.Errorf("open: got %v, want an index", err)
	}
	if err == nil {
		x.Close()
	}
	_, err = IndexShards(t.Context(), store, "", IndexOptions{})
	mustBeNewer(t, "build", err)
	if after, _ := store.Bytes(layout.PointerKey); !bytes.Equal(after, before) {
		t.Errorf("pointer: got %s, want the newer program's", after)
	}
}

func mustBeNewer(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, ErrVersion) || errors.Is(err, ErrCorrupt) || errors.Is(err, objstore.ErrNotFound) || !strings.Contains(err.Error(), "remove "+layout.PointerKey) {
		t.Errorf("%s: got %v, want %v and what to do", what, err, ErrVersion)
	}
}
