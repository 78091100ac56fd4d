package layout

import (
	"bytes"
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

// decodeBinding rejects bindings that no run writes, even with a valid digest.
func TestDecodeBinding_RejectsMalformed(t *testing.T) {
	generation := strings.Repeat("ab", 32)
	says := strings.Repeat("s", sha256.Size)
	for name, versions := range map[string][]ShardVersion{
		"ETags":       {{"a", "", ""}, {"b", "1", ""}},
		"with others": {{"a", "", says}, {"b", "1", ""}},
		"longest":     {{strings.Repeat("e", MaxVersion), strings.Repeat("v", MaxVersion), says}, {"b", "", ""}},
		"no shard":    {},
	} {
		b, err := EncodeBinding(generation, versions)
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

// decodeBinding requires an ETag for each shard and limits the length of each string. A digest has
// a fixed length.
func TestDecodeBinding_BoundsItsStrings(t *testing.T) {
	generation := strings.Repeat("ab", 32)
	digest := bytes.Repeat([]byte{0xab}, sha256.Size)
	e := func(n int) string { return strings.Repeat("e", n) }
	for _, c := range []struct {
		etag, id, says int
		ok             bool
	}{
		{1, 0, 0, true}, {1, 0, sha256.Size, true}, {0, 1, 0, false},
		{MaxVersion, MaxVersion, 0, true}, {MaxVersion + 1, 0, 0, false}, {1, MaxVersion + 1, 0, false},
		{1, 0, 1, false}, {1, 0, sha256.Size - 1, false}, {1, 0, sha256.Size + 1, false},
	} {
		b := append([]byte(BindingSays), digest...)
		b = binary.LittleEndian.AppendUint32(b, 1)
		for _, n := range []int{c.etag, c.id, c.says} {
			b = append(binary.LittleEndian.AppendUint16(b, uint16(n)), e(n)...)
		}
		if got, err := decodeBinding(resum(b), generation, 1); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%+v: got %.60v, %v", c, got, err)
		}
		if c.etag <= MaxVersion && c.id <= MaxVersion {
			continue
		}
		if _, err := EncodeBinding(generation, []ShardVersion{{e(c.etag), e(c.id), ""}}); err == nil || !strings.Contains(err.Error(), "longer than 1024 bytes") {
			t.Errorf("%+v: got %v, want the limit", c, err)
		}
	}
	if _, err := EncodeBinding("no digest", nil); err == nil {
		t.Error("got a binding of a generation that is no digest")
	}
}

// For an object that is empty or longer than the limit, ReadSmall returns ErrCorrupt before it
// reads a byte.
func TestReadSmall_BoundsTheObject(t *testing.T) {
	store := memstore.New()
	const limit = 10
	for size := range limit + 3 {
		want := bytes.Repeat([]byte{'x'}, size)
		obj := store.Set("o", want)
		store.Reset()
		got, err := ReadSmall(t.Context(), store, obj, limit)
		if size == 0 || size > limit {
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprintf("o: corrupt: size of %d bytes", size)) || store.Stats().Total != 0 {
				t.Errorf("%d bytes: got %v after %d requests, want %v after none", size, err, store.Stats().Total, ErrCorrupt)
			}
			continue
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: got %q, %v", size, got, err)
		}
		store.Set("o", want)
		if _, err := ReadSmall(t.Context(), store, obj, limit); !errors.Is(err, objstore.ErrChanged) {
			t.Errorf("%d bytes, written again: got %v, want %v", size, err, objstore.ErrChanged)
		}
	}
}

// decodePointer rejects malformed pointers. It checks the version before any other field.
func TestDecodePointer_RejectsMalformed(t *testing.T) {
	g, b := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	text := func(version int, generation, binding string) string {
		return fmt.Sprintf(`{"version":%d,"generation":%q,"binding":%q}`, version, generation, binding)
	}
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"oldest":               {text(1, g, b), nil},
		"present":              {text(PointerVersion, g, b), nil},
		"newer":                {text(PointerVersion+1, g, b), ErrVersion},
		"newer, of other form": {`{"version":99,"generation":{"sha512":""}}`, ErrVersion},
		"no version":           {text(0, g, b), ErrCorrupt},
		"negative version":     {text(-1, g, b), ErrCorrupt},
		"no generation":        {text(2, "", b), ErrCorrupt},
		"no binding":           {text(2, g, ""), ErrCorrupt},
		"a path":               {text(2, "../../"+g[:58], b), ErrCorrupt},
		"short generation":     {text(2, g[2:], b), ErrCorrupt},
		"long binding":         {text(2, g, b+"ab"), ErrCorrupt},
		"capital letters":      {text(2, strings.ToUpper(g), b), ErrCorrupt},
		"of other types":       {`{"version":2,"generation":1,"binding":2}`, ErrCorrupt},
		"no JSON":              {"version 2", ErrCorrupt},
		"cut":                  {text(2, g, b)[:100], ErrCorrupt},
	} {
		p, err := decodePointer([]byte(c.text))
		if !errors.Is(err, c.want) || c.want == ErrVersion && errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if c.want == nil && (p.Generation != g || p.Binding != b) || c.want != nil && p != (Pointer{}) {
			t.Errorf("%s: got %+v", name, p)
		}
	}
}

// resum appends the digest of b to b, because a binding ends with its digest.
func resum(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(bytes.Clone(b), sum[:]...)
}

// changeCount adds by to the number of shards in a binding.
func changeCount(b []byte, by int) []byte {
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint32(b[40:], uint32(int(binary.LittleEndian.Uint32(b[40:]))+by))
	return b
}
