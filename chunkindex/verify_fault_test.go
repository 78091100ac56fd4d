package chunkindex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shards"
)

// verified returns the bad ranges that Verify reports, sorted by shard and offset.
func verified(ctx context.Context, x *Index, store objstore.Store) (bad []BadRange, err error) {
	err = Verify(ctx, x, store, "", 1, nil, func(b BadRange) { bad = append(bad, b) })
	return bad, err
}

// TestVerify_TellsBytesFromFaults checks that Verify reports only missing, changed or wrong bytes
// as bad ranges. Any other store error ends the run.
func TestVerify_TellsBytesFromFaults(t *testing.T) {
	plain, _ := smallStore(t)
	packed := packedStore(t)
	if _, err := IndexShards(t.Context(), packed, "", IndexOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, store := range map[string]*memstore.Store{"plain": plain, "packed": packed} {
		x, err := Open(t.Context(), store, "", OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		shard := x.Shard(0).Key
		for _, c := range []struct {
			fault memstore.Fault
			cause string // cause of the bad ranges; empty: the run ends with an error
		}{
			{memstore.Fault{Err: objstore.ErrNotFound}, "not found"},
			{memstore.Fault{Err: objstore.ErrShort}, "short"},
			{memstore.Fault{Corrupt: func(b []byte) { b[len(b)/2] ^= 0xff }}, "corrupt"},
			{memstore.Fault{Err: objstore.ErrUnavailable}, ""},
			{memstore.Fault{Err: objstore.ErrDenied}, ""},
			{memstore.Fault{Err: objstore.ErrThrottled}, ""},
		} {
			store.SetFault(func(call memstore.Call) memstore.Fault {
				if call.Key == shard {
					return c.fault
				}
				return memstore.Fault{}
			})
			bad, err := verified(t.Context(), x, store)
			store.SetFault(nil)
			if c.cause == "" {
				if !errors.Is(err, c.fault.Err) || len(bad) > 0 || !strings.Contains(err.Error(), "verify chunk 0: ") {
					t.Errorf("%s, %v: got %v, %v, want the fault", name, c.fault.Err, bad, err)
				}
				continue
			}
			if err != nil || len(bad) == 0 {
				t.Errorf("%s, %s: got %v, %v", name, c.cause, bad, err)
			}
			for _, b := range bad {
				if b.Shard != shard || b.Cause != c.cause || b.Length <= 0 || b.Offset < 0 || b.Offset+b.Length > x.Shard(0).Size {
					t.Errorf("%s, %s: got %+v", name, c.cause, b)
				}
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if bad, err := verified(ended, x, store); !errors.Is(err, context.Canceled) || len(bad) > 0 {
			t.Errorf("%s, ended: got %v, %v", name, bad, err)
		}
		if bad, err := verified(t.Context(), x, store); err != nil || len(bad) > 0 {
			t.Errorf("%s: got %v, %v, want nothing bad", name, bad, err)
		}
	}
}

// TestVerify_BlamesEachByte checks that Verify reports a wrong byte for the sample that contains
// it. If no sample contains it, Verify reports the whole range.
func TestVerify_BlamesEachByte(t *testing.T) {
	store, _ := smallStore(t)
	x, err := Open(t.Context(), store, "", OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	sound := bytes.Clone(shards.Bytes(t, store, "a.tar"))
	extent := x.Extents(0)[0]
	table, err := x.Table(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for at := extent.Offset; at < extent.Offset+extent.Length; at += 97 {
		wrong := bytes.Clone(sound)
		wrong[at] ^= 1
		store.SetFault(func(c memstore.Call) memstore.Fault {
			if c.Op != memstore.Read || c.Key != "a.tar" {
				return memstore.Fault{}
			}
			return memstore.Fault{Corrupt: func(b []byte) { copy(b, wrong[c.Offset:]) }}
		})
		want := BadRange{Shard: "a.tar", Offset: extent.Offset, Length: extent.Length, Cause: "corrupt"}
		for i := range table.Len() {
			off := table.Offset(i)
			if from := extent.Offset + int64(off); from <= at && at < from+int64(table.Length(i)) {
				want.Offset, want.Length = from, int64(table.Length(i))
			}
		}
		bad, err := verified(t.Context(), x, store)
		if err != nil || !slices.Equal(bad, []BadRange{want}) {
			t.Errorf("byte %d: got %+v, %v, want %+v", at, bad, err, want)
		}
		store.SetFault(nil)
		var keys []string
		if err := x.Touched(t.Context(), want, func(_ uint64, key []byte) { keys = append(keys, string(key)) }); err != nil || len(keys) == 0 {
			t.Errorf("byte %d: got keys %q, %v", at, keys, err)
		}
	}
	for i := range table.Len() { // a range of one byte affects only the sample that contains this byte
		off := table.Offset(i)
		for _, at := range []int64{int64(off), int64(off+table.Length(i)) - 1} {
			var got []uint64
			err := x.Touched(t.Context(), BadRange{Offset: extent.Offset + at, Length: 1}, func(sample uint64, _ []byte) { got = append(got, sample) })
			if err != nil || !slices.Equal(got, []uint64{uint64(i)}) {
				t.Errorf("byte %d: got samples %v, %v, want %d", at, got, err, i)
			}
		}
	}
}

// Explain states the cause and the repair.
func TestExplain_NamesTheCauseAndTheCure(t *testing.T) {
	for cause, want := range map[string][]string{
		Rewritten:                     {"o was copied or written again", "with the same bytes: run 'millrace index s3://b/d'"},
		objstore.ErrChanged.Error():   {"o was copied or changed", "put all files back and run 'millrace index s3://b/d'"},
		objstore.ErrNotFound.Error():  {"o is missing", "put all files back and run 'millrace index s3://b/d'"},
		ErrCorrupt.Error():            {"o is damaged", "'millrace verify s3://b/d'"},
		objstore.ErrShort.Error():     {"o is damaged", "'millrace verify s3://b/d'"},
		"anything that is to be told": {"o is damaged"},
	} {
		for _, text := range want {
			if got := Explain("o", cause, "s3://b/d"); !strings.Contains(got, text) {
				t.Errorf("%s: got %q, want %q", cause, got, text)
			}
		}
	}
	e := &RangeError{Key: "a.tar", Offset: 5, Length: 7, Err: objstore.ErrShort}
	if e.Error() != "read shard a.tar [5,+7): short" || !errors.Is(e, objstore.ErrShort) {
		t.Errorf("got %v", e)
	}
	for _, err := range []error{objstore.ErrNotFound, objstore.ErrChanged, objstore.ErrShort} {
		if got := cause(fmt.Errorf("read: %w", err)); got != err.Error() {
			t.Errorf("got %s, want %v", got, err)
		}
	}
}

// TestVerify_BlamesTheRangeWhereNoSampleIsWrong checks that Verify reports the whole range for
// faults outside samples, and for faults in a compressed chunk that still decodes.
func TestVerify_BlamesTheRangeWhereNoSampleIsWrong(t *testing.T) {
	plain, _ := smallStore(t)
	packed := packedStore(t)
	if _, err := IndexShards(t.Context(), packed, "", IndexOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, store := range map[string]*memstore.Store{"plain": plain, "packed": packed} {
		for what, change := range map[string]func(x *Index){
			"checksum": func(x *Index) { x.crcs[0] ^= 1 },
			"digest":   func(x *Index) { x.hashes[0][0] ^= 1 },
		} {
			x, err := Open(t.Context(), store, "", OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			change(x)
			e := x.Extents(0)[0]
			want := BadRange{Shard: x.Shard(0).Key, Offset: e.Offset, Length: e.Length, Cause: "corrupt"}
			if bad, err := verified(t.Context(), x, store); err != nil || !slices.Equal(bad, []BadRange{want}) {
				t.Errorf("%s, %s: got %+v, %v, want %+v", name, what, bad, err, want)
			}
		}
	}
}
