package selection

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
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
	got, err := s.OpenQuarantine(t.Context(), digest, testGeneration(), 43)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]uint64{3, 17, 42}, got.Numbers()); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
	for name, c := range map[string]struct {
		digest, generation string
		samples            uint64
		want               error
	}{
		"no digest":        {"x", testGeneration(), 43, ErrNotFound},
		"not there":        {strings.Repeat("00", 32), testGeneration(), 43, ErrNotFound},
		"other generation": {digest, strings.Repeat("22", 32), 43, ErrGeneration},
		"other samples":    {digest, testGeneration(), 44, ErrCorrupt},
	} {
		if _, err := s.OpenQuarantine(t.Context(), c.digest, c.generation, c.samples); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
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

// FuzzQuarantine takes any bytes for a list, and the list's own checksum for them.
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

// FuzzRule takes any bytes for a stored rule or a default split, and any text for a rule.
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
		if d, err := decodeDefault(b); err == nil && !isDigest(d) {
			t.Fatalf("a default split of the name %q", d)
		}
	})
}
