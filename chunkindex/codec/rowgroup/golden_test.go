package rowgroup_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/codec/rowgroup"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestDecode_MatchesPyarrow compares all values of all files with the values that pyarrow reads.
// The files contain every type, encoding, compression and page version, and lists across pages.
func TestDecode_MatchesPyarrow(t *testing.T) {
	for name, file := range golden(t) {
		_, got, err := values(file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b, err := os.ReadFile("testdata/" + name + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); n++ {
			var want any
			if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
				t.Fatal(err)
			}
			if n >= len(got) {
				continue
			}
			if d := cmp.Diff(want, asJSON(got[n])); d != "" {
				t.Errorf("%s, row %d (-want +got):\n%s", name, n, d)
			}
		}
		if n != len(got) {
			t.Errorf("%s: got %d rows, want %d", name, len(got), n)
		}
	}
}

// TestRowsAndParams_AreFrozen checks that the encodings of rows and of parameters do not change. A
// change of either would invalidate cached chunks and indexes.
func TestRowsAndParams_AreFrozen(t *testing.T) {
	var b strings.Builder
	all := golden(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f, groups, err := read(all[name])
		if err != nil {
			t.Fatal(err)
		}
		schema, err := rows.Marshal(f.Fields)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s\n", name, schema)
		for i, g := range f.Groups {
			fmt.Fprintf(&b, "  %d rows sha256 %x params %x\n", g.Frame.Rows, sha256.Sum256(groups[i]), g.Frame.Params())
		}
	}
	const path = "testdata/frozen.golden"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// chunk returns the parameters and stored bytes of a chunk of these row groups.
func chunk(file []byte, groups []rowgroup.Group) (params, stored []byte) {
	for _, g := range groups {
		p := g.Frame.Params()
		params = append(binary.AppendUvarint(params, uint64(len(p))), p...)
	}
	last := groups[len(groups)-1]
	end := last.Offset + last.Frame.Length
	return params, file[groups[0].Offset:end:end]
}

// TestDecode_Chunks checks that a chunk of several row groups decodes from its stored bytes and
// parameters, with any amount of memory behind the stored bytes.
func TestDecode_Chunks(t *testing.T) {
	for name, file := range golden(t) {
		f, groups, err := read(file)
		if err != nil {
			t.Fatal(err)
		}
		for from := range f.Groups {
			for to := from + 1; to <= len(f.Groups); to++ {
				params, stored := chunk(file, f.Groups[from:to])
				want := bytes.Join(groups[from:to], nil)
				for _, room := range []int64{0, 100, rowgroup.Room(int64(len(want)))} {
					got := make([]byte, len(want))
					work := append(make([]byte, 0, int64(len(stored))+room), stored...)
					if err := rowgroup.Decode(params, work, got, nil); err != nil || !bytes.Equal(got, want) {
						t.Errorf("%s, row groups %d to %d: got other rows, %v", name, from, to, err)
					}
				}
				for _, n := range []int{len(want) - 1, len(want) + 1} {
					if err := rowgroup.Decode(params, stored, make([]byte, n), nil); err == nil {
						t.Errorf("%s, row groups %d to %d: %d bytes of %d: got no error", name, from, to, n, len(want))
					}
				}
				if err := rowgroup.Decode(params, stored[:len(stored)-1], make([]byte, len(want)), nil); err == nil {
					t.Errorf("%s: a byte of %d too few: got no error", name, len(stored))
				}
			}
		}
	}
}
