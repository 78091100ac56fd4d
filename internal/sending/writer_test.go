package sending

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// TestPartsArriveInOrder: parts of any length arrive completely and in order, over a connection
// that writes many at once and through a writer that cannot.
func TestPartsArriveInOrder(t *testing.T) {
	var want []byte
	parts := func() (ps net.Buffers) {
		want = want[:0]
		for i, n := range []int{0, 1, 4096, 0, maxWrite - 1, 3, maxWrite, 2*maxWrite + 5, 0, 7} {
			p := bytes.Repeat([]byte{byte(i + 1)}, n)
			ps, want = append(ps, p), append(want, p...)
		}
		return ps
	}
	var records sync.Pool
	send := func(w http.ResponseWriter, r *http.Request) {
		rw := New(w, r, time.Now(), func() bool { return false }, &records)
		if err := rw.Send(parts(), nil); err != nil {
			t.Errorf("got %v, want no error", err)
		}
		if rw.Bytes != int64(len(want)) {
			t.Errorf("got %d bytes counted, want %d", rw.Bytes, len(want))
		}
	}
	recorder := httptest.NewRecorder()
	send(recorder, httptest.NewRequest("GET", "/", nil))
	if !bytes.Equal(recorder.Body.Bytes(), want) {
		t.Errorf("got %d bytes through a plain writer, want the %d sent", recorder.Body.Len(), len(want))
	}
	plain := httptest.NewServer(http.HandlerFunc(send))
	defer plain.Close()
	encrypted := httptest.NewTLSServer(http.HandlerFunc(send))
	defer encrypted.Close()
	for _, srv := range []*httptest.Server{plain, encrypted} {
		res, err := srv.Client().Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %d bytes and %v from %s, want the %d sent", len(got), err, srv.URL, len(want))
		}
	}
}

// writes records the length of each write.
type writes struct {
	*httptest.ResponseRecorder
	lengths []int
}

func (w *writes) Write(p []byte) (int, error) {
	w.lengths = append(w.lengths, len(p))
	return w.ResponseRecorder.Write(p)
}

// TestSamplesFillRecords: over TLS each write ends a record, and costs a system call. All writes of
// a body except the last consist of whole records, however long its samples are.
func TestSamplesFillRecords(t *testing.T) {
	for _, sample := range []int{100, 5000, recordSize - 1, recordSize, 110_000} {
		r := httptest.NewRequest("GET", "https://gateway/", nil)
		w := &writes{ResponseRecorder: httptest.NewRecorder()}
		var want []byte
		var parts net.Buffers
		for i := range 2*maxSealed/sample + 10 {
			parts = append(parts, bytes.Repeat([]byte{byte(i)}, sample))
			want = append(want, parts[i]...)
		}
		rw := New(w, r, time.Now(), func() bool { return false }, new(sync.Pool))
		if err := rw.Send(parts, func(int64) net.Buffers { return nil }); err != nil || !bytes.Equal(w.Body.Bytes(), want) || rw.Bytes != int64(len(want)) {
			t.Errorf("samples of %d bytes: got %v, %d bytes and %d counted, want %d", sample, err, w.Body.Len(), rw.Bytes, len(want))
		}
		for _, n := range w.lengths[:len(w.lengths)-1] {
			if n%recordSize != 0 {
				t.Errorf("samples of %d bytes: got writes of %v, want whole records", sample, w.lengths)
				break
			}
		}
	}
}
