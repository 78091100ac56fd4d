package s3backend

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// TestBandwidthIsShared reads with many concurrent readers under a limit, by ranges and
// sequentially, with a hedge and with an attempt that fails. All reads together take as long as the
// limit requires. Each waits longer than the stall timeout, but no attempt is given up.
func TestBandwidthIsShared(t *testing.T) {
	const bandwidth, size, readers = 64 << 10, 128 << 10, 32
	s := &scriptedStore{data: sample(size)}
	half := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"`+testETag+`"`)
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(s.data[:size/2])
		panic(http.ErrAbortHandler)
	}
	for name, c := range map[string]struct {
		script []http.HandlerFunc
		learns bool
		open   bool
		bytes  int64
		hedges int64
		again  int64
	}{
		"ranges":       {bytes: readers * size},
		"in sequence":  {open: true, bytes: readers * size},
		"a late one":   {script: []http.HandlerFunc{s.never}, learns: true, bytes: readers * size, hedges: 1},
		"a broken one": {script: []http.HandlerFunc{half}, bytes: readers * size, again: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, defaultRetryPolicy(), s.ServeHTTP, func(t *testing.T, b *Backend) {
				b.bandwidth = newBandwidthLimit(bandwidth)
				if c.learns {
					learned(t, b)
				}
				s.next(c.script...)
				start := time.Now()
				var all sync.WaitGroup
				for range readers {
					all.Go(func() {
						if got := readOne(t, b, c.open, size); string(got) != string(s.data) {
							t.Error("got other bytes")
						}
					})
				}
				all.Wait()
				took, want := time.Since(start), time.Duration(float64(c.bytes)/bandwidth*float64(time.Second))
				if took < want*9/10 || took > want*12/10 {
					t.Errorf("%d bytes took %v, want %v", c.bytes, took, want)
				}
				if st := b.Stats(); st.Hedges != c.hedges || st.Retries != c.again || st.Limit != b.cfg.MaxConns || st.BreakerOpen {
					t.Errorf("got %+v, want %d hedges, %d retries, and a store that is well", st, c.hedges, c.again)
				}
			})
		})
	}
}

func readOne(t *testing.T, b *Backend, open bool, size int) []byte {
	if !open {
		dst := make([]byte, size)
		if err := b.ReadRange(t.Context(), objstore.Ref{Key: testKey}, 0, dst); err != nil {
			t.Error(err)
		}
		return dst
	}
	r, err := b.Open(t.Context(), objstore.Ref{Key: testKey}, 0)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	return got
}

// TestReadersThatWaitForBandwidthCanLeave cancels a read that would wait for a long time.
func TestReadersThatWaitForBandwidthCanLeave(t *testing.T) {
	s := &scriptedStore{data: sample(1 << 20)}
	inBubble(t, defaultRetryPolicy(), s.ServeHTTP, func(t *testing.T, b *Backend) {
		b.bandwidth = newBandwidthLimit(64 << 10)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		err := b.ReadRange(ctx, objstore.Ref{Key: testKey}, 0, make([]byte, 1<<20))
		if took := time.Since(start); err == nil || took > 4*time.Second || b.Stats().Retries > 0 {
			t.Errorf("got %v after %v and %d retries, want an error after 3s and none", err, took, b.Stats().Retries)
		}
	})
}
