package gateway

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Parts of any length arrive whole and in order, over a connection that writes many at once and through a writer that cannot.
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
	send := func(w http.ResponseWriter) {
		rw := newResponseWriter(w, httptest.NewRequest("GET", "/", nil), time.Now(), func() bool { return false })
		if err := rw.send(parts(), nil); err != nil {
			t.Errorf("got %v, want no error", err)
		}
		if rw.bytes != int64(len(want)) {
			t.Errorf("got %d bytes counted, want %d", rw.bytes, len(want))
		}
	}
	recorder := httptest.NewRecorder()
	send(recorder)
	if !bytes.Equal(recorder.Body.Bytes(), want) {
		t.Errorf("got %d bytes through a plain writer, want the %d sent", recorder.Body.Len(), len(want))
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { send(w) }))
	defer srv.Close()
	res, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes and %v over a connection, want the %d sent", len(got), err, len(want))
	}
}
