package build

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/testing/codectest"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// plainAndPacked returns a listing with an uncompressed object, and with the same bytes in
// compressed form.
func plainAndPacked(t *testing.T, text string) (*memstore.Store, *listing) {
	t.Helper()
	store := memstore.New()
	objects := []objstore.Object{store.Set("p/a.txt", []byte(text)), store.Set("p/a.txt.gz", codectest.PackAt(codec.Gzip, []byte(text)))}
	return store, newListing(store, "p/", objects)
}

// TestListing_OpenReadsDecodedBytesFromAnOffset checks that Open reads decoded bytes from an
// offset. It must leave no open stream if the offset is beyond the end, or if the stream breaks
// before the offset.
func TestListing_OpenReadsDecodedBytesFromAnOffset(t *testing.T) {
	text := strings.Repeat("0123456789", 50_000)
	for _, key := range []string{"a.txt", "a.txt.gz"} {
		store, l := plainAndPacked(t, text)
		for _, offset := range []int{0, 1, len(text) / 2, len(text) - 1} {
			in, err := l.Open(t.Context(), key, int64(offset))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(in); err != nil || string(got) != text[offset:] {
				t.Errorf("%s from %d: got %d bytes, %v", key, offset, len(got), err)
			}
			in.Close()
		}
		if in, err := l.Open(t.Context(), key, int64(len(text)+1)); err == nil {
			_, err = io.ReadAll(in)
			if in.Close(); err == nil {
				t.Errorf("%s past its end: got no error", key)
			}
		}
		if n := store.InFlight(); n != 0 {
			t.Errorf("%s: %d requests have not ended", key, n)
		}
		for _, after := range []int64{0, 5, 100} {
			store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Err: objstore.ErrUnavailable, After: after} })
			in, err := l.Open(t.Context(), key, int64(len(text)/2))
			if err == nil {
				_, err = io.ReadAll(in)
				in.Close()
			}
			store.SetFault(nil)
			if !errors.Is(err, objstore.ErrUnavailable) || store.InFlight() != 0 {
				t.Errorf("%s, breaks after %d: got %v, %d requests have not ended", key, after, err, store.InFlight())
			}
		}
	}
}

// TestListing_DescriptionMissingAndFailing checks that description distinguishes a missing object
// from a store error, and returns at most the requested number of bytes.
func TestListing_DescriptionMissingAndFailing(t *testing.T) {
	store, l := plainAndPacked(t, "0123456789")
	store.Set("p/empty", nil)
	for _, c := range []struct {
		key   string
		limit int64
		want  string
	}{{"a.txt", 100, "0123456789"}, {"a.txt", 10, "0123456789"}, {"a.txt", 4, "0123"}, {"empty", 4, ""}} {
		if got, err := l.description(t.Context(), c.key, c.limit); err != nil || got == nil || string(got) != c.want {
			t.Errorf("%s up to %d: got %q, %v, want %q", c.key, c.limit, got, err, c.want)
		}
	}
	if got, err := l.description(t.Context(), "README.md", 4); got != nil || err != nil {
		t.Errorf("missing: got %q, %v, want none", got, err)
	}
	for _, op := range []memstore.Op{memstore.Stat, memstore.Read} {
		for _, want := range []error{objstore.ErrUnavailable, objstore.ErrDenied} {
			store.SetFault(func(c memstore.Call) memstore.Fault {
				if c.Op == op {
					return memstore.Fault{Err: want}
				}
				return memstore.Fault{}
			})
			if _, err := l.description(t.Context(), "a.txt", 4); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", op, err, want)
			}
		}
	}
}

// TestListing_ReadRejectsUnlistedObjects checks that an unlisted object is not found. If an
// object's name does not match its contents, the error must state the remedy.
func TestListing_ReadRejectsUnlistedObjects(t *testing.T) {
	store, l := plainAndPacked(t, "0123456789")
	store.Set("p/b.txt", []byte("b"))
	if _, err := l.read(t.Context(), "b.txt", 1); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("not listed: got %v, want %v", err, objstore.ErrNotFound)
	}
	for _, key := range []string{"a.txt", "a.txt.gz"} {
		for _, n := range []int64{0, 1, 9, 10, 11} {
			got, err := l.read(t.Context(), key, n)
			if want := "0123456789"[:min(n, 10)]; err != nil || string(got) != want {
				t.Errorf("%s, %d bytes: got %q, %v, want %q", key, n, got, err, want)
			}
		}
	}
	store.Set("p/a.txt.gz", []byte("this is no gzip"))
	if _, err := l.read(t.Context(), "a.txt.gz", 1); err == nil || !strings.Contains(err.Error(), "--format files") {
		t.Errorf("a wrong name: got %v, want the cure", err)
	}
	if n := store.InFlight(); n != 0 {
		t.Errorf("%d requests have not ended", n)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.read(ended, "a.txt", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: got %v", err)
	}
}
