package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/client"
)

// TestError_OfAProxy: the client retries a response that is not a problem document if proxies send
// its status temporarily. Otherwise the error contains the status.
func TestError_OfAProxy(t *testing.T) {
	for status, again := range map[int]bool{408: true, 429: true, 500: true, 502: true, 503: true, 504: true, 400: false, 405: false, 413: false, 501: false} {
		f := &fake{batches: 1, generation: "g"}
		f.fault = func(n int, w http.ResponseWriter, _ *http.Request) bool {
			if n == 0 {
				w.Header().Set("X-Request-Id", "r\u00a07")
				http.Error(w, "<p>busy</p>", status)
			}
			return n == 0
		}
		_, err := newClient(t, client.Config{Gateways: []string{serve(t, f)}}).Batch(t.Context(), client.Options{}, 0)
		var e *client.Error
		if again && err != nil || !again && (!errors.As(err, &e) || e.Status != status || e.Code != "" || e.RequestID != "r 7" || !strings.Contains(err.Error(), fmt.Sprint(status, " ", http.StatusText(status), " (request r 7)")) || strings.Contains(err.Error(), "busy")) {
			t.Errorf("status %d: got %v, want it asked for again: %t", status, err, again)
		}
	}
}

// TestGatewayBehindAProxyThatFailsIsPassedOver: the client avoids a gateway for some time if its
// proxy reports that the gateway does not respond.
func TestGatewayBehindAProxyThatFailsIsPassedOver(t *testing.T) {
	for status, want := range map[int]int{http.StatusBadGateway: 1, http.StatusTooManyRequests: 3} {
		lost := &fake{fault: func(_ int, w http.ResponseWriter, _ *http.Request) bool { http.Error(w, "busy", status); return true }}
		c := newClient(t, client.Config{Gateways: []string{serve(t, lost), serve(t, &fake{batches: 3, generation: "g"})}, Home: inOrder})
		for n := range uint64(3) {
			if _, err := c.Batch(t.Context(), client.Options{}, n); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(lost.seen()); got != want {
			t.Errorf("status %d: got %d requests, want %d", status, got, want)
		}
	}
}

// TestManifest_NeedsTheNameOfItsDataset: a client without a dataset name takes the name from the
// batch, and fails if the batch has none.
func TestManifest_NeedsTheNameOfItsDataset(t *testing.T) {
	f := &fake{batches: 1, generation: "g"}
	f.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		f.answer(w, r, func(h http.Header, b []byte) []byte { h.Del("Content-Location"); return b })
		return true
	}
	_, err := newClient(t, client.Config{Gateways: []string{serve(t, f)}}).Batch(t.Context(), client.Options{Manifest: true}, 0)
	if want := "manifest: the response has no Content-Location with the dataset"; !errors.Is(err, client.ErrProtocol) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestBatch_RefusesAnotherBatch changes one header per response.
func TestBatch_RefusesAnotherBatch(t *testing.T) {
	for name, value := range map[string]string{
		"Millrace-Epoch": "1", "Millrace-Batch": "1", "Millrace-Batches": "0", "Millrace-Crc32c": "xyz", "Millrace-Samples": "-1", "Millrace-Padded": "x",
		"Millrace-Generation": "", "Content-Location": "/v1/datasets/other/epochs/0/batches/0?generation=g",
	} {
		for _, always := range []bool{false, true} {
			f := &fake{batches: 2, generation: "g"}
			f.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
				f.answer(w, r, func(h http.Header, b []byte) []byte {
					if always || n == 0 {
						h.Set(name, value)
					}
					return b
				})
				return true
			}
			c := newClient(t, client.Config{Gateways: []string{serve(t, f)}, Dataset: "photos"})
			_, err := c.Batch(t.Context(), client.Options{}, 0)
			if always != errors.Is(err, client.ErrProtocol) || always == (err == nil) {
				t.Errorf("%s %q, each time: %t: got %v", name, value, always, err)
			}
			if n := len(f.seen()); !always && n != 2 || always && n != 4 {
				t.Errorf("%s %q, each time: %t: got %d requests, want 2 or 4", name, value, always, n)
			}
		}
	}
}

// answers returns a client of a gateway that sends one JSON document after another.
func answers(t *testing.T, each ...any) (*client.Client, func() []string) {
	t.Helper()
	f := &fake{generation: "g"}
	f.fault = func(n int, w http.ResponseWriter, _ *http.Request) bool {
		_ = json.NewEncoder(w).Encode(each[min(n, len(each)-1)])
		return true
	}
	return newClient(t, client.Config{Gateways: []string{serve(t, f)}, Dataset: "photos"}), f.seen
}

// TestWarm_GoesOnFromPieceToPiece checks that Warm requests one piece after another, and refuses
// pieces that move backwards or beyond the epoch.
func TestWarm_GoesOnFromPieceToPiece(t *testing.T) {
	type object = map[string]any
	set := object{"name": "photos", "generation": "g", "bytes": 1000}
	c, seen := answers(t, set, object{"next": 4, "samples": 10, "chunks": 2, "bytes": 400}, object{"next": 4, "samples": 10}, object{"next": 10, "samples": 10, "chunks": 3, "bytes": 600, "done": true})
	var told []string
	w, err := c.Warm(t.Context(), client.Options{Epoch: 2}, func(done, total int64) { told = append(told, fmt.Sprint(done, "/", total)) })
	want := client.WarmProgress{Dataset: "photos", Epoch: 2, Next: 10, Samples: 10, Chunks: 5, Bytes: 1000, Done: true}
	if err != nil || w != want || strings.Join(told, " ") != "400/1000 400/1000 1000/1000" {
		t.Errorf("got %+v, %v, told of %q, want %+v", w, err, told, want)
	}
	const at = "/v1/datasets/photos/warm?epoch=2&from="
	if got := strings.Join(seen()[1:], " "); got != at+"0&generation=g "+at+"4&generation=g "+at+"4&generation=g" {
		t.Errorf("asked for %s", got)
	}
	c, _ = answers(t, set, object{"next": 3, "samples": 10, "full": true})
	if w, err := c.Warm(t.Context(), client.Options{}, nil); err != nil || !w.Full || w.Next != 3 {
		t.Errorf("without room: got %+v, %v", w, err)
	}
	c, _ = answers(t, set, object{"next": 0, "samples": 0, "done": true})
	if _, err := c.Warm(t.Context(), client.Options{}, func(done, _ int64) { told = append(told, fmt.Sprint(done)) }); err != nil || told[len(told)-1] != "1000" {
		t.Errorf("an epoch of nothing: got %v, told of %q", err, told)
	}
	for name, pieces := range map[string][]any{
		"back":   {set, object{"next": 4, "samples": 10}, object{"next": 3, "samples": 10}},
		"beyond": {set, object{"next": 11, "samples": 10}},
	} {
		c, _ := answers(t, pieces...)
		if w, err := c.Warm(t.Context(), client.Options{}, nil); !errors.Is(err, client.ErrProtocol) || w != (client.WarmProgress{}) {
			t.Errorf("%s: got %+v, %v, want %v", name, w, err, client.ErrProtocol)
		}
	}
}

// TestResourcesThatSayNothing: the client refuses empty resources: no datasets, no plan, no
// snapshot, and a batch without an address for its losses.
func TestResourcesThatSayNothing(t *testing.T) {
	c, _ := answers(t, map[string]any{})
	all := newClient(t, client.Config{Gateways: []string{serve(t, &fake{fault: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		_, _ = w.Write([]byte("{}"))
		return true
	}})}})
	_, noSets := all.Datasets(t.Context())
	_, noName := all.DatasetName(t.Context())
	_, noDefault := all.Describe(t.Context())
	_, noPlan := c.ReadEpoch(t.Context(), client.Epoch{})
	batch := &client.Batch{Dataset: "photos", Location: "/v1/x"}
	_, noSnapshot := c.Freeze(t.Context(), batch)
	_, noPlace := c.Freeze(t.Context(), &client.Batch{Dataset: "photos"})
	noReport := c.Report(t.Context(), &client.Batch{Location: "/v1/x"}, nil)
	for _, one := range []struct {
		err  error
		want string
	}{
		{noSets, "the gateway serves no dataset"},
		{noName, "the gateway serves no dataset"},
		{noDefault, "the gateway serves no dataset"},
		{noPlan, "read /v1/datasets/photos/epochs/0: the response has no valid plan: not the response of a gateway"},
		{noSnapshot, "send /v1/datasets/photos/importance/snapshots: the response has no snapshot: not the response of a gateway"},
		{noPlace, "report losses: the response with the batch had no Content-Location: not the response of a gateway"},
		{noReport, "report losses: the response with the batch had no Content-Location: not the response of a gateway"},
	} {
		if one.err == nil || one.err.Error() != one.want {
			t.Errorf("got %v, want %s", one.err, one.want)
		}
	}
	if err := c.Report(t.Context(), batch, []float64{1}); err != nil {
		t.Errorf("a report: %v", err)
	}
}

// TestDeliveries_CountPaddingApart: deliveries count padding separately, list the first faults, and
// count the others.
func TestDeliveries_CountPaddingApart(t *testing.T) {
	c := newClient(t, client.Config{Gateways: []string{serve(t, &fake{batches: 12, generation: "g"})}, Deadline: time.Minute})
	all := read(t, c, 0)
	all[11].Padded = 1
	l, draws := client.NewDeliveries(23, false), client.NewDeliveries(23, true)
	for _, b := range all {
		l.Add(b)
		draws.Add(b)
	}
	if l.Seen() != 23 || l.Missing() != 0 || l.Check() != nil || draws.Check() != nil {
		t.Errorf("got %d seen, %d missing, %v", l.Seen(), l.Missing(), l.Check())
	}
	for _, b := range all[:4] {
		l.Add(b)
		draws.Add(b)
	}
	var e *client.DeliveryError
	if err := l.CheckPart(); !errors.As(err, &e) || len(e.Faults) != 10 || e.More != 6 || !strings.HasSuffix(err.Error(), "; and 6 more") {
		t.Errorf("got %v, want ten faults and 6 more", err)
	}
	if err := draws.CheckPart(); !errors.As(err, &e) || len(e.Faults) != 8 || e.More != 0 {
		t.Errorf("draws: got %v, want eight positions that came again", err)
	}
}
