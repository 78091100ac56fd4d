package gateway

import (
	"testing"

	"github.com/millrace-data/millrace/gateway/stats"
)

func TestReaderStats(t *testing.T) {
	got := map[string]float64{}
	for _, s := range readerStats([]stats.Reader{
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
