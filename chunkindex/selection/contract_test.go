package selection

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestNewCut_ReadsNoNamesOfEmptyChunks: the base contains no sample of the first chunk, so the
// cutter neither reads nor counts that chunk's names.
func TestNewCut_ReadsNoNamesOfEmptyChunks(t *testing.T) {
	d := testDataset(16, 9)
	base := some{bitmaps: [][]byte{make([]byte, 2), {0xff, 1}}}
	w, err := newCutter(failsAt{d, 0, 0, func() error { return errStore }}, d.First(), base, []Step{{Rule: mustRule(t, "a=1", ""), Name: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	for chunk, want := range []uint64{0, 9} {
		if _, n, err := w.chunk(t.Context(), chunk); err != nil || n != want || w.hashed != want {
			t.Errorf("chunk %d: got %d samples, %d names read, %v, want %d", chunk, n, w.hashed, err, want)
		}
	}
}

// TestBitmaps_HaveNoRoomToGrow checks that appending to a bitmap changes neither the next bitmap
// nor later results.
func TestBitmaps_HaveNoRoomToGrow(t *testing.T) {
	d := testDataset(9, 9)
	c, err := NewCut(t.Context(), d, d.First(), nil, []Step{{Places: []Places{{1, 10}}}})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := newStore(t)
	m, err := s.Split(t.Context(), d, mustRule(t, "a=1,b=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.OpenSubset(t.Context(), m.Digest, "a", d.Generation(), d.First())
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for name, of := range map[string]Base{"cut": c, "subset": x} {
		var before [2][]byte
		for i := range before {
			b, err := of.Bitmap(t.Context(), i)
			if err != nil || len(b) != cap(b) {
				t.Errorf("%s, chunk %d: got room for %d bytes, %v, want %d", name, i, cap(b), err, len(b))
			}
			before[i] = bytes.Clone(b)
			_ = append(b, 0xee, 0xee)
		}
		for i := range before {
			if b, err := of.Bitmap(t.Context(), i); err != nil || !bytes.Equal(b, before[i]) {
				t.Errorf("%s, chunk %d: got %x, %v, want %x", name, i, b, err, before[i])
			}
		}
	}
}

// TestErrors_NameCulpritAndCure compares complete error messages and their error classes.
func TestErrors_NameCulpritAndCure(t *testing.T) {
	d, other := testDataset(10, 10), strings.Repeat("22", 32)
	s, st := newStore(t)
	rule := mustRule(t, "train=9,val=1", "")
	m, err := s.Split(t.Context(), d, rule)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := New(Config{Reader: st, Prefix: home})
	if err != nil {
		t.Fatal(err)
	}
	cut := func(first []uint64, rule Rule, name string) error {
		_, err := NewCut(t.Context(), d, first, nil, []Step{{Rule: rule, Name: name}})
		return err
	}
	open := func(name, generation string) error {
		x, err := s.OpenSubset(t.Context(), m.Digest, name, generation, d.First())
		if err == nil {
			x.Close()
		}
		return err
	}
	last := func(_ any, err error) error { return err }
	_, _, unwritten := reader.Quarantine(t.Context(), testQuarantine())
	short := m.Digest[:12]
	for _, c := range []struct {
		err, kind error
		want      string
	}{
		{cut(d.First(), rule, "test"), ErrNoSubset, "cut: no subset has the name test: the split is train=9,val=1"},
		{cut(d.First(), mustRule(t, "a=a-*", ""), "a"), ErrInvalid, "cut: invalid: a split by patterns of shards cannot be written in a request: store the split with millrace subset"},
		{cut([]uint64{0, MostHashed + 1}, rule, "val"), ErrInvalid, "cut: chunk 0: invalid: the split requires hashing the names of more than 67108864 samples: store it with millrace subset"},
		{open("test", d.Generation()), ErrNoSubset, "subset " + short + ":test: no subset has the name test: the split is train=9,val=1"},
		{open("val", other), ErrGeneration, "subset " + short + ":val: it belongs to another generation of the dataset: the subset belongs to generation 111111111111"},
		{last(reader.Split(t.Context(), d, rule)), ErrReadOnly, "split train=9,val=1: the bucket is read-only: the store was opened for reading only"},
		{unwritten, ErrReadOnly, "quarantine 3 samples: the bucket is read-only: the store was opened for reading only"},
		{last(s.OpenQuarantine(t.Context(), "short")), ErrNotFound, "quarantine short: no such object"},
		{last(testQuarantine().Numbers(t.Context(), grown{other, []string{"fails"}})), errLookup, `find bad sample "a/3" of generation 111111111111: no look-up`},
		{last(testQuarantine().Numbers(t.Context(), grown{d.Generation(), nil})), ErrCorrupt, "corrupt: it is for a dataset of 43 samples, but the dataset has 0"},
	} {
		if !errors.Is(c.err, c.kind) || c.err.Error() != c.want {
			t.Errorf("got %v, want %s", c.err, c.want)
		}
	}
	for prefix, err := range map[string]error{
		"default split of generation 222222222222: the generation has no split: ": last(s.Default(t.Context(), other)),
		"quarantine 222222222222: no such object: ":                               last(s.OpenQuarantine(t.Context(), other)),
	} {
		if !errors.Is(err, objstore.ErrNotFound) || !strings.HasPrefix(err.Error(), prefix) {
			t.Errorf("got %v, want %q and the error of the store", err, prefix)
		}
	}
}

// TestStore_ReturnsNothingWithAnError checks that failed calls return no other results.
func TestStore_ReturnsNothingWithAnError(t *testing.T) {
	s, st := newStore(t)
	st.SetFault(func(c memstore.Call) memstore.Fault { return memstore.Fault{Err: errStore} })
	if digest, created, err := s.Quarantine(t.Context(), testQuarantine()); digest != "" || created || !errors.Is(err, errStore) {
		t.Errorf("quarantine: got %q, %t, %v", digest, created, err)
	}
	if m, err := s.Split(t.Context(), testDataset(9), mustRule(t, "a=1", "")); m.Digest != "" || m.New || m.Counts != nil || !errors.Is(err, errStore) {
		t.Errorf("split: got %+v, %v", m, err)
	}
	if digest, err := s.Default(t.Context(), testGeneration()); digest != "" || !errors.Is(err, errStore) {
		t.Errorf("default: got %q, %v", digest, err)
	}
	st.SetFault(func(c memstore.Call) memstore.Fault { return memstore.Fault{Err: objstore.ErrDenied} })
	for name, err := range map[string]error{
		"default":         func() error { _, err := s.Default(t.Context(), testGeneration()); return err }(),
		"open quarantine": func() error { _, err := s.OpenQuarantine(t.Context(), testGeneration()); return err }(),
		"list":            func() error { _, err := s.Stored(t.Context()); return err }(),
	} {
		if !errors.Is(err, objstore.ErrDenied) || errors.Is(err, ErrReadOnly) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrNoDefault) {
			t.Errorf("%s: got %v, want that reading is denied", name, err)
		}
	}
}

// TestStore_RefusesObjectsThatChangeMeanwhile stores an object again before each read of it.
func TestStore_RefusesObjectsThatChangeMeanwhile(t *testing.T) {
	d := testDataset(10, 10)
	rule := mustRule(t, "train=9,val=1", "")
	reads := map[string]int{"open subset": 2, "open quarantine": 1, "default": 1, "list": 6, "open costs": 3}
	for name, operation := range operations(t, d, rule) {
		for nth := range reads[name] {
			s, st := newStore(t)
			m, err := s.Split(t.Context(), d, rule)
			if err != nil {
				t.Fatal(err)
			}
			digest, _, err := s.Quarantine(t.Context(), testQuarantine())
			if err != nil {
				t.Fatal(err)
			}
			storeCosts(t, s, d)
			n := 0
			st.SetFault(func(c memstore.Call) (f memstore.Fault) {
				if c.Op == memstore.Read && n == nth {
					f.Before = func() { st.Set(c.Key, []byte(strings.Repeat(" ", 1<<10))) }
				}
				if c.Op == memstore.Read {
					n++
				}
				return f
			})
			err = operation(t.Context(), s, [2]string{m.Digest, digest})
			if listed := name == "list" && nth < 2; !listed && !errors.Is(err, objstore.ErrChanged) || listed && err == nil {
				t.Errorf("%s: object changed before read %d: got %v, want %v", name, nth, err, objstore.ErrChanged)
			}
		}
	}
}

// TestStored_DescribesObjectsAsTheBucketDoes checks that keys, sizes and versions equal those in
// the bucket, and that names of other objects are ignored.
func TestStored_DescribesObjectsAsTheBucketDoes(t *testing.T) {
	s, st := newStore(t)
	d := testDataset(10)
	m, err := s.Split(t.Context(), d, mustRule(t, "train=9,val=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	whole := readObject(t, st, home+subsetDir+m.Digest)
	bare := named(st, subsetDir, whole[:splitHeader+int(binary.LittleEndian.Uint32(whole[64:]))]) // only the header and the rule
	digest, _, err := s.Quarantine(t.Context(), testQuarantine())
	if err != nil {
		t.Fatal(err)
	}
	costs := storeCosts(t, s, d)
	want := map[string]objstore.Object{}
	for _, key := range st.Keys() {
		if want[key], err = st.Stat(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	upper := strings.Repeat("AB", 32)
	for _, key := range []string{quarantineDir + "default-" + d.Generation(), quarantineDir + upper, subsetDir + upper, defaultPrefix + upper, subsetDir + "x/" + digest,
		costNames + d.Generation(), costNames + d.Generation() + "-" + digest, costNames + upper + "-a", costDir + "default-" + d.Generation()} {
		st.Set(home+key, []byte("x"))
	}
	st.Set("data/other/"+subsetDir+m.Digest, whole)
	all, err := s.Stored(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]objstore.Object{}
	for _, x := range all.Splits {
		got[x.Key] = x.Object
		if x.Fault != nil || x.Default != (x.Digest == m.Digest) || x.Digest != m.Digest && x.Digest != bare {
			t.Errorf("got the split %+v", x)
		}
	}
	for _, x := range all.Quarantines {
		got[x.Key] = x.Object
		if x.Digest != digest {
			t.Errorf("got the quarantine %s, want %s", x.Digest, digest)
		}
	}
	for _, x := range all.Defaults {
		got[x.Key] = x.Object
	}
	for _, x := range all.Costs {
		got[x.Key] = x.Object
		if x.Digest != costs || x.Generation != d.Generation() || x.Samples != 10 || !slices.Equal(x.Names, []string{"tokens"}) {
			t.Errorf("got the cost table %+v", x)
		}
	}
	for _, x := range all.CostNames {
		got[x.Key] = x.Object
		if x.Generation != d.Generation() || x.Name != "tokens" {
			t.Errorf("got the name %+v", x)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

// TestStored_MarksNoDefaultThatCannotBeRead damages the object that names the default split.
func TestStored_MarksNoDefaultThatCannotBeRead(t *testing.T) {
	s, st := newStore(t)
	m, err := s.Split(t.Context(), testDataset(10), mustRule(t, "a=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	st.Set(home+defaultPrefix+testGeneration(), []byte(`{"version":2,"subset":"`+m.Digest+`"}`))
	all, err := s.Stored(t.Context())
	if err != nil || len(all.Defaults) != 1 || len(all.Splits) != 1 || all.Splits[0].Default || all.Splits[0].Fault != nil {
		t.Errorf("got %+v, %v, want a split that is not known to be the default one", all, err)
	}
}

// TestQuarantine_WithoutTexts checks that samples without keys and reasons can be decoded again.
// The last bytes of such a list are lengths.
func TestQuarantine_WithoutTexts(t *testing.T) {
	s, _ := newStore(t)
	want := Quarantine{testGeneration(), maxSamples, []Bad{{Number: 0}, {Number: maxSamples - 1}}}
	digest, _, err := s.Quarantine(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.OpenQuarantine(t.Context(), digest); err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	whole, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	none := whole[:quarantineHeader]
	binary.LittleEndian.PutUint32(none[48:], 0)
	none = binary.LittleEndian.AppendUint32(none, crc32.Checksum(none, castagnoli()))
	if _, err := decodeQuarantine(none); !errors.Is(err, ErrCorrupt) || !strings.HasSuffix(err.Error(), "0 bad samples: must be from 1 to 65536") {
		t.Errorf("a list of no samples: got %v", err)
	}
}

func TestReadNamed_RefusesLinesWithoutBound(t *testing.T) {
	longest := strings.Repeat("k", bufio.MaxScanTokenSize-1)
	if got, err := ReadNamed(strings.NewReader(longest+"\nb"), "bad"); err != nil || !slices.Equal(got, []NamedSample{{longest, "bad", ""}, {"b", "bad", ""}}) {
		t.Errorf("got %d samples, %v, want 2", len(got), err)
	}
	if _, err := ReadNamed(strings.NewReader("a\n"+longest+"kk\n"), ""); !errors.Is(err, bufio.ErrTooLong) {
		t.Errorf("got %v, want %v", err, bufio.ErrTooLong)
	}
}

func TestShortReason_CutsWhatAQuarantineRefuses(t *testing.T) {
	for reason, want := range map[string]string{
		"":                                "",
		"é":                               "é",
		"a\xff\xfeb":                      "a?b",
		strings.Repeat("r", maxReason):    strings.Repeat("r", maxReason),
		strings.Repeat("r", 2*maxReason):  strings.Repeat("r", maxReason),
		strings.Repeat("é", maxReason):    strings.Repeat("é", maxReason/2),
		"r" + strings.Repeat("é", 2*1024): "r" + strings.Repeat("é", 127) + "?",
	} {
		got := ShortReason(reason)
		if got != want {
			t.Errorf("%.20q: got %q, want %q", reason, got, want)
		}
		if err := (Quarantine{Samples: 2, Bad: []Bad{{Number: 1, Reason: got}}}).check(); err != nil {
			t.Errorf("%.20q: %v", reason, err)
		}
	}
}

// TestOpenSubset_IsCancelledBetweenReads cancels the context after the header has been read.
func TestOpenSubset_IsCancelledBetweenReads(t *testing.T) {
	d := testDataset(10)
	s, st := newStore(t)
	m, err := s.Split(t.Context(), d, mustRule(t, "a=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	st.SetFault(func(c memstore.Call) (f memstore.Fault) {
		if c.Op == memstore.Read {
			f.Before = cancel
		}
		return f
	})
	if _, err := s.OpenSubset(ctx, m.Digest, "a", d.Generation(), d.First()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
