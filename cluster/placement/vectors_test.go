package placement

import (
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/vectors"
)

var update = flag.Bool("update", false, "rewrite testdata/vectors.json; a placement that was released never changes")

const vectorsFile = "testdata/vectors.json"

type placementVectors struct {
	Logarithms []logVector  `json:"logarithms"`
	Views      []viewVector `json:"views"`
}

type logVector struct {
	U         uint64 `json:"u"`
	MinusLog2 uint64 `json:"minus_log2"`
}

type viewVector struct {
	Members []memberVector `json:"members"`
	Chunks  []chunkVector  `json:"chunks"`
}

type memberVector struct {
	ID     string `json:"id"`
	Weight uint64 `json:"weight"`
}

type chunkVector struct {
	Digest string   `json:"digest"`
	Owners []string `json:"owners"`
}

// digestOf derives a digest from a number.
func digestOf(n uint64) (digest [32]byte) {
	for i := range digest {
		digest[i] = byte(with(n, uint64(i/8)) >> (i % 8 * 8))
	}
	return digest
}

// owners returns the names of the owner, the second choice, and so on, of a digest.
func owners(v *View, digest [32]byte) []string {
	names := []string{}
	tried := map[int]bool{}
	for {
		i := v.Owner(digest, func(i int) bool { return tried[i] })
		if i < 0 {
			return names
		}
		tried[i] = true
		names = append(names, v.Members()[i].ID)
	}
}

func (v *viewVector) fill(t *testing.T) {
	var members []Member
	for _, m := range v.Members {
		members = append(members, Member(m))
	}
	view := NewView(members)
	for i := range v.Chunks {
		c := &v.Chunks[i]
		raw, err := hex.DecodeString(c.Digest)
		if err != nil {
			t.Fatal(err)
		}
		c.Owners = owners(view, [32]byte(raw))
	}
}

// inputs returns the test cases without their results.
func inputs() placementVectors {
	var v placementVectors
	us := []uint64{0, 1, 2, 3, 255, 1<<63 - 1, 1 << 63, 1<<63 + 1, 1<<64 - 1, 1<<64 - 2, 1<<64 - 1<<55, 1<<64 - 1<<55 - 1}
	for i := range uint64(60) {
		us = append(us, with(1, i)>>(i%7*9))
	}
	for _, u := range us {
		v.Logarithms = append(v.Logarithms, logVector{U: u})
	}
	for i := range uint64(40) {
		view := viewVector{Members: []memberVector{}}
		for j := range with(2, i) % 9 {
			r := with(with(3, i), j)
			m := memberVector{ID: fmt.Sprintf("%s-%d", []string{"gw", "gateway.of.some.length", "träger", "x"}[i%4], (j*7+i)%9), Weight: 1 << 30}
			switch i % 5 {
			case 1:
				m.Weight = []uint64{0, 1, 1 << 30, 3 << 30, math.MaxUint64}[r%5]
			case 3:
				m.Weight = 1 + r>>32
			case 4:
				m.Weight = 1 + r>>20
			}
			view.Members = append(view.Members, m)
		}
		for j := range uint64(8) {
			digest := digestOf(i<<8 | j)
			view.Chunks = append(view.Chunks, chunkVector{Digest: hex.EncodeToString(digest[:])})
		}
		v.Views = append(v.Views, view)
	}
	return v
}

func TestVectors(t *testing.T) {
	got := inputs()
	log := newLogTable()
	for i := range got.Logarithms {
		got.Logarithms[i].MinusLog2 = log.minusLog2(got.Logarithms[i].U)
	}
	for i := range got.Views {
		got.Views[i].fill(t)
	}
	want := vectors.Hold(t, vectorsFile, *update, got)
	if len(want.Views) < 40 || len(want.Logarithms) < 60 {
		t.Errorf("got %d views and %d logarithms, want at least 40 and 60", len(want.Views), len(want.Logarithms))
	}
}

func TestPythonReproducesTheVectors(t *testing.T) {
	vectors.Python(t, "pyplace/check.py", vectorsFile)
}

// TestChecksOfThePage checks that docs/spec/placement.md prints the right figures.
func TestChecksOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/spec/placement.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	log := newLogTable()
	var digest [32]byte
	for i := range digest {
		digest[i] = byte(i)
	}
	for _, want := range []string{
		fmt.Sprintf("Check: T(1) = %d, T(128) = %d.", log[1], log[128]),
		fmt.Sprintf("The key of the member `gw-0` is %#x, and that of the digest of 32 bytes 0, 1, ..., 31 is %#x.", memberKey("gw-0"), chunkKey(digest)),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("docs/spec/placement.md: got no %q", want)
		}
	}
	if got := log.minusLog2(1 << 63); got != 1<<logBits {
		t.Errorf("L(2^63): got %d, want 2^%d", got, logBits)
	}
	if got := log.minusLog2(math.MaxUint64); got != 1 {
		t.Errorf("L(2^64 - 1): got %d, want 1", got)
	}
}

// TestLogarithmsAreThoseOfMathematics compares the table, and the interpolation between its
// entries, with floating-point logarithms.
func TestLogarithmsAreThoseOfMathematics(t *testing.T) {
	log := newLogTable()
	for i, got := range log {
		want := math.Log2(1+float64(i)/256) * (1 << logBits)
		if math.Abs(float64(got)-want) > 2 {
			t.Errorf("T(%d): got %d, want %.1f", i, got, want)
		}
	}
	var us []uint64
	for i := range uint64(100_000) {
		us = append(us, with(9, i)>>(i%64), math.MaxUint64-with(8, i)>>(i%64))
	}
	slices.Sort(us)
	before := uint64(math.MaxUint64)
	for _, u := range us {
		got := log.minusLog2(u)
		if got > before || got == 0 {
			t.Fatalf("L(%d): got %d after %d, want no more and at least 1", u, got, before)
		}
		before = got
		want := -math.Log1p(-float64(math.MaxUint64-u)/(1<<64)) / math.Ln2 * (1 << logBits)
		if u < 1<<60 {
			want = (64 - math.Log2(float64(max(1, u)))) * (1 << logBits)
		}
		if math.Abs(float64(got)-want) > want/256+2 {
			t.Fatalf("L(%d): got %d, want %.1f within 1/256", u, got, want)
		}
	}
}
