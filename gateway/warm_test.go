package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/shuffle"
)

type warmedJSON struct {
	Next, Samples uint64
	Chunks        int
	Bytes         int64
	Full, Done    bool
}

// TestWarmGoesOnWhereItIsTold follows the member next of each response to the end of an epoch.
func TestWarmGoesOnWhereItIsTold(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	var asked []uint64
	r.source.warm = func(at shuffle.Cursor) (batch.Warmed, error) {
		asked = append(asked, at.First)
		if p := at.Plan.Params(); at.Epoch.Number() != 3 || p.Shuffle != shuffle.Window || p.Window != 2 || p.Seed != 7 {
			t.Errorf("got epoch %d of %+v, want epoch 3 of what was asked for", at.Epoch.Number(), p)
		}
		return batch.Warmed{Next: min(at.First+20, 50), Chunks: 2, Bytes: 1000, Full: at.First > 0}, nil
	}
	var got warmedJSON
	for range 10 {
		a := r.post(fmt.Sprintf("/v1/datasets/photos/warm?epoch=3&shuffle=window&window=2&from=%d", got.Next), "")
		if a.StatusCode != http.StatusOK {
			t.Fatalf("got status %d: %s, want 200", a.StatusCode, a.body)
		}
		if err := json.Unmarshal(a.body, &got); err != nil {
			t.Fatal(err)
		}
		if got.Samples != 50 || got.Chunks != 2 || got.Bytes != 1000 || got.Full != (got.Next > 20) || got.Done != (got.Next == 50) {
			t.Errorf("got %+v, want 2 chunks of 1000 bytes of 50 samples, full after the first, done at 50", got)
		}
		if got.Done {
			break
		}
	}
	if got, want := fmt.Sprint(asked), "[0 20 40]"; got != want {
		t.Errorf("got positions %s asked for, want %s", got, want)
	}
	a := r.post("/v1/datasets/photos/warm?from=50", "")
	if got, want := string(a.body), `{"next":50,"samples":50,"chunks":0,"bytes":0,"full":false,"done":true}`+"\n"; got != want {
		t.Errorf("at the end: got %s, want %s", got, want)
	}
	if len(asked) != 3 {
		t.Errorf("got %d calls, want 3: at the end there is nothing to bring", len(asked))
	}
}

func TestWarmRefuses(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	r.source.warm = func(shuffle.Cursor) (batch.Warmed, error) {
		return batch.Warmed{}, fmt.Errorf("read train-0: %w", objstore.ErrThrottled)
	}
	checkProblem(t, r.post("/v1/datasets/photos/warm", ""), http.StatusServiceUnavailable, "store_unavailable", true)
	p := checkProblem(t, r.post("/v1/datasets/photos/warm?from=51&epoch=-1&rank=0&seed=x", ""), http.StatusBadRequest, "invalid_argument", false)
	if got, want := len(p.Faults), 4; got != want {
		t.Errorf("got faults %v, want %d", p.Faults, want)
	}
	checkProblem(t, r.post("/v1/datasets/other/warm", ""), http.StatusNotFound, "not_found", false)
	checkProblem(t, r.post("/v1/datasets/photos/warm", "{}"), http.StatusBadRequest, "invalid_argument", false)
	if a := r.do("GET", "/v1/datasets/photos/warm"); a.StatusCode != http.StatusMethodNotAllowed || a.Header.Get("Allow") != "OPTIONS, POST" {
		t.Errorf("got status %d and Allow %q, want 405 and OPTIONS, POST", a.StatusCode, a.Header.Get("Allow"))
	}
}
