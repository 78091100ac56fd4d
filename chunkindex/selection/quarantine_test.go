package selection

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func testQuarantine() Quarantine {
	return Quarantine{Generation: testGeneration(), Samples: 43, Bad: []Bad{{3, "a/3", ""}, {17, "b/\xff", "does not decode"}, {42, "c", "black"}}}
}

func TestQuarantineIsReadBack(t *testing.T) {
	s, _ := newStore(t)
	want := testQuarantine()
	shuffled := want
	shuffled.Bad = []Bad{want.Bad[2], want.Bad[0], want.Bad[1]}
	digest, created, err := s.Quarantine(t.Context(), shuffled)
	if err != nil || !created {
		t.Fatalf("got %v, %v", created, err)
	}
	if again, created, err := s.Quarantine(t.Context(), want); err != nil || created || again != digest {
		t.Errorf("the same list again: got %s, %v, %v, want %s", again, created, err, digest)
	}
	got, err := s.OpenQuarantine(t.Context(), digest)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	for _, digest := range []string{"x", strings.Repeat("00", 32)} {
		if _, err := s.OpenQuarantine(t.Context(), digest); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: got %v, want ErrNotFound", digest, err)
		}
	}
}

// grown is a generation that finds samples by key. Lookup fails for one key.
type grown struct {
	generation string
	keys       []string
}

var errLookup = errors.New("no look-up")

func (g grown) Generation() string { return g.generation }
func (g grown) Samples() uint64    { return uint64(len(g.keys)) }

func (g grown) Lookup(_ context.Context, key, _ string) (uint64, bool, error) {
	if slices.Contains(g.keys, "fails") {
		return 0, false, errLookup
	}
	n := slices.Index(g.keys, key)
	return uint64(n), n >= 0, nil
}

// TestNumbers_InAnotherGeneration finds the samples of a list in a generation in which some samples
// have other numbers and some are missing.
func TestNumbers_InAnotherGeneration(t *testing.T) {
	q, same := testQuarantine(), make([]string, 43)
	for name, c := range map[string]struct {
		of   grown
		want []uint64
		err  error
	}{
		"its own":       {grown{testGeneration(), same}, []uint64{3, 17, 42}, nil},
		"not its own":   {grown{testGeneration(), same[1:]}, nil, ErrCorrupt},
		"another":       {grown{"22", []string{"new", "b/\xff", "x", "a/3"}}, []uint64{1, 3}, nil},
		"of other data": {grown{"22", same}, []uint64{}, nil},
		"unreadable":    {grown{"22", []string{"fails"}}, nil, errLookup},
	} {
		got, err := q.Numbers(t.Context(), c.of)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: got %v, want %v", name, err, c.err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: numbers (-want +got):\n%s", name, diff)
		}
	}
}

func TestQuarantineRefuses(t *testing.T) {
	for name, bad := range map[string][]Bad{
		"none":        nil,
		"no sample":   {{Number: 43}},
		"twice":       {{Number: 3}, {Number: 3}},
		"long key":    {{Number: 3, Key: strings.Repeat("k", maxKey+1)}},
		"long reason": {{Number: 3, Reason: strings.Repeat("r", maxReason+1)}},
		"all":         make([]Bad, 43),
	} {
		s, _ := newStore(t)
		q := testQuarantine()
		if q.Bad = bad; name == "all" {
			for i := range q.Bad {
				q.Bad[i].Number = uint64(i)
			}
		}
		if _, _, err := s.Quarantine(t.Context(), q); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want %v", name, err, ErrInvalid)
		}
	}
}

// FuzzQuarantine decodes arbitrary bytes with a recomputed checksum.
func FuzzQuarantine(f *testing.F) {
	whole, err := testQuarantine().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-9])
	f.Fuzz(func(t *testing.T, b []byte) {
		sealed := binary.LittleEndian.AppendUint32(bytes.Clone(b[:max(len(b), 4)-4]), 0)
		if len(b) >= 4 {
			binary.LittleEndian.PutUint32(sealed[len(b)-4:], crc32.Checksum(b[:len(b)-4], castagnoli()))
		}
		for _, in := range [][]byte{b, sealed} {
			q, err := decodeQuarantine(in)
			if err != nil {
				continue
			}
			if again, err := q.encode(); err != nil || !bytes.Equal(again, in) {
				t.Fatalf("a list that is read is written otherwise: %v", err)
			}
		}
	})
}

// FuzzRule decodes arbitrary bytes as a stored rule or default split, and parses arbitrary text as
// a rule.
func FuzzRule(f *testing.F) {
	f.Add([]byte(`{"salt":"s","parts":[{"name":"train","part":90},{"name":"val","part":10}]}`), "s")
	f.Add([]byte("train=90,val=10"), "")
	f.Add([]byte(`{"version":1,"subset":"`+testGeneration()+`"}`), "")
	f.Fuzz(func(t *testing.T, b []byte, salt string) {
		if r, err := decodeRule(b); err == nil {
			if again, err := r.encode(); err != nil || !bytes.Equal(again, b) {
				t.Fatalf("a rule that is read is written otherwise: %v", err)
			}
		}
		if r, err := ParseRule(string(b), salt); err == nil {
			if text, err := r.encode(); err != nil {
				t.Fatal(err)
			} else if _, err := decodeRule(text); err != nil {
				t.Fatalf("a rule that was parsed cannot be read: %v", err)
			}
		}
		if d, err := decodeName(b, "subset"); err == nil && !isDigest(d) {
			t.Fatalf("a default split of the name %q", d)
		}
	})
}
