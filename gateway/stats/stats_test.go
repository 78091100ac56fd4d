package stats

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/millrace-data/millrace/shuffle"
)

// TestJobs: ranks of one plan are columns of one job, in the order of the list. A plan with another
// seed is another job.
func TestJobs(t *testing.T) {
	a, b := Job{Dataset: "photos", Params: shuffle.Params{Shuffle: "slot", Window: 4, Seed: 1 << 63}, BatchSize: 16, WorldSize: 2}, Job{Dataset: "photos", Params: shuffle.Params{Shuffle: "slot"}}
	b.Subset = "aa:train"
	got, err := json.Marshal(Jobs([]Reader{
		{Job: a, Batch: 7, SamplesPerSecond: 1234.56789, ThinkMS: .26, WaitingShare: .12345, EpochLeftSeconds: 9.6, IdleSeconds: .04},
		{Job: b, Epoch: 1},
		{Job: a, Rank: 1, Batch: 4, BatchesBehind: 3},
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"dataset":"photos","shuffle":"slot","window":4,"seed":"9223372036854775808","batch_size":16,"world_size":2,` +
		`"rank":[0,1],"epoch":[0,0],"batch":[7,4],"batches_behind":[0,3],"samples_per_second":[1234.568,0],"think_ms":[0.3,0],` +
		`"waiting_share":[0.123,0],"epoch_left_seconds":[10,0],"idle_seconds":[0,0]},` +
		`{"dataset":"photos","shuffle":"slot","seed":"0","subset":"aa:train","batch_size":0,"world_size":0,` +
		`"rank":[0],"epoch":[1],"batch":[0],"batches_behind":[0],"samples_per_second":[0],"think_ms":[0],` +
		`"waiting_share":[0],"epoch_left_seconds":[0],"idle_seconds":[0]}]`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, err := json.Marshal(Jobs(nil)); err != nil || string(got) != "[]" {
		t.Errorf("of no readers: got %s and %v, want an empty list", got, err)
	}
}

// TestAnswer_AllReadsBothForms: All returns the same ranks for a list and for columns.
func TestAnswer_AllReadsBothForms(t *testing.T) {
	job := Job{Dataset: "photos", Params: shuffle.Params{Shuffle: "slot", Window: 4, Seed: 1 << 63}, BatchSize: 16, WorldSize: 2}
	readers := []Reader{
		{Job: job, Epoch: 2, Batch: 7, SamplesPerSecond: 12.5, ThinkMS: 3.5, WaitingShare: .25, EpochLeftSeconds: 9, IdleSeconds: .5},
		{Job: job, Rank: 1, Batch: 4, BatchesBehind: 3},
	}
	for name, sent := range map[string]Answer{"list": {Readers: readers}, "columns": {Jobs: Jobs(readers)}} {
		text, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		var got Answer
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if all := got.All(); !slices.Equal(all, readers) {
			t.Errorf("%s: got %+v, want %+v", name, all, readers)
		}
	}
}
