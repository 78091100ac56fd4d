package client_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/client"
)

// TestLossesAreReportedAndFrozen reads a batch, reports its losses through a gateway that is busy
// at first, and freezes the losses.
func TestLossesAreReportedAndFrozen(t *testing.T) {
	var sent []string
	f := &fake{batches: 2, generation: "g"}
	f.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		body, _ := io.ReadAll(r.Body)
		sent = append(sent, r.URL.Path+" "+string(body))
		switch {
		case len(sent) == 1:
			refuse(w, http.StatusServiceUnavailable, map[string]any{"code": "overloaded", "retryable": true})
		case strings.HasSuffix(r.URL.Path, "/snapshots"):
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"snapshot":"abc"}`)
		default:
			_, _ = io.WriteString(w, `{"accepted":2}`)
		}
		return true
	}
	c := newClient(t, client.Config{Gateways: []string{serve(t, f)}})
	b, err := c.Batch(t.Context(), client.Options{Epoch: 3}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Report(t.Context(), b, []float64{.5, 2}); err != nil {
		t.Fatal(err)
	}
	snapshot, err := c.Freeze(t.Context(), b)
	if err != nil || snapshot != "abc" {
		t.Errorf("got snapshot %q and %v, want abc", snapshot, err)
	}
	const where = `{"url":"/v1/datasets/photos/epochs/3/batches/1?generation=g"`
	want := []string{
		"/v1/datasets/photos/importance " + where + `,"losses":[0.5,2]}`,
		"/v1/datasets/photos/importance " + where + `,"losses":[0.5,2]}`,
		"/v1/datasets/photos/importance/snapshots " + where + "}",
	}
	if got := strings.Join(sent, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got requests\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestRefusedReportsAreNotSentAgain(t *testing.T) {
	posts := 0
	f := &fake{batches: 2, generation: "g"}
	f.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			posts++
			refuse(w, http.StatusConflict, map[string]any{"code": "conflict"})
		}
		return r.Method == http.MethodPost
	}
	c := newClient(t, client.Config{Gateways: []string{serve(t, f)}})
	b, err := c.Batch(t.Context(), client.Options{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Report(t.Context(), b, []float64{1, 2}); !errors.Is(err, &client.Error{Code: client.CodeConflict}) || posts != 1 {
		t.Errorf("got %v after %d requests, want a conflict after 1", err, posts)
	}
}

// TestDeliveriesOfDraws: each position is delivered once, and a sample as often as it was drawn.
func TestDeliveriesOfDraws(t *testing.T) {
	f := &fake{batches: 3, generation: "g"}
	c := newClient(t, client.Config{Gateways: []string{serve(t, f)}})
	opt := client.Options{Importance: strings.Repeat("ab", 32), Balance: "bytes", Manifest: true}
	all := read(t, c, 0)
	l := client.NewDeliveries(6, true)
	for b, err := range c.Batches(t.Context(), opt) {
		if err != nil {
			t.Fatal(err)
		}
		l.Add(b)
	}
	if err := l.Check(); err != nil {
		t.Errorf("got %v, want nothing missing", err)
	}
	l.Add(all[1])
	var e *client.DeliveryError
	if err := l.Check(); !errors.As(err, &e) || len(e.Faults) != 2 {
		t.Errorf("a batch twice: got %v, want its two positions, and no keys", err)
	}
	for _, request := range f.seen()[len(f.seen())-2:] {
		if !strings.Contains(request, "balance=bytes") || !strings.Contains(request, "importance="+opt.Importance) {
			t.Errorf("got request %s, want balance and importance in it", request)
		}
	}
}
