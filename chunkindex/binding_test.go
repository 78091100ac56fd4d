package chunkindex

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// resum ends a binding in the digest of what precedes it.
func resum(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(bytes.Clone(b), sum[:]...)
}

// TestDecodeBinding_RefusesWhatNoRunWrites, although its digest is right.
func TestDecodeBinding_RefusesWhatNoRunWrites(t *testing.T) {
	generation := strings.Repeat("ab", 32)
	says := strings.Repeat("s", sha256.Size)
	for name, versions := range map[string][]version{
		"ETags":       {{"a", "", ""}, {"b", "1", ""}},
		"with others": {{"a", "", says}, {"b", "1", ""}},
		"longest":     {{strings.Repeat("e", maxVersion), strings.Repeat("v", maxVersion), says}, {"b", "", ""}},
		"no shard":    {},
	} {
		b, err := encodeBinding(generation, versions)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeBinding(b, generation, len(versions))
		if err != nil || !slices.Equal(got, versions) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, versions)
		}
		body := b[:len(b)-sha256.Size]
		for what, wrong := range map[string][]byte{
			"a digest less":    body,
			"a byte more":      resum(append(bytes.Clone(body), 0)),
			"a shard more":     resum(changeCount(body, 1)),
			"a shard less":     resum(changeCount(body, -1)),
			"nothing":          nil,
			"only a digest":    resum(nil),
			"no count":         resum(body[:40]),
			"another object":   resum(append([]byte("MRPOINT1"), body[8:]...)),
			"a flipped digest": append(bytes.Clone(b[:len(b)-1]), b[len(b)-1]^1),
		} {
			if got, err := decodeBinding(wrong, generation, len(versions)); err == nil || errors.Is(err, ErrVersion) {
				t.Errorf("%s, %s: got %v, %v, want no binding", name, what, got, err)
			}
		}
		for n := 44; n < len(body); n++ {
			if got, err := decodeBinding(resum(body[:n]), generation, len(versions)); err == nil {
				t.Errorf("%s, %d of %d bytes: got %v", name, n, len(body), got)
			}
		}
		if _, err := decodeBinding(b, strings.Repeat("cd", 32), len(versions)); err == nil {
			t.Errorf("%s: got the binding of another generation", name)
		}
		for _, shards := range []int{len(versions) - 1, len(versions) + 1, 1 << 40} {
			if _, err := decodeBinding(b, generation, shards); err == nil {
				t.Errorf("%s: got a binding of %d shards", name, shards)
			}
		}
		if _, err := decodeBinding(resum(append([]byte("MRBIND03"), body[8:]...)), generation, len(versions)); !errors.Is(err, ErrVersion) {
			t.Errorf("%s, of a newer version: got %v, want %v", name, err, ErrVersion)
		}
	}
}

// changeCount adds to the number of shards that a binding names.
func changeCount(b []byte, by int) []byte {
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint32(b[40:], uint32(int(binary.LittleEndian.Uint32(b[40:]))+by))
	return b
}

// TestDecodeBinding_BoundsItsStrings: a shard has an ETag, no string exceeds its limit, and a digest has the length of one.
func TestDecodeBinding_BoundsItsStrings(t *testing.T) {
	generation := strings.Repeat("ab", 32)
	digest := bytes.Repeat([]byte{0xab}, sha256.Size)
	e := func(n int) string { return strings.Repeat("e", n) }
	for _, c := range []struct {
		etag, id, says int
		ok             bool
	}{
		{1, 0, 0, true}, {1, 0, sha256.Size, true}, {0, 1, 0, false},
		{maxVersion, maxVersion, 0, true}, {maxVersion + 1, 0, 0, false}, {1, maxVersion + 1, 0, false},
		{1, 0, 1, false}, {1, 0, sha256.Size - 1, false}, {1, 0, sha256.Size + 1, false},
	} {
		b := append([]byte(bindingSays), digest...)
		b = binary.LittleEndian.AppendUint32(b, 1)
		for _, n := range []int{c.etag, c.id, c.says} {
			b = append(binary.LittleEndian.AppendUint16(b, uint16(n)), e(n)...)
		}
		if got, err := decodeBinding(resum(b), generation, 1); (err == nil) != c.ok || err != nil && !errors.Is(err, errMalformed) {
			t.Errorf("%+v: got %.60v, %v", c, got, err)
		}
		if c.etag <= maxVersion && c.id <= maxVersion {
			continue
		}
		if _, err := encodeBinding(generation, []version{{e(c.etag), e(c.id), ""}}); err == nil || !strings.Contains(err.Error(), "longer than 1024 bytes") {
			t.Errorf("%+v: got %v, want the limit", c, err)
		}
	}
	if _, err := encodeBinding("no digest", nil); err == nil {
		t.Error("got a binding of a generation that is no digest")
	}
}

// TestOpen_ClassifiesFaultsOfABinding: a binding that is wrong is ErrCorrupt by its key; one that cannot be read is not.
func TestOpen_ClassifiesFaultsOfABinding(t *testing.T) {
	store, rep := smallStore(t)
	b := bytes.Clone(bindingOf(t, store))
	key := bindingObject("", rep.Generation, bindingHash(b))
	other, err := encodeBinding(rep.Generation, []version{{"1", "", ""}, {"2", "", ""}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body  []byte
		fault error
		want  error
	}{
		"of other versions": {other, nil, ErrCorrupt}, // whole, but not the one that the pointer names
		"empty":             {nil, nil, ErrCorrupt},
		"cut":               {b[:len(b)-1], nil, ErrCorrupt},
		"too large":         {make([]byte, maxPointer+2*(6+2*maxVersion+sha256.Size)+1), nil, ErrCorrupt},
		"newer":             {resum(append([]byte("MRBIND09"), b[8:len(b)-sha256.Size]...)), nil, ErrVersion},
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

// TestReadSmall_BoundsTheObject: empty or longer than the limit is ErrCorrupt, before a byte is read.
func TestReadSmall_BoundsTheObject(t *testing.T) {
	store := memstore.New()
	const limit = 10
	for size := range limit + 3 {
		want := bytes.Repeat([]byte{'x'}, size)
		obj := store.Set("o", want)
		store.Reset()
		got, err := readSmall(t.Context(), store, obj, limit)
		if size == 0 || size > limit {
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprintf("o: corrupt: %d bytes", size)) || store.Stats().Total != 0 {
				t.Errorf("%d bytes: got %v after %d requests, want %v after none", size, err, store.Stats().Total, ErrCorrupt)
			}
			continue
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: got %q, %v", size, got, err)
		}
		store.Set("o", want)
		if _, err := readSmall(t.Context(), store, obj, limit); !errors.Is(err, objstore.ErrChanged) {
			t.Errorf("%d bytes, written again: got %v, want %v", size, err, objstore.ErrChanged)
		}
	}
}

// TestParseFile_ClassifiesFaults: pages that do not come are a fault of their store, bytes that are wrong are ErrCorrupt.
func TestParseFile_ClassifiesFaults(t *testing.T) {
	store, rep := smallStore(t)
	b, _ := store.Bytes(indexObject("", rep.Generation))
	head := headerSize + binary.LittleEndian.Uint64(b[countsSize+entrySize*secDigests+16:])
	hollow := append(bytes.Clone(b[:head]), make([]byte, len(b)-int(head))...)
	failing := func(err error) fetch {
		return func(context.Context, int64, []byte) error { return &fetchError{err} }
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
		"no digests":      {append(bytes.Clone(b[:headerSize]), make([]byte, len(b)-headerSize)...), right, false, ErrCorrupt},
		"no header":       {make([]byte, len(b)), right, false, ErrCorrupt},
		"a short header":  {b[:headerSize-1], right, false, ErrCorrupt},
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
