package selection

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/vectors"
)

func TestSplitPutsEverySampleIntoOneSubset(t *testing.T) {
	d := testDataset(5, 0, 64, 1, 300, 9)
	s, _ := newStore(t)
	m, err := s.Split(t.Context(), d, mustRule(t, "train=70,val=20,test=10", "s"))
	if err != nil {
		t.Fatal(err)
	}
	var all []uint64
	for i, name := range []string{"train", "val", "test"} {
		of := numbersOf(t, s, d, m.Digest, name)
		if uint64(len(of)) != m.Counts[i] {
			t.Errorf("%s: got %d samples, want %d", name, len(of), m.Counts[i])
		}
		all = append(all, of...)
	}
	slices.Sort(all)
	for i, x := range all {
		if x != uint64(i) {
			t.Fatalf("samples: got %v, want each once", all)
		}
	}
	if len(all) != 379 || m.Counts[0] < 230 || m.Counts[0] > 300 {
		t.Errorf("got %d samples, %v in the subsets", len(all), m.Counts)
	}
}

func TestSplitStaysWhenDataIsAdded(t *testing.T) {
	s, _ := newStore(t)
	rule := mustRule(t, "a=1,b=1", "salt")
	small, large := testDataset(50, 30), testDataset(20, 60, 200)
	members := map[int]map[uint64]bool{}
	for i, d := range []dataset{small, large} {
		m, err := s.Split(t.Context(), d, rule)
		if err != nil {
			t.Fatal(err)
		}
		members[i] = map[uint64]bool{}
		for _, x := range numbersOf(t, s, d, m.Digest, "a") {
			members[i][x] = true
		}
	}
	for x := range uint64(80) {
		if members[0][x] != members[1][x] {
			t.Errorf("sample %d: of subset a is %v before, %v after", x, members[0][x], members[1][x])
		}
	}
}

func TestSplitIsMadeOnce(t *testing.T) {
	d := testDataset(10, 10)
	s, st := newStore(t)
	first, err := s.Split(t.Context(), d, mustRule(t, "train=9,val=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Split(t.Context(), d, mustRule(t, "train=9,val=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	if !first.New || again.New || again.Digest != first.Digest || again.Default != first.Digest {
		t.Errorf("got %+v, then %+v", first, again)
	}
	other, err := s.Split(t.Context(), d, mustRule(t, "train=9,val=1", "other"))
	if err != nil {
		t.Fatal(err)
	}
	if other.Digest == first.Digest || other.Default != first.Digest {
		t.Errorf("another salt: got %+v, want another split and the same default, %s", other, first.Digest)
	}
	if got, err := s.Default(t.Context(), d.Generation()); err != nil || got != first.Digest {
		t.Errorf("default: got %s, %v, want %s", got, err, first.Digest)
	}
	if _, err := s.Default(t.Context(), strings.Repeat("22", 32)); !errors.Is(err, ErrNoDefault) {
		t.Errorf("default of another generation: got %v, want %v", err, ErrNoDefault)
	}
	reader, err := New(Config{Reader: st, Prefix: "data/set/"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Split(t.Context(), d, mustRule(t, "x=1", "")); !errors.Is(err, ErrReadOnly) {
		t.Errorf("without a writer: got %v, want %v", err, ErrReadOnly)
	}
}

func TestOpenSubsetRefuses(t *testing.T) {
	d := testDataset(10, 10)
	s, st := newStore(t)
	m, err := s.Split(t.Context(), d, mustRule(t, "train=9,val=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	whole := readObject(t, st, "data/set/"+subsetDir+m.Digest)
	damaged := bytes.Clone(whole)
	damaged[len(damaged)-1] ^= 1
	wrong := strings.Repeat("ab", 32)
	writeObject(t, st, "data/set/"+subsetDir+wrong, damaged)
	for name, c := range map[string]struct {
		digest, name, generation string
		first                    []uint64
		want                     error
	}{
		"no digest":        {"train", "train", d.Generation(), d.First(), ErrNotFound},
		"of the default":   {"default-" + d.Generation(), "train", d.Generation(), d.First(), ErrNotFound},
		"not there":        {strings.Repeat("00", 32), "train", d.Generation(), d.First(), ErrNotFound},
		"other subset":     {m.Digest, "test", d.Generation(), d.First(), ErrNoSubset},
		"other generation": {m.Digest, "train", strings.Repeat("22", 32), d.First(), ErrGeneration},
		"other chunks":     {m.Digest, "train", d.Generation(), []uint64{0, 9, 20}, ErrCorrupt},
		"more chunks":      {m.Digest, "train", d.Generation(), []uint64{0, 9, 9, 20}, ErrCorrupt},
		"other bytes":      {wrong, "train", d.Generation(), d.First(), ErrCorrupt},
	} {
		if _, err := s.OpenSubset(t.Context(), c.digest, c.name, c.generation, c.first); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestRuleRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "must be NAME=PART",
		"train":                        "must be NAME=PART",
		"train=x":                      "must be a whole number",
		"train=a-*,val=1":              "sizes and patterns cannot be combined",
		"train=[a":                     "is not a valid pattern",
		"train=a-*,train=b-*":          "given twice",
		"train=-1":                     "must be a whole number",
		"train=0":                      "must be at least 1",
		"train=1,train=2":              "given twice",
		"a/b=1":                        "letters, digits",
		"=1":                           "letters, digits",
		"a=4294967295,b=1":             "sum of the parts",
		"a=4294967296":                 "must be a whole number",
		strings.Repeat("a", 65) + "=1": "letters, digits",
	} {
		if _, err := ParseRule(text, ""); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	for _, salt := range []string{"two\nlines", strings.Repeat("s", maxSalt+1), "\xff"} {
		if _, err := ParseRule("a=1", salt); !errors.Is(err, ErrInvalid) {
			t.Errorf("salt %q: got %v, want %v", salt, err, ErrInvalid)
		}
	}
}

// patternVector is an entry of testdata/rules.json for a rule with patterns. It contains the subset
// of each shard, or -1 for none.
type patternVector struct {
	Patterns []string `json:"patterns"`
	Shards   []string `json:"shards"`
	Subsets  []int    `json:"subsets"`
}

// ruleVector is an entry of testdata/rules.json.
type ruleVector struct {
	Parts   []uint64 `json:"parts"`
	Salt    string   `json:"salt"`
	Keys    []string `json:"keys"`
	Subsets []int    `json:"subsets"`
}

func TestRuleVectors(t *testing.T) {
	var got struct {
		Rules    []ruleVector    `json:"rules"`
		Patterns []patternVector `json:"patterns"`
	}
	for i, parts := range [][]uint64{{1}, {1, 1}, {90, 10}, {995, 4, 1}, {1, 2, 3, 4, 5}, {1<<31 - 1, 1 << 31}} {
		v := ruleVector{Parts: parts, Salt: []string{"", "s", "größer"}[i%3]}
		rule := Rule{Salt: v.Salt}
		for k, p := range parts {
			rule.Parts = append(rule.Parts, Part{Name: fmt.Sprint("p", k), Size: p})
		}
		sort := newSorter(rule)
		for k := range 30 {
			key := []string{fmt.Sprintf("photos/%05d", k), fmt.Sprint(k), strings.Repeat("é", k)}[k%3]
			v.Keys, v.Subsets = append(v.Keys, key), append(v.Subsets, sort.part([]byte(key)))
		}
		got.Rules = append(got.Rules, v)
	}
	for _, patterns := range [][]string{{"train-*", "val-*"}, {"data/train*", "*"}, {"[a-c]?.tar", "[^x]*", "data/*/*.tar"}, {`a\*.tar`, "?.tar"}} {
		v := patternVector{Patterns: patterns}
		var rule Rule
		for k, p := range patterns {
			rule.Parts = append(rule.Parts, Part{Name: fmt.Sprint("p", k), Match: p})
		}
		if err := rule.Check(); err != nil {
			t.Fatal(err)
		}
		for _, shard := range []string{"train-00000-of-00012.parquet", "data/train-0.tar", "data/train", "data/val-1.tar", "a1.tar", "b1.tar", "d1.tar", "x.tar", "data/b/x.tar", "a*.tar", "é.tar", "ab\nc.tar"} {
			v.Shards, v.Subsets = append(v.Shards, shard), append(v.Subsets, rule.shardPart(shard))
		}
		got.Patterns = append(got.Patterns, v)
	}
	const path = "testdata/rules.json"
	vectors.Hold(t, path, *update, got)
	vectors.Python(t, "../../client/python/tests/order_vectors.py", path)
}

// TestDamagedRule checks that the checksum detects a valid rule that differs from the stored rule.
func TestDamagedRule(t *testing.T) {
	d := testDataset(10)
	s, st := newStore(t)
	m, err := s.Split(t.Context(), d, mustRule(t, "train=9,val=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	whole := readObject(t, st, "data/set/"+subsetDir+m.Digest)
	damaged := bytes.Replace(whole, []byte("train"), []byte("brain"), 1)
	_, err = parseSplit(content{bytes.NewReader(damaged)}, int64(len(damaged)), "val", d.Generation(), d.First())
	if want := "checksum of its rule is wrong"; !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %v, which says %q", err, ErrCorrupt, want)
	}
}

// FuzzSplit checks that no input makes the parser panic, and that an opened split is consistent.
func FuzzSplit(f *testing.F) {
	d := testDataset(5, 0, 20)
	s, st := newStore(f)
	m, err := s.Split(f.Context(), d, mustRule(f, "train=3,val=1", "x"))
	if err != nil {
		f.Fatal(err)
	}
	whole := readObject(f, st, "data/set/"+subsetDir+m.Digest)
	f.Add(whole)
	f.Add(whole[:splitHeader])
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, sealed := range [][]byte{b, seal(b)} {
			x, err := parseSplit(content{bytes.NewReader(sealed)}, int64(len(sealed)), "train", d.Generation(), d.First())
			if err != nil {
				continue
			}
			for chunk := range d {
				bitmap, err := x.Bitmap(t.Context(), chunk)
				if err == nil && len(bitmap) != (len(d[chunk])+7)/8 {
					t.Fatalf("chunk %d: a bitmap of %d bytes", chunk, len(bitmap))
				}
			}
		}
	})
}

// seal recomputes the checksums of a split, so that tests reach the checks after the checksums.
func seal(b []byte) []byte {
	if len(b) < splitHeader {
		return b
	}
	b = bytes.Clone(b)
	sum := func(p []byte) uint32 { return crc32.Checksum(p, castagnoli()) }
	copy(b, splitMagic)
	binary.LittleEndian.PutUint32(b[8:], splitVersion)
	rule := uint64(binary.LittleEndian.Uint32(b[64:]))
	parts := uint64(binary.LittleEndian.Uint32(b[12:]))
	table := splitHeader + rule
	if end := table + 3*(4*parts+4); end <= uint64(len(b)) {
		binary.LittleEndian.PutUint32(b[68:], sum(b[splitHeader:table]))
		binary.LittleEndian.PutUint32(b[72:], sum(b[table:end]))
	}
	binary.LittleEndian.PutUint32(b[splitHeader-4:], sum(b[:splitHeader-4]))
	return b
}

// content is an in-memory split.
type content struct{ io.ReaderAt }

func (content) Close() error { return nil }

func readObject(t testing.TB, st *memstore.Store, key string) []byte {
	t.Helper()
	obj, err := st.Stat(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, obj.Size)
	if err := st.ReadRange(t.Context(), obj.Ref(), 0, b); err != nil {
		t.Fatal(err)
	}
	return b
}

func writeObject(t testing.TB, st *memstore.Store, key string, b []byte) {
	t.Helper()
	if _, err := st.Put(t.Context(), key, bytes.NewReader(b), int64(len(b)), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// TestBitmap_DetectsDamage changes a bitmap, and then also its checksum, after the split was
// opened, like a failing disk.
func TestBitmap_DetectsDamage(t *testing.T) {
	d := testDataset(9)
	s, st := newStore(t)
	m, err := s.Split(t.Context(), d, mustRule(t, "train=1,val=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	whole := readObject(t, st, "data/set/"+subsetDir+m.Digest)
	for name, mend := range map[string]func(x *Subset, b []byte){
		"a bitmap":             func(*Subset, []byte) {},
		"a bitmap and its CRC": func(x *Subset, b []byte) { x.crcs[0] = crc32.Checksum(b[len(b)-4:], castagnoli()) },
	} {
		b := bytes.Clone(whole)
		x, err := parseSplit(content{bytes.NewReader(b)}, int64(len(b)), "train", d.Generation(), d.First())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.Bitmap(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		b[len(b)-4] ^= 1
		mend(x, b)
		if _, err := x.Bitmap(t.Context(), 0); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", name, err, ErrCorrupt)
		}
	}
}

// sharded is a dataset with one shard per chunk, except that each sample of the last chunk is a
// shard.
type sharded struct {
	dataset
	names []string
}

func (d sharded) ShardKey(sample uint64) string {
	for chunk := range d.names {
		if sample < d.First()[chunk+1] {
			return d.names[chunk]
		}
	}
	if sample%2 == 1 {
		return fmt.Sprintf("data/val-%d.jpg", sample)
	}
	return fmt.Sprintf("val/%d.jpg", sample)
}

func (d sharded) Keys(context.Context, int, func(uint64, []byte)) error {
	return errors.New("nobody has to read keys")
}

// TestSplitByShards checks that each sample belongs to the subset of its shard. Shards that match
// no pattern must be rejected.
func TestSplitByShards(t *testing.T) {
	d := sharded{testDataset(3, 9, 0, 4), []string{"data/train-0.tar", "data/val-0.tar", "data/train-1.tar"}}
	s, st := newStore(t)
	m, err := s.Split(t.Context(), d, mustRule(t, "train=train-*,val=data/val-*,rest=*", ""))
	if err != nil {
		t.Fatal(err)
	}
	if want := []uint64{3, 11, 2}; !slices.Equal(m.Counts, want) {
		t.Errorf("got %d samples, want %d", m.Counts, want)
	}
	if got, want := numbersOf(t, s, d.dataset, m.Digest, "rest"), []uint64{12, 14}; !slices.Equal(got, want) {
		t.Errorf("rest: got %d, want %d", got, want)
	}
	whole := readObject(t, st, "data/set/"+subsetDir+m.Digest)
	if rule := `{"salt":"","parts":[{"name":"train","match":"train-*"},{"name":"val","match":"data/val-*"},{"name":"rest","match":"*"}]}`; whole[8] != shardVersion || !bytes.Contains(whole, []byte(rule)) {
		t.Errorf("got version %d, want %d, with the rule %s", whole[8], shardVersion, rule)
	}
	// A header of version 1 with a rule by shards. No program writes this combination.
	sealed := seal(whole)
	if _, err := parseSplit(content{bytes.NewReader(sealed)}, int64(len(sealed)), "rest", d.Generation(), d.First()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("rule of another version: got %v, want %v", err, ErrCorrupt)
	}
	_, err = s.Split(t.Context(), d, mustRule(t, "train=train-*,val=val-*", ""))
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), `no pattern matches the shard "val/12.jpg": add rest=*`) {
		t.Errorf("a shard of no subset: got %v", err)
	}
	if _, err := s.Split(t.Context(), testDataset(3), mustRule(t, "train=*", "")); err == nil {
		t.Error("a dataset without shards: got no error")
	}
	if _, err := ParseRule("train=a-*,val=b-*", "salt"); !errors.Is(err, ErrInvalid) {
		t.Errorf("with a salt: got %v", err)
	}
}

// TestOpenSubset_LargerThanItsBuffers opens a split with more chunks and bytes than one read
// returns.
func TestOpenSubset_LargerThanItsBuffers(t *testing.T) {
	sizes := make([]int, 2*tableAtOnce+1)
	for i := range sizes {
		sizes[i] = 20 + i%20
	}
	d := testDataset(sizes...)
	var rule Rule
	for i := range maxParts {
		rule.Parts = append(rule.Parts, Part{Name: fmt.Sprint("p", i), Size: uint64(i + 1)})
	}
	s, st := newStore(t)
	quick := rememberedFirst{d, d.First()}
	m, err := s.Split(t.Context(), quick, rule)
	if err != nil {
		t.Fatal(err)
	}
	st.Reset()
	x, err := s.OpenSubset(t.Context(), m.Digest, "p63", d.Generation(), quick.first)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if got := len(st.Reads()); got != 3 {
		t.Errorf("got %d reads, want 3: the header, and the object in two parts", got)
	}
	if x.Samples() != m.Counts[63] {
		t.Errorf("got %d samples, want %d", x.Samples(), m.Counts[63])
	}
	sort := newSorter(rule)
	for chunk, keys := range d {
		want := make([]byte, bitmapSize(uint64(len(keys))))
		for i, key := range keys {
			if sort.part([]byte(key)) == 63 {
				want[i/8] |= 1 << (i % 8)
			}
		}
		if got, err := x.Bitmap(t.Context(), chunk); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("chunk %d: got %x, %v, want %x", chunk, got, err, want)
		}
	}
}

// rememberedFirst is a dataset of many chunks with cached prefix sums.
type rememberedFirst struct {
	dataset
	first []uint64
}

func (d rememberedFirst) First() []uint64 { return d.first }

func (d rememberedFirst) Keys(_ context.Context, chunk int, visit func(uint64, []byte)) error {
	for i, key := range d.dataset[chunk] {
		visit(d.first[chunk]+uint64(i), []byte(key))
	}
	return nil
}

// TestOpenSubset_FetchesNoSplitOfOtherData checks that only the header is read if the split belongs
// to another generation or dataset.
func TestOpenSubset_FetchesNoSplitOfOtherData(t *testing.T) {
	d := testDataset(10, 10)
	s, st := newStore(t)
	m, err := s.Split(t.Context(), d, mustRule(t, "a=1,b=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	for generation, first := range map[string][]uint64{strings.Repeat("22", 32): d.First(), d.Generation(): {0, 10, 21}} {
		st.Reset()
		if _, err := s.OpenSubset(t.Context(), m.Digest, "a", generation, first); err == nil {
			t.Error("a split of other data was opened")
		}
		if got := st.Reads(); len(got) != 1 || got[0].Length != splitHeader {
			t.Errorf("got the reads %+v, want that of the header", got)
		}
	}
}

// cancelling is a dataset that cancels the call when the first shard key is read.
type cancelling struct {
	sharded
	cancel func()
	asked  map[string]bool
}

func (d cancelling) ShardKey(sample uint64) string {
	d.cancel()
	shard := d.sharded.ShardKey(sample)
	d.asked[shard] = true
	return shard
}

func TestSplit_ByShardsIsCancelled(t *testing.T) {
	s, st := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	d := cancelling{sharded{testDataset(3, 9), []string{"a.tar", "b.tar"}}, cancel, map[string]bool{}}
	if _, err := s.Split(ctx, d, mustRule(t, "a=*", "")); !errors.Is(err, context.Canceled) || len(d.asked) != 1 || len(st.Keys()) > 0 {
		t.Errorf("got %v after the shards %v, and %q in the bucket, want %v after one shard", err, d.asked, st.Keys(), context.Canceled)
	}
}
