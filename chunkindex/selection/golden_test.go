package selection

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// golden returns an object of testdata/stored and its digest. A program of an earlier version
// stored the object, and it never changes. With -update, golden writes a missing object.
func golden(t *testing.T, name string, made []byte) (b []byte, digest string) {
	t.Helper()
	file := filepath.Join("testdata/stored", name)
	if _, err := os.Stat(file); err != nil && *update {
		if err := os.WriteFile(file, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, b) {
		t.Errorf("%s: got %d other bytes than the %d of the golden file", name, len(made), len(b))
	}
	sum := sha256.Sum256(b)
	return b, hex.EncodeToString(sum[:])
}

// TestGoldenSplits decodes splits in the versions that older programs stored, and encodes them
// again. The bytes must be the same.
func TestGoldenSplits(t *testing.T) {
	keys := testDataset(3, 9, 0, 4)
	for name, c := range map[string]struct {
		d    Dataset
		rule Rule
		want map[string][]uint64
	}{
		"split": {keys, mustRule(t, "train=3,val=1", "salt"), map[string][]uint64{
			"train": {0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 13, 14}, "val": {8, 9, 12, 15},
		}},
		"split-by-shard": {
			sharded{keys, []string{"data/train-0.tar", "data/val-0.tar", "data/train-1.tar"}},
			mustRule(t, "train=train-*,val=data/val-*,rest=*", ""),
			map[string][]uint64{"train": {0, 1, 2}, "val": {3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15}, "rest": {12, 14}},
		},
	} {
		s, st := newStore(t)
		m, err := s.Split(t.Context(), c.d, c.rule)
		if err != nil {
			t.Fatal(err)
		}
		stored, digest := golden(t, name, readObject(t, st, "data/set/"+subsetDir+m.Digest))
		s, st = newStore(t)
		writeObject(t, st, "data/set/"+subsetDir+digest, stored)
		for part, want := range c.want {
			if got := numbersOf(t, s, keys, digest, part); !slices.Equal(got, want) {
				t.Errorf("%s: %s: got %d, want %d", name, part, got, want)
			}
		}
	}
}

// TestGoldenSubset decodes a listed subset that an older program stored, and encodes it again. The
// bytes must be the same.
func TestGoldenSubset(t *testing.T) {
	keys := testDataset(3, 9, 0, 4)
	s, st := newStore(t)
	m := keep(t, s, keys, Places{1, 1}, Places{3, 12})
	stored, digest := golden(t, "listed", readObject(t, st, "data/set/"+subsetDir+m.Digest))
	s, st = newStore(t)
	writeObject(t, st, "data/set/"+subsetDir+digest, stored)
	for part, want := range map[string][]uint64{Listed: {1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, Rest: {0, 2, 13, 14, 15}} {
		if got := numbersOf(t, s, keys, digest, part); !slices.Equal(got, want) {
			t.Errorf("%s: got %d, want %d", part, got, want)
		}
	}
}

// TestGoldenQuarantine decodes a quarantine that an older program stored, and encodes it again. The
// bytes must be the same.
func TestGoldenQuarantine(t *testing.T) {
	want := testQuarantine()
	made, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	stored, digest := golden(t, "quarantine", made)
	s, st := newStore(t)
	writeObject(t, st, "data/set/"+quarantineDir+digest, stored)
	got, err := s.OpenQuarantine(t.Context(), digest)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

// TestGoldenCosts decodes a cost table that an older program stored, and encodes it again. The bytes
// must be the same.
func TestGoldenCosts(t *testing.T) {
	d, want := testDataset(3, 0, 2), []uint32{7, 0, 1<<32 - 1, 258, 1}
	s, st := newStore(t)
	digest, _, err := s.WriteCosts(t.Context(), d.Generation(), 5, pieces(want, 2))
	if err != nil {
		t.Fatal(err)
	}
	stored, golden := golden(t, "costs", readObject(t, st, home+costDir+digest))
	s, st = newStore(t)
	writeObject(t, st, home+costDir+golden, stored)
	if got := costsOf(t, s, d, golden, 0, 1, 2, 3, 4); !slices.Equal(got, want) {
		t.Errorf("got %d, want %d", got, want)
	}
}
