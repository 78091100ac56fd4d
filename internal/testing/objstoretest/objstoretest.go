// Package objstoretest is the conformance suite of stores. Every store passes it: in memory, in a
// directory, shaped, and S3 servers.
package objstoretest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Run tests a store against the contract of package objstore. newStore is called once for each
// subtest, and must return a store that is empty at first. The stores of several subtests may share
// one bucket, because each subtest uses keys of its own.
func Run(t *testing.T, newStore func(t *testing.T) objstore.Store) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, objstore.Store)
	}{
		{"stat", testStat},
		{"read range", testReadRange},
		{"read range refuses", testReadRangeRefuses},
		{"read changed", testReadChanged},
		{"empty object", testEmpty},
		{"open", testOpen},
		{"list", testList},
		{"list stops", testListStops},
		{"list many", testListMany},
		{"put conditions", testConditions},
		{"put race absent", testRaceAbsent},
		{"put race match", testRaceMatch},
		{"put large", testLarge},
		{"put short body", testShortBody},
		{"delete", testDelete},
		{"odd keys", testOddKeys},
		{"bad keys", testBadKeys},
		{"canceled", testCanceled},
		{"parallel", testParallel},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, newStore(t)) })
	}
}

// content returns n pseudorandom bytes, which depend on the seed.
func content(seed uint64, n int) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	b := make([]byte, n)
	_, _ = r.Read(b) // never fails
	return b
}

func put(t *testing.T, s objstore.Store, key string, data []byte) objstore.Object {
	t.Helper()
	o, err := s.Put(t.Context(), key, bytes.NewReader(data), int64(len(data)), objstore.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func read(t *testing.T, s objstore.Store, ref objstore.Ref) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), ref, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wantErr checks that err is want and not another error of the vocabulary.
func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
	for _, other := range objstore.Vocabulary() {
		if other != want && errors.Is(err, other) { //nolint:errorlint // two errors of one list
			t.Errorf("%s: got %v, which is %q as well as %q", what, err, other, want)
		}
	}
}

func testStat(t *testing.T, s objstore.Store) {
	_, err := s.Stat(t.Context(), "stat/missing")
	wantErr(t, "stat of a missing key", err, objstore.ErrNotFound)
	data := content(1, 1000)
	made := put(t, s, "stat/a", data)
	got, err := s.Stat(t.Context(), "stat/a")
	if err != nil {
		t.Fatal(err)
	}
	if got.Key != "stat/a" || got.Size != 1000 || got.ETag == "" || strings.Contains(got.ETag, `"`) || got.Modified.IsZero() {
		t.Errorf("got %+v, want key, size, time and an ETag without quotes", got)
	}
	if made.Key != got.Key || made.Size != got.Size || made.ETag != got.ETag || made.VersionID != got.VersionID {
		t.Errorf("Put returned %+v, Stat %+v", made, got)
	}
	_, err = s.Stat(t.Context(), "stat")
	wantErr(t, "stat of a prefix", err, objstore.ErrNotFound)
	_, err = s.Stat(t.Context(), "stat/a/b")
	wantErr(t, "stat below an object", err, objstore.ErrNotFound)
}

func testReadRange(t *testing.T, s objstore.Store) {
	data := content(2, 10_000)
	ref := put(t, s, "range/a", data).Ref()
	for _, c := range []struct {
		offset int64
		sizes  []int
	}{
		{0, []int{1}},
		{1, []int{1}},
		{9999, []int{1}},
		{0, []int{10_000}},
		{5, []int{9995}},
		{17, []int{1, 2, 3}},
		{100, []int{0, 5, 0, 7, 0}},
		{0, []int{4096, 4096, 1808}},
		{3, []int{1, 9000, 1}},
	} {
		dst := make([][]byte, len(c.sizes))
		for i, n := range c.sizes {
			dst[i] = make([]byte, n)
		}
		ctx := objstore.WithProgress(t.Context(), func(n int64) {
			if got := slices.Concat(dst...); !bytes.Equal(got[:n], data[c.offset:c.offset+n]) {
				t.Errorf("at %d into %v: it reported %d bytes that were not filled yet", c.offset, c.sizes, n)
			}
		})
		if err := s.ReadRange(ctx, ref, c.offset, dst...); err != nil {
			t.Errorf("at %d into %v: %v", c.offset, c.sizes, err)
			continue
		}
		got := slices.Concat(dst...)
		if want := data[c.offset : c.offset+int64(len(got))]; !bytes.Equal(got, want) {
			t.Errorf("at %d into %v: wrong bytes", c.offset, c.sizes)
		}
	}
	got := make([]byte, 10)
	if err := s.ReadRange(t.Context(), objstore.Ref{Key: "range/a"}, 50, got); err != nil || !bytes.Equal(got, data[50:60]) {
		t.Errorf("without an ETag: got %x, %v, want %x", got, err, data[50:60])
	}
}

func testReadRangeRefuses(t *testing.T, s objstore.Store) {
	ref := put(t, s, "refuse/a", content(3, 100)).Ref()
	buf := make([]byte, 10)
	for _, offset := range []int64{91, 99, 100, 101, 1 << 40} {
		wantErr(t, "a read past the end", s.ReadRange(t.Context(), ref, offset, buf), objstore.ErrShort)
	}
	wantErr(t, "a read of more than there is", s.ReadRange(t.Context(), ref, 0, make([]byte, 101)), objstore.ErrShort)
	wantErr(t, "a scattered read past the end", s.ReadRange(t.Context(), ref, 85, buf, buf[:6]), objstore.ErrShort)
	for what, err := range map[string]error{
		"negative offset": s.ReadRange(t.Context(), ref, -1, buf),
		"nothing to fill": s.ReadRange(t.Context(), ref, 1),
		"empty slices":    s.ReadRange(t.Context(), ref, 1, nil, []byte{}),
		"overflow":        s.ReadRange(t.Context(), ref, 1<<63-5, buf),
	} {
		if err == nil {
			t.Errorf("%s: got no error", what)
		} else if k := objstore.Kind(err); k != "other" {
			t.Errorf("%s: got %v, which is %q, want an error outside the vocabulary", what, err, k)
		}
	}
	err := s.ReadRange(t.Context(), objstore.Ref{Key: "refuse/missing"}, 0, buf)
	wantErr(t, "a read of a missing key", err, objstore.ErrNotFound)
	err = s.ReadRange(t.Context(), objstore.Ref{Key: "refuse/missing", ETag: ref.ETag}, 0, buf)
	wantErr(t, "a read of a missing version", err, objstore.ErrNotFound)
}

func testReadChanged(t *testing.T, s objstore.Store) {
	old := put(t, s, "changed/a", content(4, 500)).Ref()
	now := put(t, s, "changed/a", content(5, 300))
	if old.ETag == now.ETag {
		t.Fatalf("two versions have the ETag %s", now.ETag)
	}
	old.VersionID = ""
	buf := make([]byte, 10)
	wantErr(t, "a read of the old version", s.ReadRange(t.Context(), old, 0, buf), objstore.ErrChanged)
	// The range exists only in the old version. The error must be ErrChanged.
	wantErr(t, "a read past the new end", s.ReadRange(t.Context(), old, 400, buf), objstore.ErrChanged)
	_, err := s.Open(t.Context(), old, 0)
	wantErr(t, "an open of the old version", err, objstore.ErrChanged)
	_, err = s.Open(t.Context(), old, 400)
	wantErr(t, "an open past the new end", err, objstore.ErrChanged)
	if got := read(t, s, now.Ref()); !bytes.Equal(got, content(5, 300)) {
		t.Error("the new version has wrong bytes")
	}
}

func testEmpty(t *testing.T, s objstore.Store) {
	o := put(t, s, "empty/a", nil)
	if o.Size != 0 || o.ETag == "" {
		t.Errorf("got %+v, want size 0 and an ETag", o)
	}
	if got := read(t, s, o.Ref()); len(got) != 0 {
		t.Errorf("got %d bytes, want none", len(got))
	}
	wantErr(t, "a read of an empty object", s.ReadRange(t.Context(), o.Ref(), 0, make([]byte, 1)), objstore.ErrShort)
	_, err := s.Open(t.Context(), o.Ref(), 1)
	wantErr(t, "an open past the end", err, objstore.ErrShort)
}

func testOpen(t *testing.T, s objstore.Store) {
	data := content(6, 200_000)
	ref := put(t, s, "open/a", data).Ref()
	for _, offset := range []int64{0, 1, 65_536, 199_999, 200_000} {
		r, err := s.Open(t.Context(), ref, offset)
		if err != nil {
			t.Errorf("at %d: %v", offset, err)
			continue
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, data[offset:]) {
			t.Errorf("at %d: got %d bytes, %v, want %d", offset, len(got), err, len(data)-int(offset))
		}
		if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("after the end: got %d, %v, want EOF", n, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := s.Open(t.Context(), ref, 200_001)
	wantErr(t, "an open past the end", err, objstore.ErrShort)
	_, err = s.Open(t.Context(), objstore.Ref{Key: "open/missing"}, 0)
	wantErr(t, "an open of a missing key", err, objstore.ErrNotFound)
	if _, err = s.Open(t.Context(), ref, -1); err == nil {
		t.Error("an open at -1 gave no error")
	}
	// A reader that is closed half-way ends, and does not affect the next one.
	r, err := s.Open(t.Context(), objstore.Ref{Key: "open/a"}, 10)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 100)
	if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, data[10:110]) {
		t.Errorf("got %v and wrong bytes, want the first 100", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Read(got); err == nil || err == io.EOF {
		t.Errorf("read after Close: got %v, want an error", err)
	}
}

func testCanceled(t *testing.T, s objstore.Store) {
	data := content(7, 1<<20)
	ref := put(t, s, "cancel/a", data).Ref()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := s.Open(ctx, ref, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	cancel()
	_, err = io.Copy(io.Discard, r)
	wantErr(t, "a read on", err, context.Canceled)
	wantErr(t, "read", s.ReadRange(ctx, ref, 0, make([]byte, 10)), context.Canceled)
	_, err = s.Open(ctx, ref, 0)
	wantErr(t, "open", err, context.Canceled)
	_, err = s.Stat(ctx, "cancel/a")
	wantErr(t, "stat", err, context.Canceled)
	_, err = s.Put(ctx, "cancel/b", bytes.NewReader(data), int64(len(data)), objstore.Condition{})
	wantErr(t, "put", err, context.Canceled)
	wantErr(t, "list", s.List(ctx, "cancel/", func(objstore.Object) error { return nil }), context.Canceled)
	wantErr(t, "delete", s.Delete(ctx, "cancel/a"), context.Canceled)
	_, err = s.Stat(t.Context(), "cancel/b")
	wantErr(t, "stat of what was not put", err, objstore.ErrNotFound)
	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	wantErr(t, "read too late", s.ReadRange(late, ref, 0, make([]byte, 10)), context.DeadlineExceeded)
}
