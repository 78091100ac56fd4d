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

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/webdataset"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// publishBytes puts an index, whose digests it makes right, and a binding in place of what is there.
func publishBytes(t *testing.T, store *memstore.Store, index, binding []byte) {
	t.Helper()
	remend(index)
	digest := sha256.Sum256(index[:headerSize])
	generation := hex.EncodeToString(digest[:])
	copy(binding[8:], digest[:])
	sum := sha256.Sum256(binding[:len(binding)-sha256.Size])
	copy(binding[len(binding)-sha256.Size:], sum[:])
	p := pointer{Version: pointerVersion, Generation: generation, Binding: bindingHash(binding)}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	store.Set(indexObject("", generation), index)
	store.Set(bindingObject("", generation, p.Binding), binding)
	store.Set(pointerKey, text)
}

// What a newer program wrote is neither read nor replaced, whichever object says so, and is no corruption.
func TestNewerProgram(t *testing.T) {
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
		"index version":     {change: func(index, _ []byte) { index[8] = indexVersion + 1 }},
		"unknown constant":  {change: replace(`"chunk_size"`, `"chunk_kind"`)},
		"format":            {change: replace(`"tar"`, `"xyz"`)},
		"codec":             {change: func(index, _ []byte) { index[le64(index[64+24*secChunks+8:])+48] = 9 }},
		"rules of cutting":  {change: replace(`"chunk_size":8388608,"defaults":{"shuffle":"slot","window":128,"seed":"0","batch_size":256,"tail":"short"`, `"cutter":1,"chunk_size":8,"defaults":{"shuffle":"slot","window":1,"seed":"0","batch_size":2,"tail":"drop"`), opens: true},
		"rules of scanning": {change: replace(`"scanner":1`, `"scanner":2`), opens: true},
		"binding":           {change: func(_, binding []byte) { binding[7] += 8 }},
		"pointer":           {pointer: `{"version":3,"generation":["elsewhere"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			store, rep := smallStore(t)
			if c.change != nil {
				index, _ := store.Bytes(indexObject("", rep.Generation))
				index, binding := bytes.Clone(index), bytes.Clone(bindingOf(t, store))
				c.change(index, binding)
				publishBytes(t, store, index, binding)
			} else {
				store.Set(pointerKey, []byte(c.pointer))
			}
			leftAlone(t, store, c.opens)
			if c.pointer != "" {
				_, err := FindUnused(t.Context(), store, "", time.Hour)
				mustBeNewer(t, "gc", err)
			}
			// The advice works.
			store.Delete(t.Context(), pointerKey)
			if again, err := Build(t.Context(), store, "", BuildOptions{}); err != nil || again.Generation != rep.Generation {
				t.Errorf("without the pointer: got %+v, %v", again, err)
			}
		})
	}
	// The same changes of nothing are no newer program's.
	store, rep := smallStore(t)
	index, _ := store.Bytes(indexObject("", rep.Generation))
	publishBytes(t, store, bytes.Clone(index), bytes.Clone(bindingOf(t, store)))
	if again, err := Build(t.Context(), store, "", BuildOptions{}); err != nil || !again.Unchanged {
		t.Errorf("nothing changed: got %+v, %v", again, err)
	}
}

// TestOpen_RefusesAnOlderVersion, which Build replaces.
func TestOpen_RefusesAnOlderVersion(t *testing.T) {
	store, rep := smallStore(t)
	key := indexObject("", rep.Generation)
	index, _ := store.Bytes(key)
	old := bytes.Clone(index)
	old[8] = 1
	store.Set(key, old)
	if _, err := Open(t.Context(), store, "", OpenOptions{}); !errors.Is(err, ErrOldVersion) || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), rep.Generation[:12]+": version 1: ") {
		t.Errorf("got %v, want %v with the generation and its version", err, ErrOldVersion)
	}
	if again, err := Build(t.Context(), store, "", BuildOptions{}); err != nil || again.Generation != rep.Generation || again.Unchanged || again.ReadBytes != rep.Bytes {
		t.Errorf("built again: got %+v, %v, want all shards read", again, err)
	}
	if now, _ := store.Bytes(key); !bytes.Equal(now, index) {
		t.Error("the old index is still there")
	}
}

// leftAlone checks that what a newer program wrote is not replaced, and opened only where this one can read it.
func leftAlone(t *testing.T, store *memstore.Store, opens bool) {
	t.Helper()
	before, _ := store.Bytes(pointerKey)
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
	_, err = Build(t.Context(), store, "", BuildOptions{})
	mustBeNewer(t, "build", err)
	if after, _ := store.Bytes(pointerKey); !bytes.Equal(after, before) {
		t.Errorf("pointer: got %s, want the newer program's", after)
	}
}

func mustBeNewer(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, ErrVersion) || errors.Is(err, ErrCorrupt) || errors.Is(err, objstore.ErrNotFound) || !strings.Contains(err.Error(), "remove "+pointerKey) {
		t.Errorf("%s: got %v, want %v and what to do", what, err, ErrVersion)
	}
}

func bindingOf(t *testing.T, store *memstore.Store) []byte {
	t.Helper()
	for _, k := range store.Keys() {
		if strings.HasPrefix(k, bindingDir) {
			b, _ := store.Bytes(k)
			return b
		}
	}
	t.Fatal("no binding")
	return nil
}

// buildLater indexes as a later release does, whose scanner has other rules.
func buildLater(t *testing.T, store *memstore.Store) (BuildReport, error) {
	t.Helper()
	b, err := newBuilder(store, "", BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	later := webdataset.Format()
	later.Changes++
	b.formats = []format.Format{later}
	err = b.run(t.Context())
	return b.report, err
}

// A scanner of other rules uses neither the index nor the kept scans of the one before it, and takes the scans away.
func TestOtherRulesReuseNothing(t *testing.T) {
	store, _ := smallStore(t)
	interrupted(t, store)
	rep, err := buildLater(t, store)
	if err != nil || rep.ReusedShards != 0 || rep.ReadBytes != rep.Bytes {
		t.Errorf("after an index and scans of older rules: got %+v, %v, want all read anew", rep, err)
	}
	for _, k := range store.Keys() {
		if strings.HasPrefix(k, scanDir) {
			t.Errorf("%s is left", k)
		}
	}
	if rep, err = buildLater(t, store); err != nil || !rep.Unchanged || rep.ReadBytes != 0 {
		t.Errorf("the same rules again: got %+v, %v", rep, err)
	}
}

// interrupted leaves the scans of all shards in the store, an object for each, as a run does that dies before it publishes.
func interrupted(t *testing.T, store *memstore.Store) {
	t.Helper()
	saved, had := store.Bytes(pointerKey)
	store.Delete(t.Context(), pointerKey)
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op == memstore.Put && c.Key == pointerKey {
			return memstore.Fault{Err: objstore.ErrUnavailable}
		}
		return memstore.Fault{}
	})
	if _, err := BuildKeeping(t.Context(), store, "", BuildOptions{Parallel: 1}, 1<<40, 1); !errors.Is(err, objstore.ErrUnavailable) {
		t.Fatalf("got %v, want %v", err, objstore.ErrUnavailable)
	}
	store.SetFault(nil)
	if had {
		store.Set(pointerKey, saved)
	}
}
