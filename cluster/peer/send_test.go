package peer

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// calls counts what a server hands to its connection.
type calls struct {
	*httptest.ResponseRecorder
	n int
}

func (c *calls) Write(p []byte) (int, error) {
	c.n++
	return c.ResponseRecorder.Write(p)
}

// Under TLS each call makes a record of its own: samples go out many to a call.
func TestSmallSamplesAreEncryptedTogether(t *testing.T) {
	const samples, length = 256, 4 << 10
	segments := make([][]byte, samples)
	for i := range segments {
		segments[i] = make([]byte, length)
		segments[i][0] = byte(i)
	}
	to := &calls{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodPost, readPath, nil)
	r.TLS = &tls.ConnectionState{}
	newWriter(to, r, time.Second).answer(segments, samples*length, make([]byte, 0, gatherBytes))
	if want := samples * length / gatherBytes; to.n > want {
		t.Errorf("got %d calls for %d samples of %d bytes, want at most %d", to.n, samples, length, want)
	}
	for i, b := 0, to.Body.Bytes(); i < samples; i, b = i+1, b[length:] {
		if b[0] != byte(i) {
			t.Fatalf("sample %d: got another one", i)
		}
	}
}
