package gateway

import (
	"encoding/json"
	"testing"
)

func TestReaderStats(t *testing.T) {
	got := map[string]float64{}
	for _, s := range readerStats([]Reader{
		{SamplesPerSecond: 100, BatchesBehind: 3, WaitingShare: .25},
		{SamplesPerSecond: 50, BatchesBehind: 0, WaitingShare: .75},
	}) {
		got[s.Name] = s.Value
	}
	for name, want := range map[string]float64{
		"readers": 2, "readers_samples_per_second": 150, "readers_most_batches_behind": 3, "readers_most_waiting_share": .75,
	} {
		if got[name] != want {
			t.Errorf("got %s %v, want %v", name, got[name], want)
		}
	}
}

// TestJobs: ranks of one plan are columns of one job, in the order of the list; another seed is another job.
func TestJobs(t *testing.T) {
	a, b := Job{Dataset: "photos", Shuffle: "slot", Window: 4, Seed: 1 << 63, BatchSize: 16, WorldSize: 2}, Job{Dataset: "photos", Shuffle: "slot"}
	b.Subset = "aa:train"
	got, err := json.Marshal(jobs([]Reader{
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
	if got, err := json.Marshal(jobs(nil)); err != nil || string(got) != "[]" {
		t.Errorf("of no readers: got %s and %v, want an empty list", got, err)
	}
}
