package selection

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/fulldisk"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

var errStore = errors.New("the store fails")

const home = "data/set/"

// named stores bytes in a directory under their digest, and returns the digest.
func named(st *memstore.Store, dir string, b []byte) string {
	sum := sha256.Sum256(b)
	digest := hex.EncodeToString(sum[:])
	st.Set(home+dir+digest, b)
	return digest
}

// operations returns the operations of a Store. Each receives the digests of a stored split and of
// a stored quarantine.
func operations(t *testing.T, d dataset, rule Rule) map[string]func(ctx context.Context, s *Store, digests [2]string) error {
	return map[string]func(context.Context, *Store, [2]string) error{
		"split": func(ctx context.Context, s *Store, _ [2]string) error { _, err := s.Split(ctx, d, rule); return err },
		"other split": func(ctx context.Context, s *Store, _ [2]string) error {
			_, err := s.Split(ctx, d, mustRule(t, "a=1", ""))
			return err
		},
		"split of another generation": func(ctx context.Context, s *Store, _ [2]string) error {
			m, err := s.Split(ctx, generated{d, strings.Repeat("22", 32)}, rule)
			if err == nil && m.Default != m.Digest {
				err = fmt.Errorf("got the default split %s, want %s", m.Default, m.Digest)
			}
			return err
		},
		"quarantine": func(ctx context.Context, s *Store, _ [2]string) error {
			_, _, err := s.Quarantine(ctx, testQuarantine())
			return err
		},
		"default": func(ctx context.Context, s *Store, _ [2]string) error {
			_, err := s.Default(ctx, d.Generation())
			return err
		},
		"open quarantine": func(ctx context.Context, s *Store, digests [2]string) error {
			_, err := s.OpenQuarantine(ctx, digests[1])
			return err
		},
		"open subset": func(ctx context.Context, s *Store, digests [2]string) error {
			x, err := s.OpenSubset(ctx, digests[0], "val", d.Generation(), d.First())
			if err == nil {
				x.Close()
			}
			return err
		},
		"list": func(ctx context.Context, s *Store, _ [2]string) error {
			all, err := s.Stored(ctx)
			if err != nil || ctx.Err() != nil {
				return err
			}
			for _, x := range all.Splits {
				if x.Fault == nil && !x.Default { // the object that names the default split could not be read
					err = errStore
				}
				err = errors.Join(err, x.Fault)
			}
			for _, x := range all.Quarantines {
				err = errors.Join(err, x.Fault)
			}
			for _, x := range all.Costs {
				if x.Fault == nil && len(x.Names) == 0 {
					err = errStore
				}
				err = errors.Join(err, x.Fault)
			}
			return err
		},
		"costs": func(ctx context.Context, s *Store, _ [2]string) error {
			digest, _, err := s.WriteCosts(ctx, d.Generation(), 20, pieces(testCosts(20), 7))
			if err != nil {
				return err
			}
			return s.NameCosts(ctx, d.Generation(), "tokens", digest)
		},
		"open costs": func(ctx context.Context, s *Store, _ [2]string) error {
			digest, err := s.CostsNamed(ctx, d.Generation(), "tokens")
			if err != nil {
				return err
			}
			c, err := s.OpenCosts(ctx, digest, d.Generation(), d.First())
			if err == nil {
				c.Close()
			}
			return err
		},
	}
}

// TestStore_ReturnsErrorsOfEveryRequest lets each request to the store fail or be canceled. The
// operation must fail with that error. A repetition must succeed with the same objects. The fixture
// checks that no file stays open.
func TestStore_ReturnsErrorsOfEveryRequest(t *testing.T) {
	d := testDataset(10, 10)
	rule := mustRule(t, "train=9,val=1", "")
	for name, operation := range operations(t, d, rule) {
		for _, fault := range []error{errStore, context.Canceled} {
			var left []string // objects in the bucket
			for fails, struck := 0, true; struck; fails++ {
				s, st := newStore(t)
				var digests [2]string
				m, err := s.Split(t.Context(), d, rule)
				if err != nil {
					t.Fatal(err)
				}
				if digests[0] = m.Digest; name != "quarantine" {
					if digests[1], _, err = s.Quarantine(t.Context(), testQuarantine()); err != nil {
						t.Fatal(err)
					}
				}
				if name != "costs" {
					storeCosts(t, s, d)
				}
				ctx, cancel := context.WithCancel(t.Context())
				calls := 0
				struck = false
				st.SetFault(func(memstore.Call) memstore.Fault {
					if calls++; calls-1 != fails {
						return memstore.Fault{}
					}
					if struck = true; errors.Is(fault, context.Canceled) {
						cancel()
					}
					return memstore.Fault{Err: fault}
				})
				if err := operation(ctx, s, digests); errors.Is(err, fault) != struck || !struck && err != nil {
					t.Errorf("%s, request %d fails (%t) with %v: got %v", name, fails, struck, fault, err)
				}
				cancel()
				st.SetFault(nil)
				if err := operation(t.Context(), s, digests); err != nil {
					t.Errorf("%s, again after request %d failed with %v: got %v", name, fails, fault, err)
				}
				if left == nil {
					left = st.Keys()
				}
				if got := st.Keys(); !slices.Equal(got, left) {
					t.Errorf("%s, again after request %d failed with %v: got %q in the bucket, want %q", name, fails, fault, got, left)
				}
			}
		}
	}
}

// TestPut_RejectsExistingObjects checks that an existing object must have the same size, and that
// denied writes return ErrReadOnly.
func TestPut_RejectsExistingObjects(t *testing.T) {
	d := testDataset(10, 10)
	s, st := newStore(t)
	m, err := s.Split(t.Context(), d, mustRule(t, "train=9,val=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	digest, _, err := s.Quarantine(t.Context(), testQuarantine())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{home + subsetDir + m.Digest, home + quarantineDir + digest} {
		whole := readObject(t, st, key)
		for _, b := range [][]byte{whole[:len(whole)-1], append(bytes.Clone(whole), 0)} {
			st.Set(key, b)
			_, err := s.Split(t.Context(), d, mustRule(t, "train=9,val=1", ""))
			if strings.Contains(key, quarantineDir) {
				_, _, err = s.Quarantine(t.Context(), testQuarantine())
			}
			want := fmt.Sprintf("%s has %d bytes instead of %d: remove the object, and try again", strings.TrimPrefix(key, home), len(b), len(whole))
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		st.Set(key, whole)
	}
	st.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op == memstore.Put {
			return memstore.Fault{Err: objstore.ErrDenied}
		}
		return memstore.Fault{}
	})
	if _, err := s.Split(t.Context(), d, mustRule(t, "a=1", "")); !errors.Is(err, ErrReadOnly) || !errors.Is(err, objstore.ErrDenied) {
		t.Errorf("without the right to write: got %v, want %v", err, ErrReadOnly)
	}
}

// TestRead_BoundsTheSizeOfObjects checks that the size of an object is checked before it is read,
// so that a bucket cannot make a reader allocate memory.
func TestRead_BoundsTheSizeOfObjects(t *testing.T) {
	s, st := newStore(t)
	reads := 0
	st.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op == memstore.Read {
			reads++
		}
		return memstore.Fault{}
	})
	for size, want := range map[int]string{
		0:                 "corrupt: it has 0 bytes: must be from 1 to 4194304",
		maxQuarantine:     "corrupt: not a quarantine",
		maxQuarantine + 1: "corrupt: it has 4194305 bytes: must be from 1 to 4194304",
	} {
		reads = 0
		digest := named(st, quarantineDir, make([]byte, size))
		_, err := s.OpenQuarantine(t.Context(), digest)
		if !errors.Is(err, ErrCorrupt) || err.Error() != "quarantine "+digest[:12]+": "+want || (reads > 0) != (size == maxQuarantine) {
			t.Errorf("%d bytes: got %v and %d reads, want %q", size, err, reads, want)
		}
	}
	st.Set(home+quarantineDir+strings.Repeat("ab", 32), []byte("x"))
	if _, err := s.OpenQuarantine(t.Context(), strings.Repeat("ab", 32)); !errors.Is(err, ErrCorrupt) || !strings.HasSuffix(err.Error(), "its bytes do not match its digest") {
		t.Errorf("other bytes: got %v, want %v", err, ErrCorrupt)
	}
	split := strings.Repeat("cd", 32)
	right := fmt.Sprintf(`{"version":1,"subset":%q}`, split)
	for text, want := range map[string]error{
		right: nil,
		right + strings.Repeat(" ", maxName-len(right)):   nil,
		right + strings.Repeat(" ", maxName+1-len(right)): ErrCorrupt,
		"":                                  ErrCorrupt,
		"{":                                 ErrCorrupt,
		strings.Replace(right, "1", "2", 1): ErrVersion,
		`{"version":1,"subset":"cd"}`:       ErrCorrupt,
		`{"version":1,"subset":"` + strings.Repeat("CD", 32) + `"}`: ErrCorrupt,
	} {
		st.Set(home+defaultPrefix+testGeneration(), []byte(text))
		if got, err := s.Default(t.Context(), testGeneration()); !errors.Is(err, want) || err == nil && got != split {
			t.Errorf("%.80q: got %s, %v, want %v", text, got, err, want)
		}
	}
}

func TestNew_Refuses(t *testing.T) {
	for want, cfg := range map[string]Config{
		"selection: no store":                              {},
		`selection: prefix "data" does not end in a slash`: {Reader: memstore.New(), Prefix: "data"},
	} {
		if _, err := New(cfg); err == nil || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := New(Config{Reader: memstore.New()}); err != nil {
		t.Errorf("without a prefix: %v", err)
	}
}

// TestSplit_WritesInItsDirectory checks that temporary files are created in the configured
// directory, and that the directory is created if necessary.
func TestSplit_WritesInItsDirectory(t *testing.T) {
	_, st := newStore(t)
	dir := filepath.Join(t.TempDir(), "a", "b")
	d, digest := testDataset(5), ""
	for _, c := range []struct {
		dir  string
		good bool
	}{{dir, true}, {filepath.Join(dir, "file", "c"), false}} {
		s, err := New(Config{Reader: st, Writer: st, Dir: c.dir})
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.Split(t.Context(), d, mustRule(t, "a=1", ""))
		if (err == nil) != c.good {
			t.Errorf("%s: got %v", c.dir, err)
		}
		digest = cmp.Or(m.Digest, digest)
		x, err := s.OpenSubset(t.Context(), digest, "a", d.Generation(), d.First())
		if (err == nil) != c.good {
			t.Errorf("%s: got %v", c.dir, err)
		}
		if err == nil {
			x.Close()
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStore_FullDisk checks that a full disk returns an error and that nothing is stored.
func TestStore_FullDisk(t *testing.T) {
	d := testDataset(500)
	s, st := newStore(t)
	m, err := s.Split(t.Context(), d, mustRule(t, "a=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	before := st.Keys()
	free := fulldisk.At(t, 100)
	if _, err := s.Split(t.Context(), d, mustRule(t, "a=2,b=1", "")); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("split: got %v, want %v", err, syscall.EFBIG)
	}
	if _, err := s.OpenSubset(t.Context(), m.Digest, "a", d.Generation(), d.First()); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("open: got %v, want %v", err, syscall.EFBIG)
	}
	if _, _, err := s.WriteCosts(t.Context(), d.Generation(), 500, pieces(testCosts(500), 9)); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("costs: got %v, want %v", err, syscall.EFBIG)
	}
	free()
	if got := st.Keys(); !slices.Equal(got, before) {
		t.Errorf("got %q in the bucket, want %q", got, before)
	}
	digest := named(st, subsetDir, make([]byte, splitHeader-1))
	if _, err := s.OpenSubset(t.Context(), digest, "a", d.Generation(), d.First()); !errors.Is(err, ErrCorrupt) || !strings.HasSuffix(err.Error(), "invalid size of a split: 83 bytes") {
		t.Errorf("an object smaller than a header: got %v, want %v", err, ErrCorrupt)
	}
}

// wrongKeyCount is a dataset with more keys than samples.
type wrongKeyCount struct {
	dataset
	more int
	err  error
}

func (d wrongKeyCount) Keys(ctx context.Context, chunk int, visit func(uint64, []byte)) error {
	keys := d.dataset[chunk]
	for i := range len(keys) + d.more {
		visit(uint64(i), []byte("k"))
	}
	return d.err
}

func TestSplit_Refuses(t *testing.T) {
	s, st := newStore(t)
	rule := mustRule(t, "a=1", "")
	for _, c := range []struct {
		d    Dataset
		rule Rule
		want string
	}{
		{wrongKeyCount{testDataset(8), -1, nil}, rule, "split a=1: keys of chunk 0: got 7 keys for 8 samples"},
		{wrongKeyCount{testDataset(8), 0, errStore}, rule, "split a=1: keys of chunk 0: the store fails"},
		{testDataset(8), Rule{}, "split : invalid: 0 subsets: must be from 1 to 64"},
		{testDataset(8), mustRule(t, "a=a-*", ""), "split a=a-*: keys of chunk 0: the dataset does not provide the shards of its samples"},
		{grownDataset{testDataset(8)}, rule, `split a=1: generation "22" is not a digest`},
	} {
		if _, err := s.Split(t.Context(), c.d, c.rule); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if keys := st.Keys(); len(keys) > 0 {
		t.Errorf("got %q in the bucket, want nothing", keys)
	}
}

// TestStore_RefusesDatasetsWithTooManyKeys: a chunk of eight samples has more keys than its bitmap
// has bits.
func TestStore_RefusesDatasetsWithTooManyKeys(t *testing.T) {
	s, st := newStore(t)
	for more := 1; more <= 9; more++ {
		d := wrongKeyCount{testDataset(8), more, nil}
		want := fmt.Sprintf("split a=1: keys of chunk 0: got %d keys for 8 samples", 8+more)
		if _, err := s.Split(t.Context(), d, mustRule(t, "a=1", "")); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		_, err := NewCut(t.Context(), d, d.First(), nil, []Step{{Rule: mustRule(t, "a=1,b=1", ""), Name: "b"}})
		if want := "cut: chunk 0: the chunk has different numbers of keys and samples"; err == nil || err.Error() != want {
			t.Errorf("%d keys more: got %v, want %s", more, err, want)
		}
	}
	if keys := st.Keys(); len(keys) > 0 {
		t.Errorf("got %q in the bucket, want nothing", keys)
	}
}

// grownDataset is a dataset with an invalid generation.
type grownDataset struct{ dataset }

func (grownDataset) Generation() string { return "22" }

// changedSplit returns a copy of a split that has another number at one offset and recomputed
// checksums.
func changedSplit(whole []byte, at int, bits int, v uint64) []byte {
	b := bytes.Clone(whole)
	switch bits {
	case 32:
		binary.LittleEndian.PutUint32(b[at:], uint32(v))
	case 64:
		binary.LittleEndian.PutUint64(b[at:], v)
	}
	binary.LittleEndian.PutUint32(b[splitHeader-4:], crc32.Checksum(b[:splitHeader-4], castagnoli()))
	return b
}

func TestParseSplit_Refuses(t *testing.T) {
	d := testDataset(10, 10)
	s, st := newStore(t)
	m, err := s.Split(t.Context(), d, mustRule(t, "train=9,val=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	whole := readObject(t, st, home+subsetDir+m.Digest)
	rule := int(binary.LittleEndian.Uint32(whole[64:]))
	withRule := func(text string) []byte { // replaces the rule by one of the same length
		b := bytes.Clone(whole)
		copy(b[splitHeader:splitHeader+rule], text+strings.Repeat(" ", rule))
		binary.LittleEndian.PutUint32(b[68:], crc32.Checksum(b[splitHeader:splitHeader+rule], castagnoli()))
		return changedSplit(b, 0, 0, 0)
	}
	table := splitHeader + rule
	badTable := bytes.Clone(whole)
	badTable[table+8] ^= 1 // changes the checksum of a block
	badMagic := bytes.Clone(whole)
	badMagic[0] ^= 1
	badHead := bytes.Clone(whole)
	badHead[16] ^= 1
	for _, c := range []struct {
		b    []byte
		kind error
		want string
	}{
		{nil, ErrCorrupt, "invalid size of a split: 0 bytes"},
		{whole[:splitHeader-1], ErrCorrupt, "invalid size of a split: 83 bytes"},
		{badMagic, ErrCorrupt, "not a split"},
		{badHead, ErrCorrupt, "header: checksum is wrong"},
		{changedSplit(whole, 8, 32, 0), ErrVersion, "split of version 0"},
		{changedSplit(whole, 8, 32, 4), ErrVersion, "split of version 4"},
		{changedSplit(whole, 8, 32, 2), ErrCorrupt, "its rule is not valid for version 2"},
		{changedSplit(whole, 12, 32, 0), ErrCorrupt, "header: invalid numbers: 0 subsets"},
		{changedSplit(whole, 12, 32, maxParts+1), ErrCorrupt, "header: invalid numbers: 65 subsets"},
		{changedSplit(whole, 12, 32, maxParts), ErrCorrupt, "bytes instead of"},
		{changedSplit(whole, 64, 32, 0), ErrCorrupt, "header: invalid numbers: 2 subsets, rule of 0 bytes"},
		{changedSplit(whole, 64, 32, maxRule+1), ErrCorrupt, "header: invalid numbers: 2 subsets, rule of 16385 bytes"},
		{changedSplit(whole, 64, 32, maxRule), ErrCorrupt, "bytes instead of"},
		{changedSplit(whole, 76, 32, 1), ErrCorrupt, "header: invalid numbers: 2 subsets, rule of"},
		{changedSplit(whole, 48, 64, maxSamples+1), ErrCorrupt, "header: invalid numbers: 1099511627777 samples in 2 chunks"},
		{changedSplit(whole, 48, 64, maxSamples), ErrCorrupt, "1099511627776 samples in 2 chunks, but the dataset has 20 in 2"},
		{changedSplit(whole, 56, 64, maxChunks+1), ErrCorrupt, "header: invalid numbers: 20 samples in 33554433 chunks"},
		{changedSplit(whole, 56, 64, maxChunks), ErrCorrupt, "20 samples in 33554432 chunks, but the dataset has 20 in 2"},
		{append(bytes.Clone(whole), 0), ErrCorrupt, fmt.Sprintf("%d bytes instead of %d", len(whole)+1, len(whole))},
		{changedSplit(whole, 68, 32, 0), ErrCorrupt, "checksum of its rule is wrong"},
		{withRule("{"), ErrCorrupt, "its rule: "},
		{withRule(`{"salt":"","parts":[{"name":"train","part":9}]}`), ErrCorrupt, "its rule: not in its canonical form"},
		{withRule(`{"salt":"","parts":[{"name":"train","part":9},{"name":"val","part":0}]}`), ErrCorrupt, "its rule: invalid: subset"},
		{withRule(`{"salt":"","parts":[{"name":"a","part":9},{"name":"val","part":1}]}{}`), ErrCorrupt, "its rule: unexpected data after the JSON value"},
		{withRule(`{"salt":"","x":1}`), ErrCorrupt, "its rule: json: unknown field"},
		{changedSplit(whole, table, 32, 11), ErrCorrupt, "chunk 0 has"},
		{badTable, ErrCorrupt, "checksum of the table is wrong"},
	} {
		_, err := parseSplit(content{bytes.NewReader(c.b)}, int64(len(c.b)), "val", d.Generation(), d.First())
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) || c.kind != ErrCorrupt && errors.Is(err, ErrCorrupt) {
			t.Errorf("got %v, want %v: %q", err, c.kind, c.want)
		}
	}
	one := mustRule(t, "train=9", "")
	text, err := one.encode()
	if err != nil {
		t.Fatal(err)
	}
	one.Salt = strings.Repeat("s", rule-len(text))
	if text, err = one.encode(); err != nil {
		t.Fatal(err)
	}
	b := withRule(string(text))
	if _, err := parseSplit(content{bytes.NewReader(b)}, int64(len(b)), "val", d.Generation(), d.First()); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "its rule has 1 subsets instead of 2") {
		t.Errorf("a rule of one subset: got %v", err)
	}
}

// broken is a file whose reads fail from an offset on.
type broken struct {
	*bytes.Reader
	from int64
}

func (b broken) ReadAt(p []byte, off int64) (int, error) {
	if off >= b.from {
		return 0, errStore
	}
	return b.Reader.ReadAt(p, off)
}

func (broken) Close() error { return nil }

func TestSubset_ReturnsErrorsOfItsFile(t *testing.T) {
	d := testDataset(10, 10)
	s, st := newStore(t)
	m, err := s.Split(t.Context(), d, mustRule(t, "train=9,val=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	whole := readObject(t, st, home+subsetDir+m.Digest)
	rule := int64(binary.LittleEndian.Uint32(whole[64:]))
	for _, from := range []int64{0, splitHeader, splitHeader + rule} {
		if _, err := parseSplit(broken{bytes.NewReader(whole), from}, int64(len(whole)), "val", d.Generation(), d.First()); !errors.Is(err, errStore) {
			t.Errorf("unreadable from %d: got %v, want %v", from, err, errStore)
		}
	}
	x, err := parseSplit(broken{bytes.NewReader(whole), int64(len(whole)) - 4}, int64(len(whole)), "val", d.Generation(), d.First())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Bitmap(t.Context(), 0); err != nil {
		t.Errorf("chunk 0: %v", err)
	}
	if _, err := x.Bitmap(t.Context(), 1); !errors.Is(err, errStore) || !strings.HasPrefix(err.Error(), "subset val: chunk 1: ") {
		t.Errorf("chunk 1, which is unreadable: got %v", err)
	}
	for _, chunk := range []int{-1, 2} {
		if _, err := x.Bitmap(t.Context(), chunk); err == nil || !strings.Contains(err.Error(), "the dataset has 2 chunks") {
			t.Errorf("chunk %d: got %v", chunk, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Bitmap(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if got := x.Rule(); got.String() != "train=9,val=1" {
		t.Errorf("rule: got %s", got)
	}
	if got := SubsetBytes(1000); got != 8<<10+20_000 {
		t.Errorf("got %d bytes of a subset of 1000 chunks", got)
	}
}

func TestCheckBitmap(t *testing.T) {
	for _, c := range []struct {
		b          []byte
		n, members uint64
		want       string
	}{
		{[]byte{0xff, 0x01}, 9, 9, ""},
		{[]byte{0xff, 0x03}, 9, 10, "corrupt: a chunk has bits beyond its last sample"},
		{[]byte{0xff, 0x01}, 9, 8, "corrupt: a chunk has 9 members instead of 8"},
		{[]byte{0xff}, 8, 8, ""},
	} {
		err := checkBitmap(c.b, c.n, c.members)
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && got != c.want {
			t.Errorf("%x: got %v, want %q", c.b, err, c.want)
		}
	}
}
