package chunkindex

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shards"
)

// redigest appends the digest of b to b, because a binding ends with its digest.
func redigest(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(bytes.Clone(b), sum[:]...)
}

// A malformed binding returns ErrCorrupt with the binding's key. A binding that cannot be read
// returns another error.
func TestOpen_ClassifiesFaultsOfABinding(t *testing.T) {
	store, rep := smallStore(t)
	b := bytes.Clone(shards.Binding(t, store))
	key := layout.BindingObject("", rep.Generation, layout.BindingHash(b))
	other, err := layout.EncodeBinding(rep.Generation, []layout.ShardVersion{{ETag: "1"}, {ETag: "2"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body  []byte
		fault error
		want  error
	}{
		"of other versions": {other, nil, ErrCorrupt}, // valid, but not the binding in the pointer
		"empty":             {nil, nil, ErrCorrupt},
		"cut":               {b[:len(b)-1], nil, ErrCorrupt},
		"too large":         {make([]byte, layout.MaxPointer+2*(6+2*layout.MaxVersion+sha256.Size)+1), nil, ErrCorrupt},
		"newer":             {redigest(append([]byte("MRBIND09"), b[8:len(b)-sha256.Size]...)), nil, ErrVersion},
		"unavailable":       {b, objstore.ErrUnavailable, objstore.ErrUnavailable},
		"denied":            {b, objstore.ErrDenied, objstore.ErrDenied},
	} {
		for _, op := range []memstore.Op{memstore.Stat, memstore.Read} {
			store.Set(key, c.body)
			store.SetFault(func(call memstore.Call) memstore.Fault {
				if c.fault != nil && call.Op == op && call.Key == key {
					return memstore.Fault{Err: c.fault}
				}
				return memstore.Fault{}
			})
			_, err := Open(t.Context(), store, "", OpenOptions{})
			store.SetFault(nil)
			if !errors.Is(err, c.want) || c.want != ErrCorrupt && errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, %s: got %v, want %v", name, op, err, c.want)
			}
			if c.fault == nil && !strings.Contains(err.Error(), key) {
				t.Errorf("%s: got %v, want the key %s", name, err, key)
			}
		}
	}
}

// TestParseFile_ClassifiesFaults checks that parseFile returns store errors unchanged, and
// ErrCorrupt for wrong bytes.
func TestParseFile_ClassifiesFaults(t *testing.T) {
	store, rep := smallStore(t)
	b, _ := store.Bytes(layout.IndexObject("", rep.Generation))
	head := layout.HeaderSize + binary.LittleEndian.Uint64(b[layout.CountsSize+layout.EntrySize*layout.SecDigests+16:])
	hollow := append(bytes.Clone(b[:head]), make([]byte, len(b)-int(head))...)
	failing := func(err error) fetch {
		return func(context.Context, int64, []byte) error { return &FetchError{err} }
	}
	wrong := func(_ context.Context, _ int64, b []byte) error { clear(b); return nil }
	right := func(_ context.Context, off int64, p []byte) error { copy(p, b[off:]); return nil }
	for name, c := range map[string]struct {
		body  []byte
		from  fetch
		whole bool
		want  error
	}{
		"fetched":         {hollow, right, false, nil},
		"unavailable":     {hollow, failing(objstore.ErrUnavailable), false, objstore.ErrUnavailable},
		"denied":          {hollow, failing(objstore.ErrDenied), false, objstore.ErrDenied},
		"gone":            {hollow, failing(objstore.ErrNotFound), false, objstore.ErrNotFound},
		"wrong pages":     {hollow, wrong, false, ErrCorrupt},
		"nothing to come": {hollow, nil, false, ErrCorrupt},
		"not whole":       {hollow, right, true, ErrCorrupt},
		"no digests":      {append(bytes.Clone(b[:layout.HeaderSize]), make([]byte, len(b)-layout.HeaderSize)...), right, false, ErrCorrupt},
		"no header":       {make([]byte, len(b)), right, false, ErrCorrupt},
		"a short header":  {b[:layout.HeaderSize-1], right, false, ErrCorrupt},
		"empty":           {nil, right, false, ErrCorrupt},
	} {
		f := fileOf(t, c.body)
		x, err := parseFile(f, int64(len(c.body)), rep.Generation, c.from, c.whole)
		if c.want == nil {
			if err != nil || x.Samples() != rep.Samples {
				t.Errorf("%s: got %v", name, err)
			}
			continue
		}
		if !errors.Is(err, c.want) || errors.Is(err, ErrCorrupt) != (c.want == ErrCorrupt) || !strings.Contains(err.Error(), rep.Generation[:12]) {
			t.Errorf("%s: got %v, want %v of index %.12s", name, err, c.want, rep.Generation)
		}
	}
	if _, err := parseFile(fileOf(t, b), int64(len(b)), strings.Repeat("ab", 32), nil, true); !errors.Is(err, ErrCorrupt) {
		t.Errorf("of another generation: got %v, want %v", err, ErrCorrupt)
	}
}
