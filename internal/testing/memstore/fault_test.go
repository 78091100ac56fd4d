package memstore_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestFaults runs under a fake clock, so delays and stalls take no time.
func TestFaults(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := memstore.New()
		ref := s.Set("a", []byte("0123456789")).Ref()
		var fault memstore.Fault
		s.SetFault(func(memstore.Call) memstore.Fault { return fault })
		read := func(f memstore.Fault) ([]byte, error) {
			fault = f
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			b := make([]byte, 4)
			return b, s.ReadRange(ctx, ref, 2, b)
		}
		if _, err := read(memstore.Fault{Err: objstore.ErrThrottled}); !errors.Is(err, objstore.ErrThrottled) {
			t.Errorf("got %v, want %v", err, objstore.ErrThrottled)
		}
		for _, f := range []memstore.Fault{{Stall: true, After: 2}, {Delay: time.Hour}} {
			if _, err := read(f); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%+v: got %v, want %v", f, err, context.DeadlineExceeded)
			}
		}
		got, err := read(memstore.Fault{Corrupt: func(b []byte) { b[0] ^= 1 }})
		if err != nil || string(got) != "3345" {
			t.Errorf("got %q, %v, want one bit flipped", got, err)
		}
		if b, _ := s.Bytes("a"); !bytes.Equal(b, []byte("0123456789")) {
			t.Errorf("the stored object became %q", b)
		}
		if _, err := read(memstore.Fault{Before: func() { s.Set("a", nil) }}); !errors.Is(err, objstore.ErrChanged) {
			t.Errorf("got %v, want %v", err, objstore.ErrChanged)
		}
		fault = memstore.Fault{Applied: true, Err: objstore.ErrUnavailable}
		_, err = s.Put(t.Context(), "b", strings.NewReader("x"), 1, objstore.Condition{})
		if _, ok := s.Bytes("b"); !errors.Is(err, objstore.ErrUnavailable) || !ok {
			t.Errorf("a lost answer: got %v, stored %v", err, ok)
		}
		if st := s.Stats(); st.Requests[memstore.Read] != 5 || st.Requests[memstore.Put] != 1 || s.InFlight() != 0 || len(s.Reads()) != 5 {
			t.Errorf("got %+v, %d in flight", st, s.InFlight())
		}
	})
}
