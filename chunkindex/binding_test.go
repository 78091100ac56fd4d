package chunkindex

import (
	"bytes"
	"crypto/sha256"
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

// TestParseLocal_ClassifiesFaults checks that the parser of a local copy returns store errors
// unchanged, and ErrCorrupt for wrong bytes.
func TestParseLocal_ClassifiesFaults(t *testing.T) {
	store, rep := smallStore(t)
	b := indexBytes(t, store, rep.Generation)
	root := int(rootSize(b))
	head := root + len(segmentBytes(b)) - len(section(b, layout.SecShards)) // with the digests
	hollow := append(bytes.Clone(b[:head]), make([]byte, len(b)-head)...)
	for name, c := range map[string]struct {
		body  []byte
		fault memstore.Fault
		whole int64
		want  error
	}{
		"fetched":        {hollow, memstore.Fault{}, 0, nil},
		"unavailable":    {hollow, memstore.Fault{Err: objstore.ErrUnavailable}, 0, objstore.ErrUnavailable},
		"denied":         {hollow, memstore.Fault{Err: objstore.ErrDenied}, 0, objstore.ErrDenied},
		"gone":           {hollow, memstore.Fault{Err: objstore.ErrNotFound}, 0, objstore.ErrNotFound},
		"wrong pages":    {hollow, memstore.Fault{Corrupt: func(b []byte) { clear(b) }}, 0, ErrCorrupt},
		"not whole":      {hollow, memstore.Fault{}, WholeIndex, ErrCorrupt},
		"no digests":     {append(bytes.Clone(b[:root+layout.HeaderSize]), make([]byte, len(b)-root-layout.HeaderSize)...), memstore.Fault{}, 0, ErrCorrupt},
		"no header":      {append(bytes.Clone(b[:root]), make([]byte, len(b)-root)...), memstore.Fault{}, 0, ErrCorrupt},
		"longer":         {append(bytes.Clone(b), 0), memstore.Fault{}, 0, layout.ErrMalformed},
		"without a byte": {b[:len(b)-1], memstore.Fault{}, 0, layout.ErrMalformed},
		"a short root":   {b[:root-1], memstore.Fault{}, 0, layout.ErrMalformed},
		"no root":        {make([]byte, len(b)), memstore.Fault{}, 0, layout.ErrMalformed},
	} {
		store.SetFault(func(memstore.Call) memstore.Fault { return c.fault })
		s := &indexSource{store: store, generation: rep.Generation, whole: c.whole}
		x, err := s.parseLocal(fileOf(t, c.body))
		if c.want == nil {
			if err != nil || x.Samples() != rep.Samples {
				t.Errorf("%s: got %v", name, err)
			}
			continue
		}
		if !errors.Is(err, c.want) || errors.Is(err, ErrCorrupt) != (c.want == ErrCorrupt) || c.want != layout.ErrMalformed && !strings.Contains(err.Error(), rep.Generation[:12]) {
			t.Errorf("%s: got %v, want %v of index %.12s", name, err, c.want, rep.Generation)
		}
	}
	store.SetFault(nil)
	s := &indexSource{store: store, generation: strings.Repeat("ab", 32), whole: WholeIndex}
	if _, err := s.parseLocal(fileOf(t, b)); err == nil {
		t.Error("of another generation: got an index")
	}
}
