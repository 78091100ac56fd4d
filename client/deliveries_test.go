package client_test

import (
	"errors"
	"testing"

	"github.com/millrace-data/millrace/client"
)

// read returns the fake's batches, with manifests.
func read(t *testing.T, c *client.Client, from uint64) []*client.Batch {
	t.Helper()
	var all []*client.Batch
	for b, err := range c.Batches(t.Context(), client.Options{From: from, Manifest: true}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

func TestDeliveriesProveExactlyOnce(t *testing.T) {
	c := newClient(t, client.Config{Gateways: []string{serve(t, &fake{batches: 40, generation: "g"})}})
	all := read(t, c, 0)
	l := client.NewDeliveries(80, false)
	for _, b := range all {
		l.Add(b)
	}
	if err := l.Check(); err != nil {
		t.Errorf("whole epoch: got %v, want none", err)
	}
	l.Add(all[7])
	var e *client.DeliveryError
	if err := l.Check(); !errors.As(err, &e) || len(e.Faults) != 4 || e.Missing != 0 {
		t.Errorf("a batch twice: got %v, want two positions and two keys that came again", err)
	}
}

func TestDeliveriesNameMissingPositions(t *testing.T) {
	c := newClient(t, client.Config{Gateways: []string{serve(t, &fake{batches: 40, generation: "g"})}})
	l := client.NewDeliveries(80, false)
	for i, b := range read(t, c, 0) {
		if i != 35 {
			l.Add(b)
		}
	}
	var e *client.DeliveryError
	if err := l.Check(); !errors.As(err, &e) || e.Missing != 2 || e.First != 70 || len(e.Faults) != 0 {
		t.Errorf("got %v, want 2 missing from position 70", err)
	}
	if err := l.CheckPart(); err != nil {
		t.Errorf("as a part: got %v, want none", err)
	}
}

func TestDeliveriesRefusePositionsBeyondTheEpoch(t *testing.T) {
	c := newClient(t, client.Config{Gateways: []string{serve(t, &fake{batches: 2, generation: "g"})}})
	l := client.NewDeliveries(3, false)
	for _, b := range read(t, c, 0) {
		l.Add(b)
	}
	if err := l.Check(); err == nil {
		t.Error("got no error, want one about position 3")
	}
}

// TestDeliveriesOfAVastDatasetAreSmall uses a number of samples whose bits would exceed any
// memory.
func TestDeliveriesOfAVastDatasetAreSmall(t *testing.T) {
	c := newClient(t, client.Config{Gateways: []string{serve(t, &fake{batches: 2100, generation: "g"})}})
	l := client.NewDeliveries(1<<63, false)
	for _, b := range read(t, c, 0) {
		l.Add(b)
	}
	var e *client.DeliveryError
	if err := l.Check(); !errors.As(err, &e) || e.Missing != 1<<63-4200 || e.First != 4200 || len(e.Faults) != 0 {
		t.Errorf("got %v, want all but the first 4200 missing", err)
	}
}
