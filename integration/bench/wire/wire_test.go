package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestCountsAndCuts checks that traffic is counted, and that a cut ends the requested number of
// responses in the middle.
func TestCountsAndCuts(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	store := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		http.ServeContent(out, r, "", time.Time{}, bytes.NewReader(content))
	}))
	defer store.Close()
	w := newWire(shape{})
	front := httptest.NewServer(w.forward(strings.TrimPrefix(store.URL, "http://")))
	defer front.Close()
	control := httptest.NewServer(w.control())
	defer control.Close()

	if got, err := read(front.URL + "/bucket/key"); err != nil || !bytes.Equal(got, content) {
		t.Fatalf("got %d bytes, %v, want %d", len(got), err, len(content))
	}
	resp, err := http.Post(control.URL+"/cut?after=100000&answers=1", "", nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	if got, err := read(front.URL + "/bucket/key"); err == nil || len(got) != 100000 {
		t.Errorf("a body that is cut: got %d bytes, %v, want 100000 and an error", len(got), err)
	}
	if got, err := read(front.URL + "/bucket/key"); err != nil || len(got) != len(content) {
		t.Errorf("after the cut: got %d bytes, %v, want %d", len(got), err, len(content))
	}
	var c counts
	if b, err := read(control.URL + "/counts"); err != nil || json.Unmarshal(b, &c) != nil {
		t.Fatal(string(b), err)
	}
	if want := (counts{Requests: 3, Gets: 3, Bytes: int64(2*len(content) + 100000)}); c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
}

func read(url string) ([]byte, error) {
	resp, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
