package shaped_test

import (
	"io"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/objstoretest"
	"github.com/millrace-data/millrace/internal/testing/shaped"
)

func TestConformance(t *testing.T) {
	objstoretest.Run(t, func(*testing.T) objstore.Store {
		return shaped.New(memstore.New(), shaped.Shape{FirstByte: time.Microsecond, Stream: 1e10, Total: 2e10, Connections: 3})
	})
}

// read reads n ranges of the object in parallel, and returns how long that takes by the bubble's
// clock.
func read(t *testing.T, s *shaped.Store, ref objstore.Ref, n, size int) time.Duration {
	t.Helper()
	start := time.Now()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := s.ReadRange(t.Context(), ref, 0, make([]byte, size)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

func TestShape(t *testing.T) {
	const size = 1_000_000
	for _, c := range []struct {
		name  string
		shape shaped.Shape
		n     int
		want  time.Duration
	}{
		{"nothing", shaped.Shape{}, 8, 0},
		{"first byte", shaped.Shape{FirstByte: 30 * time.Millisecond}, 8, 30 * time.Millisecond},
		{"stream", shaped.Shape{Stream: size}, 8, time.Second},
		{"total", shaped.Shape{Total: size}, 8, 8 * time.Second},
		{"connections", shaped.Shape{FirstByte: time.Second, Connections: 2}, 8, 4 * time.Second},
		{"all", shaped.Shape{FirstByte: time.Second, Stream: size, Total: 10 * size, Connections: 4}, 8, 4 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				mem := memstore.New()
				ref := mem.Set("a", make([]byte, size)).Ref()
				s := shaped.New(mem, c.shape)
				// The fake clock advances only by the shape's delays, so the times are exact.
				if got := read(t, s, ref, c.n, size); (got - c.want).Abs() > time.Microsecond {
					t.Errorf("got %v, want %v", got, c.want)
				}
				st := s.Stats()
				if st.Reads != int64(c.n) || st.BytesRead != int64(c.n*size) {
					t.Errorf("got %+v, want %d reads of %d bytes", st, c.n, size)
				}
				if most := int64(c.shape.Connections); most > 0 && st.MaxInFlight != most {
					t.Errorf("got %d in flight, want %d", st.MaxInFlight, most)
				}
			})
		})
	}
}

func TestOpenIsPaced(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		mem := memstore.New()
		ref := mem.Set("a", make([]byte, 1_000_000)).Ref()
		s := shaped.New(mem, shaped.Shape{Stream: 1_000_000})
		start := time.Now()
		r, err := s.Open(t.Context(), ref, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if n, err := io.Copy(io.Discard, r); n != 1_000_000 || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
		if got, want := time.Since(start), time.Second; (got - want).Abs() > time.Millisecond {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
