package chunkindex

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/leaks"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shards"
)

// linesStore returns a store with two shards of many lines and their index. A rule derives all
// sample names.
func linesStore(t testing.TB, lines int) (*memstore.Store, IndexReport) {
	t.Helper()
	store := memstore.New()
	shards.Lines(store, lines)
	rep, err := IndexShards(t.Context(), store, "", IndexOptions{ChunkSize: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return store, rep
}

// openInPart opens an index. Only the resident sections are local.
func openInPart(t testing.TB, store *memstore.Store, generation string) *Index {
	t.Helper()
	leaks.Check(t)
	s := indexSource{store: store, generation: generation}
	x, err := s.download(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// TestIndex_ResidentCountsPresentPages checks that, after a full read, the index uses the number of
// bytes that Resident reports, to within one page.
func TestIndex_ResidentCountsPresentPages(t *testing.T) {
	for _, lines := range []int{10, 60_000} {
		store, rep := linesStore(t, lines)
		x := openInPart(t, store, rep.Generation)
		p := x.segments[0].pages
		for n := range p.proved {
			if _, err := p.page(t.Context(), int64(n), p.end); err != nil {
				t.Fatal(err)
			}
		}
		holds := len(p.digests) + len(p.proved)
		for _, r := range p.recent.pages {
			holds += len(r.b)
		}
		holds += segmentMemory
		if got := x.pageMemory(); got < holds || got >= holds+2*layout.ProofSize {
			t.Errorf("%d lines: %d bytes are reserved and %d held", lines, got, holds)
		}
		t.Logf("%d lines: %d pages, %d bytes reserved", lines, len(p.proved), x.pageMemory())
	}
}

// A partial index returns the same data as a complete index, and fetches almost no byte twice.
func TestIndex_PartialCopyReadsTheSame(t *testing.T) {
	store, rep := linesStore(t, 30000)
	whole, err := Open(t.Context(), store, "", OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	var fetched int64
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op == memstore.Read {
			fetched += c.Length
		}
		return memstore.Fault{}
	})
	x := openInPart(t, store, rep.Generation)
	if want := whole.segments[0].Ref.Resident + int64(len(whole.root)) + layout.HeaderSize + layout.ProofSize; fetched > want || fetched > whole.Size()/5 {
		t.Errorf("got %d bytes fetched to open an index of %d, want %d", fetched, whole.Size(), want)
	}
	if _, err := x.Table(t.Context(), 17); err != nil || fetched > whole.Size()/3 {
		t.Errorf("got %v after %d bytes", err, fetched)
	}
	for range 2 {
		sameIndex(t, x, whole)
	}
	if most := whole.Size() * 11 / 10; fetched > most {
		t.Errorf("got %d bytes fetched of an index of %d", fetched, whole.Size())
	}
}

func sameIndex(t *testing.T, x, whole *Index) {
	t.Helper()
	ctx := t.Context()
	for c := range whole.Chunks() {
		got, err := x.Table(ctx, c)
		want, _ := whole.Table(ctx, c)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("table of chunk %d: %v", c, err)
		}
		parts, err := x.Parts(ctx, c)
		wanted, _ := whole.Parts(ctx, c)
		if err != nil || !reflect.DeepEqual(parts, wanted) {
			t.Fatalf("parts of chunk %d: %v", c, err)
		}
	}
	b, err := io.ReadAll(io.NewSectionReader(x, 0, x.Size()))
	want, _ := io.ReadAll(io.NewSectionReader(whole, 0, whole.Size()))
	if err != nil || string(b) != string(want) {
		t.Errorf("as it is stored: got other bytes, %v", err)
	}
}

// TestPages_RejectsDamage checks that damage in the stored index returns an error that names the
// index, and never wrong bytes. Damage in the local file is repaired from the store.
func TestPages_RejectsDamage(t *testing.T) {
	store, rep := linesStore(t, 30000)
	x := openInPart(t, store, rep.Generation)
	s := x.segments[0]
	key := layout.SegmentObject("", s.Ref.Name())
	stored, _ := store.Bytes(key)
	at, chunk := s.head.Sections[layout.SecTables].End()-5, x.Chunks()-1
	want, err := x.Table(t.Context(), chunk)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.file.WriteAt([]byte("damage"), s.pages.base+at); err != nil {
		t.Fatal(err)
	}
	clear(s.pages.recent.pages[:])
	if got, err := x.Table(t.Context(), chunk); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("damaged in the local file: got %v", err)
	}
	bad := []byte(string(stored))
	bad[at] ^= 1
	store.Set(key, bad)
	y := openInPart(t, store, rep.Generation)
	if _, err := y.Table(t.Context(), chunk); !errors.Is(err, errPage) || !strings.Contains(err.Error(), rep.Generation[:12]) {
		t.Errorf("damaged in the store: got %v", err)
	}
	store.Set(key, stored)
	store.SetFault(func(c memstore.Call) memstore.Fault { return memstore.Fault{Err: objstore.ErrUnavailable} })
	if _, err := y.Table(t.Context(), chunk); !errors.Is(err, objstore.ErrUnavailable) {
		t.Errorf("without the store: got %v", err)
	}
	store.SetFault(nil)
	if _, err := y.Table(t.Context(), chunk); err != nil {
		t.Errorf("afterwards: got %v", err)
	}
}

// TestLookup_NumberedKeys checks that lookups compute derived names without hash pages.
func TestLookup_NumberedKeys(t *testing.T) {
	store, rep := linesStore(t, 2000)
	x := openInPart(t, store, rep.Generation)
	if n := x.segments[0].head.Sections[layout.SecHash].Length + x.segments[0].head.Sections[layout.SecNames].Length; n != 0 {
		t.Errorf("got %d bytes of names and hashes, want none", n)
	}
	for key, want := range map[string]int64{
		"c-0/000000000": 0, "c-0/000001999": 1999, "c-1/000000000": 2000, "c-1/000001999": 3999,
		"c-0/000002000": -1, "c-0/1": -1, "c-0/0000000001": -1, "c-2/000000000": -1, "c/000000000": -1, "c-0": -1, "": -1, "/": -1, "c-0/-00000001": -1,
		"c-0/99999999999999999999": -1, "c-0/18446744073709551615": -1,
	} {
		got, ok, err := x.Lookup(context.Background(), key, "")
		if err != nil || ok != (want >= 0) || ok && got != uint64(want) {
			t.Errorf("%q: got %d, %v, %v, want %d", key, got, ok, err, want)
		}
		if ok {
			if back, err := x.Key(t.Context(), got); err != nil || back != key {
				t.Errorf("%q: its sample has the key %q, %v", key, back, err)
			}
		}
	}
	if got, ok, err := x.Lookup(t.Context(), "c-1/000000003", "c-0.jsonl"); ok || err != nil {
		t.Errorf("in another shard: got %d, %v, %v", got, ok, err)
	}
	// Two shards have the same stem.
	other := memstore.New()
	for _, key := range []string{"c-0.jsonl", "c-0.ndjson", "c-1.jsonl"} {
		b, _ := store.Bytes(strings.Replace(key, "ndjson", "jsonl", 1))
		other.Set(key, b[:len(b)/2+strings.IndexByte(string(b[len(b)/2:]), '\n')+1])
	}
	rep, err := IndexShards(t.Context(), other, "", IndexOptions{})
	if err != nil || rep.RepeatedKeys == 0 || rep.RepeatedKeys > 2000 || rep.RepeatedKey != "c-0/000000000" {
		t.Fatalf("got %+v, %v, want keys that two shards have", rep, err)
	}
	y := openInPart(t, other, rep.Generation)
	var twice *AmbiguousKeyError
	if _, _, err := y.Lookup(t.Context(), "c-0/000000001", ""); !errors.As(err, &twice) || len(twice.Shards) != 2 {
		t.Errorf("got %v, want an error that names two shards", err)
	}
	if _, ok, err := y.Lookup(t.Context(), "c-0/000000001", "c-0.ndjson"); !ok || err != nil {
		t.Errorf("in one of them: got %v, %v", ok, err)
	}
}

// Fetch loads the tables of a batch concurrently.
func TestFetch_RunsConcurrently(t *testing.T) {
	store, rep := linesStore(t, 30000)
	x := openInPart(t, store, rep.Generation)
	if !x.InPart() {
		t.Fatal("got an index that is there as a whole")
	}
	var samples []uint64
	for c := 0; c < x.Chunks(); c += x.Chunks() / 10 {
		samples = append(samples, x.First()[c], x.First()[c]+1)
	}
	store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Delay: 100 * time.Millisecond} })
	if err := x.Fetch(t.Context(), samples); err != nil {
		t.Fatal(err)
	}
	if n := store.Stats().MaxInFlight; n < 3 {
		t.Errorf("got %d concurrent reads, want more", n)
	}
	store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Err: objstore.ErrUnavailable} })
	for _, n := range samples {
		if _, err := x.Table(t.Context(), x.ChunkOf(n)); err != nil {
			t.Errorf("sample %d: %v", n, err)
		}
	}
	whole, err := Open(t.Context(), shards.Copy(store), "", OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	if whole.InPart() {
		t.Error("a small index is fetched in part")
	}
}

// read stays within the sections, and ReadAt ends with io.EOF at their end.
func TestPages_ReadStaysInItsSections(t *testing.T) {
	_, x := partlyStored(t)
	p := x.segments[0].pages
	for _, c := range []struct {
		off, n int64
		ok     bool
	}{
		{p.begin, 1, true}, {p.begin, p.end - p.begin, true}, {p.end - 1, 1, true}, {p.end, 0, true},
		{p.begin - 1, 1, false}, {p.begin - 1, 0, false}, {p.end, 1, false}, {p.end - 1, 2, false}, {p.end + 1, 0, false}, {-1, 1, false},
	} {
		if err := p.read(t.Context(), c.off, make([]byte, c.n)); (err == nil) != c.ok || err != nil && !errors.Is(err, layout.ErrMalformed) {
			t.Errorf("[%d, +%d) of [%d, %d): got %v, want accepted: %v", c.off, c.n, p.begin, p.end, err, c.ok)
		}
	}
	want := make([]byte, 10)
	if err := p.read(t.Context(), p.end-10, want); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 20)
	if n, err := p.ReadAt(got, p.end-10); n != 10 || err == nil || errors.Is(err, layout.ErrMalformed) || !bytes.Equal(got[:10], want) {
		t.Errorf("past the end: got %d bytes, %v", n, err)
	}
	if n, err := p.ReadAt(got[:10], p.end-10); n != 10 || err != nil {
		t.Errorf("to the end: got %d bytes, %v", n, err)
	}
}
