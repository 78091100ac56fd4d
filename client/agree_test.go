package client_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// TestARankWithoutAGenerationIsRefused: Batches requires a generation if the gateways follow new
// generations by themselves, and only then.
func TestARankWithoutAGenerationIsRefused(t *testing.T) {
	for _, dataset := range []string{"", "photos"} {
		f := &fake{batches: 4, generation: "g1", follows: true}
		c := newClient(t, client.Config{Gateways: []string{serve(t, f)}, Dataset: dataset})
		rank := client.Options{Rank: 1, WorldSize: 4}
		_, err := c.Batch(t.Context(), rank, 0)
		for _, more := range []error{err, readAll(t, c, rank), errorOf(c.ReadEpoch(t.Context(), client.Epoch{Options: rank}))} {
			if !errors.Is(more, client.ErrNoGeneration) {
				t.Fatalf("got %v, want ErrNoGeneration", more)
			}
			for _, want := range []string{"rank 1 of 4", "dataset photos", "the same generation", "rank 0 reads it", "the current one is g1"} {
				if !strings.Contains(more.Error(), want) {
					t.Errorf("%q is not in %v", want, more)
				}
			}
		}
		asked := slices.DeleteFunc(f.seen(), func(r string) bool { return r == "/v1/datasets" }) // ReadEpoch requests the dataset name from this address
		if dataset != "" && len(asked) != 1 || len(f.seen())-len(asked) > 2 {
			t.Errorf("dataset %q: got requests %v, want the description once and no batch", dataset, f.seen())
		}
		for what, opt := range map[string]client.Options{
			"the same generation": {Rank: 1, WorldSize: 4, Generation: "g1"}, "one rank": {}, "one rank of one": {WorldSize: 1},
		} {
			if err := readAll(t, c, opt); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	f := &fake{batches: 4, generation: "g1"}
	c := newClient(t, client.Config{Gateways: []string{serve(t, f)}, Dataset: "photos"})
	if err := readAll(t, c, client.Options{Rank: 1, WorldSize: 4}); err != nil {
		t.Errorf("gateways that stay at a generation: %v", err)
	}
	if got := f.seen(); len(got) != 5 {
		t.Errorf("got requests %v, want the description and four batches", got)
	}
}

// TestTheSettingsOfGatewaysAreAskedForAgain: the client requests the gateways' settings again,
// because a restarted gateway may follow new generations.
func TestTheSettingsOfGatewaysAreAskedForAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &fake{batches: 1 << 20, generation: "g1"}
		c := newClient(t, client.Config{Gateways: []string{"a"}, Dataset: "photos", HTTP: &http.Client{Transport: transport{f}}})
		read := func(number uint64) error {
			_, err := c.Batch(t.Context(), client.Options{Rank: 1, WorldSize: 2}, number)
			return err
		}
		if err := errors.Join(read(0), read(1)); err != nil {
			t.Fatal(err)
		}
		if got := len(f.seen()); got != 3 {
			t.Errorf("got %d requests, want one look-up and two batches", got)
		}
		f.follows = true
		pause(time.Minute)
		if err := read(2); !errors.Is(err, client.ErrNoGeneration) {
			t.Errorf("got %v, want ErrNoGeneration", err)
		}
	})
}

func errorOf(_ client.EpochReport, err error) error { return err }

// readAll reads batches to the end or the first error.
func readAll(t *testing.T, c *client.Client, opt client.Options) error {
	t.Helper()
	for _, err := range c.Batches(t.Context(), opt) {
		if err != nil {
			return err
		}
	}
	return nil
}

// grow adds another shard to a dataset and indexes it again.
func grow(t *testing.T, s storedDataset) storedDataset {
	t.Helper()
	var shard bytes.Buffer
	w := tar.NewWriter(&shard)
	content := []byte("another sample")
	if err := w.WriteHeader(&tar.Header{Name: "new.bin", Size: int64(len(content)), Mode: 0o644, Format: tar.FormatUSTAR}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Put(t.Context(), "data/1.tar", bytes.NewReader(shard.Bytes()), int64(shard.Len()), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	return s.indexed(t)
}

// TestAJobStaysWithItsGeneration moves the gateway to another generation between the responses to
// two ranks, and between two batches of a rank. It also restarts gateway and job with another
// number of ranks. The job always reads one generation.
func TestAJobStaysWithItsGeneration(t *testing.T) {
	older := newStored(t)
	newer := grow(t, older)
	old, fresh := older.index.Generation(), newer.index.Generation()
	asked := 0
	open := func(_ context.Context, name, generation string) (gateway.Dataset, error) {
		asked++
		if generation != old {
			return gateway.Dataset{}, fmt.Errorf("generation %s: %w", generation, objstore.ErrNotFound)
		}
		return gateway.Dataset{Name: name, Index: older.index, Source: older}, nil
	}
	g := newReal(t, older, gateway.Config{Follows: true, Open: open})
	c := newClient(t, client.Config{Gateways: []string{g.url}})
	move := func(s storedDataset) {
		if err := g.Serve([]gateway.Dataset{{Name: "photos", Index: s.index, Source: s}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	d, err := c.Describe(t.Context())
	if err != nil || d.Generation != old || !d.Follows {
		t.Fatalf("got %+v, %v, want generation %.12s, which may move", d, err, old)
	}
	const stop = 3
	came := client.NewDeliveries(realSamples, false)
	read := func(c *client.Client, opt client.Options, meanwhile func()) {
		t.Helper()
		opt.Manifest, opt.Prefetch = true, -1
		for b, err := range c.Batches(t.Context(), opt) {
			if err != nil {
				t.Fatal(err)
			}
			if b.Generation != old {
				t.Errorf("batch %d of rank %d: got generation %.12s, want %.12s", b.Number, opt.Rank, b.Generation, old)
			}
			came.Add(b)
			if b.Number == opt.From {
				meanwhile()
			}
		}
	}
	read(c, client.Options{WorldSize: 2, Until: stop, Generation: d.Generation}, func() { move(newer) })
	read(c, client.Options{Rank: 1, WorldSize: 2, Until: stop, Generation: d.Generation}, func() {})
	if again, err := c.Describe(t.Context()); err != nil || again.Generation != fresh {
		t.Fatalf("got %.12s, %v, want the gateway to be at %.12s", again.Generation, err, fresh)
	}
	// Gateway and job restart: the checkpoint has the generation.
	restarted := newReal(t, newer, gateway.Config{Follows: true, Open: open})
	c = newClient(t, client.Config{Gateways: []string{restarted.url}})
	for rank := range uint64(3) {
		read(c, client.Options{Rank: rank, WorldSize: 3, From: stop, Generation: d.Generation}, func() {})
	}
	if err := came.Check(); err != nil {
		t.Error(err)
	}
	if asked != 1 {
		t.Errorf("the restarted gateway opened %d generations, want the old one once", asked)
	}
	// A single rank needs no generation: the client pins the generation of the first response.
	move(older)
	came = client.NewDeliveries(realSamples, false)
	c = newClient(t, client.Config{Gateways: []string{g.url}})
	read(c, client.Options{}, func() { move(newer) })
	if err := came.Check(); err != nil {
		t.Error(err)
	}
	_, err = c.Batch(t.Context(), client.Options{Rank: 1, WorldSize: 2}, 0)
	if !errors.Is(err, client.ErrNoGeneration) || !strings.Contains(err.Error(), fresh) {
		t.Errorf("got %v, want ErrNoGeneration and the present generation", err)
	}
	// A request for a generation that the gateway no longer has fails without a retry, and the
	// error contains the remedy once.
	_, err = c.Batch(t.Context(), client.Options{Generation: strings.Repeat("5", 64)}, 0)
	var gone *client.Error
	if !errors.As(err, &gone) || gone.Code != client.CodeGenerationGone || gone.Retryable || strings.Count(err.Error(), gone.Cure()) != 1 || asked != 2 {
		t.Errorf("got %v after %d questions, want generation_gone after one, with the cure once", err, asked-1)
	}
}

func gone(_ int, w http.ResponseWriter, _ *http.Request) bool {
	refuse(w, http.StatusNotFound, map[string]any{"code": "generation_gone"})
	return true
}

// TestAGenerationThatIsGone: if one gateway cannot open a generation, another one may have it open.
// The error generation_gone takes precedence over not_found, because it is more specific.
func TestAGenerationThatIsGone(t *testing.T) {
	for _, faults := range [][2]func(int, http.ResponseWriter, *http.Request) bool{{gone, absent}, {absent, gone}, {gone, gone}} {
		a, b := &fake{fault: faults[0]}, &fake{fault: faults[1]}
		c := newClient(t, client.Config{Gateways: []string{serve(t, a), serve(t, b)}, Home: client.HomeByRank})
		_, err := c.Batch(t.Context(), client.Options{Generation: "g"}, 0)
		if !errors.Is(err, &client.Error{Code: client.CodeGenerationGone}) || !strings.Contains(err.Error(), "begin a new job") {
			t.Errorf("got %v, want generation_gone with the cure", err)
		}
		if len(a.seen()) != 1 || len(b.seen()) != 1 {
			t.Errorf("got %d and %d requests, want one each", len(a.seen()), len(b.seen()))
		}
	}
	lost, open := &fake{fault: gone}, &fake{batches: 4, generation: "g"}
	c := newClient(t, client.Config{Gateways: []string{serve(t, lost), serve(t, open)}, Home: client.HomeByRank})
	if got := numbers(t, c, client.Options{Generation: "g", Prefetch: -1}); fmt.Sprint(got) != "[0 1 2 3]" {
		t.Errorf("got %v, want [0 1 2 3] of the gateway that has the generation open", got)
	}
}

// TestWarmingStaysWithItsGeneration checks that Warm requests one generation from its first piece
// to its last.
func TestWarmingStaysWithItsGeneration(t *testing.T) {
	f := &fake{generation: "g1", follows: true}
	next := 0
	f.fault = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		next++
		fmt.Fprintf(w, `{"next":%d,"samples":3,"done":%v}`, next, next == 3)
		return true
	}
	c := newClient(t, client.Config{Gateways: []string{serve(t, f)}})
	if w, err := c.Warm(t.Context(), client.Options{}, nil); err != nil || !w.Done {
		t.Fatal(w, err)
	}
	for _, r := range f.seen()[1:] {
		if !strings.Contains(r, "generation=g1") {
			t.Errorf("%s: want the generation of the first piece", r)
		}
	}
	if len(f.seen()) != 4 {
		t.Errorf("got requests %v, want the description and three pieces", f.seen())
	}
}
