package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/client/ledger"
	"github.com/millrace-data/millrace/gateway"
)

// stateVectors are the vectors of docs/spec/state.md.
type stateVectors struct {
	States []struct {
		Text, Generation, Plan string
		Epoch, Position        uint64
	}
	Refused []string
	Places  []struct {
		vectorPlan
		At   [2]uint64
		Next *[3]uint64 // epoch, batch and skip; nil: no reader accepts the state
	}
	Saves []struct {
		vectorPlan
		Epoch, Batch, Skip uint64
		Read               *int // nil: the whole batch
		Place              [2]uint64
	}
	Generations []struct{ Generation, Short string }
	Digests     []struct {
		Positions   uint64
		PlanDigests json.RawMessage `json:"plan_digests"`
		At          [2]uint64
		Digest      string
	}
}

// vectorPlan is the part of a plan that determines places.
type vectorPlan struct {
	Samples   uint64
	BatchSize uint64 `json:"batch_size"`
	Tail      string
}

// vectorGeneration is the generation of the plans in the vectors.
const (
	vectorGeneration = "c2745ef8f32dd0e2131a682536b8d09e47506a05a38e4fe6692cbbaee7010bae"
	vectorDigest     = "4298dff41f247fffb576ccde58a40809"
)

// describing returns a client of a gateway that only describes epochs of a plan.
func describing(t *testing.T, p vectorPlan, digests string) *client.Client {
	t.Helper()
	gw := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g := r.URL.Query().Get("generation"); g != "" && g != vectorGeneration[:32] || r.URL.Query().Has("skip") {
			t.Errorf("got query %s, want the first digits of the generation", r.URL.RawQuery)
		}
		fmt.Fprintf(w, `{"batches":1,"samples":%d,"plan_digests":%s,"parameters":{"generation":%q,"batch_size":%d,"tail":%q}}`,
			p.Samples, digests, vectorGeneration, p.BatchSize, p.Tail)
	}))
	t.Cleanup(gw.Close)
	return newClient(t, client.Config{Gateways: []string{gw.URL}, Dataset: "photos"})
}

func readStateVectors(t *testing.T) (v stateVectors) {
	t.Helper()
	b, err := os.ReadFile("testdata/states.json")
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestState_TextsOfTheVectors(t *testing.T) {
	v := readStateVectors(t)
	for _, c := range v.States {
		var s, again client.State
		if err := json.Unmarshal([]byte(c.Text), &s); err != nil || s != (client.State{Generation: c.Generation, Plan: c.Plan, Epoch: c.Epoch, Position: c.Position}) {
			t.Errorf("%s: got %+v, %v", c.Text, s, err)
		}
		text, err := json.Marshal(s)
		if err != nil || len(text) > 200 || json.Unmarshal(text, &again) != nil || again != s {
			t.Errorf("%+v: got %s, %v", s, text, err)
		}
	}
	if got, err := json.Marshal(client.State{Generation: vectorGeneration[:32], Plan: vectorDigest, Position: 8}); err != nil || string(got) != v.States[0].Text {
		t.Errorf("got %s, want %s", got, v.States[0].Text)
	}
	for _, text := range v.Refused {
		if err := (&client.State{}).UnmarshalJSON([]byte(text)); !errors.Is(err, client.ErrState) {
			t.Errorf("%s: got %v, want ErrState", text, err)
		}
	}
	for _, c := range v.Generations {
		if got := ledger.Brief(c.Generation); got != c.Short {
			t.Errorf("%s: got %s, want %s", c.Generation, got, c.Short)
		}
	}
}

func TestState_PlacesOfTheVectors(t *testing.T) {
	v, digests := readStateVectors(t), fmt.Sprintf(`[{"position":0,"digest":%q}]`, vectorDigest)
	for _, c := range v.Places {
		s := client.State{Generation: vectorGeneration[:32], Plan: vectorDigest, Epoch: c.At[0], Position: c.At[1]}
		opt, err := describing(t, c.vectorPlan, digests).Resume(t.Context(), client.Options{}, s)
		switch {
		case c.Next == nil && !errors.Is(err, client.ErrState):
			t.Errorf("%+v at %v: got %v, want ErrState", c.vectorPlan, c.At, err)
		case c.Next != nil && (err != nil || [3]uint64{opt.Epoch, opt.From, client.Skipped(opt)} != *c.Next):
			t.Errorf("%+v at %v: got epoch %d, batch %d, skip %d and %v, want %v", c.vectorPlan, c.At, opt.Epoch, opt.From, client.Skipped(opt), err, *c.Next)
		}
	}
	for _, c := range v.Saves {
		opt, err := describing(t, c.vectorPlan, digests).Resume(t.Context(), client.Options{}, client.State{})
		if err != nil {
			t.Fatal(err)
		}
		b := client.PartOf(c.Epoch, c.Batch, c.Skip)
		got := opt.After(b)
		if c.Read != nil {
			got = opt.AfterSample(b, *c.Read-1)
		}
		if want := (client.State{Generation: vectorGeneration[:32], Plan: vectorDigest, Epoch: c.Place[0], Position: c.Place[1]}); got != want {
			t.Errorf("%+v after batch %d of epoch %d: got %+v, want %+v", c.vectorPlan, c.Batch, c.Epoch, got, want)
		}
	}
}

func TestState_PlanDigestsOfTheVectors(t *testing.T) {
	for _, c := range readStateVectors(t).Digests {
		gw := describing(t, vectorPlan{c.Positions, 1, "short"}, string(c.PlanDigests))
		s := client.State{Generation: vectorGeneration[:32], Plan: c.Digest, Epoch: c.At[0], Position: c.At[1]}
		if _, err := gw.Resume(t.Context(), client.Options{}, s); err != nil {
			t.Errorf("%v of %s: got %v", c.At, c.PlanDigests, err)
		}
		s.Plan = vectorDigest
		if _, err := gw.Resume(t.Context(), client.Options{}, s); !errors.Is(err, client.ErrState) {
			t.Errorf("%v of %s: got %v for another digest, want ErrState", c.At, c.PlanDigests, err)
		}
	}
}

// TestAfter_NextEpochWithNewWeights saves states at the end of an epoch whose last batch is short or
// dropped. Another segment begins in that batch or with the next epoch.
func TestAfter_NextEpochWithNewWeights(t *testing.T) {
	later := strings.Repeat("7", 32)
	for _, c := range []struct {
		tail         string
		batch, begin uint64
		want         string
	}{
		{"short", 3, 14, vectorDigest},
		{"short", 3, 12, later},
		{"drop", 2, 14, vectorDigest},
		{"drop", 2, 12, later},
	} {
		digests := fmt.Sprintf(`[{"position":0,"digest":%q},{"position":%d,"digest":%q}]`, vectorDigest, c.begin, later)
		gw := describing(t, vectorPlan{14, 4, c.tail}, digests)
		opt, err := gw.Resume(t.Context(), client.Options{}, client.State{})
		if err != nil {
			t.Fatal(err)
		}
		state := opt.After(client.PartOf(0, c.batch, 0))
		if want := (client.State{Generation: vectorGeneration[:32], Plan: c.want, Epoch: 1}); state != want {
			t.Errorf("%+v: got %+v, want %+v", c, state, want)
		}
		if _, err := gw.Resume(t.Context(), client.Options{}, state); err != nil {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

// TestResume_RejectsOtherRuns: the state of another generation or plan is not used, nor one that
// the options contradict.
func TestResume_RejectsOtherRuns(t *testing.T) {
	s := newStored(t)
	g := newReal(t, s, gateway.Config{})
	c := newClient(t, client.Config{Gateways: []string{g.url}})
	start, err := c.Resume(t.Context(), client.Options{}, client.State{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Batch(t.Context(), start, 1)
	if err != nil {
		t.Fatal(err)
	}
	state, seed := start.After(b), uint64(9)
	for name, opt := range map[string]client.Options{
		"seed": {Seed: &seed}, "shuffle": {Shuffle: "full"}, "subset": {Subset: "samples:0-9"}, "generation": {Generation: vectorGeneration},
	} {
		if _, err := c.Resume(t.Context(), opt, state); !errors.Is(err, client.ErrState) {
			t.Errorf("%s: got %v, want ErrState", name, err)
		}
	}
	for _, opt := range []client.Options{{BatchSize: 5}, {Quarantine: "samples:3", WorldSize: 2, Rank: 1}, {Generation: s.index.Generation()}, {Generation: state.Generation}} {
		if next, err := c.Resume(t.Context(), opt, state); err != nil || next.Generation != s.index.Generation() {
			t.Errorf("%+v: got generation %s and %v", opt, next.Generation, err)
		}
	}
	if _, err := c.Resume(t.Context(), client.Options{Step: 2}, state); err == nil {
		t.Error("got no error for a reader of every other batch")
	}
	if _, err := c.Resume(t.Context(), client.Options{}, client.State{Generation: vectorGeneration[:32], Plan: state.Plan}); err == nil {
		t.Error("got no error for a generation that is gone")
	}
	within := state
	within.Position = 7
	opt, err := c.Resume(t.Context(), client.Options{}, within)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.ReadEpoch(t.Context(), client.Epoch{Options: opt}); err != nil || r.Proof.Whole || r.Proof.Seen != realSamples-7 {
		t.Errorf("got %+v and %v, want %d samples of a part", r, err, realSamples-7)
	}
	if _, err := c.ReadEpoch(t.Context(), client.Epoch{Options: opt, Dir: t.TempDir()}); err == nil {
		t.Error("got no error for files of whole batches")
	}
}
