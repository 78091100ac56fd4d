package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/client"
)

// TestResume_NamesFirstChangeOfSchedule resumes a run after changes of its schedule: later ones are
// accepted, and the error for an earlier one names its position.
func TestResume_NamesFirstChangeOfSchedule(t *testing.T) {
	gateway := gatewayFor(t, shards(t))
	with := func(schedule ...[]uint64) *client.Client {
		name := "mix:files:2,files(subset=samples:0-2):1,samples=100"
		if len(schedule) > 0 {
			c, err := client.New(client.Config{Gateways: []string{gateway}})
			if err != nil {
				t.Fatal(err)
			}
			digest, err := c.KeepSchedule(t.Context(), "files", schedule)
			if err != nil {
				t.Fatal(err)
			}
			name += ",schedule=" + digest
		}
		c, err := client.New(client.Config{Gateways: []string{gateway}, Dataset: name})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	size := uint64(10)
	saved := func(c *client.Client, epoch uint64) client.State {
		opt, err := c.Resume(t.Context(), client.Options{Epoch: epoch, BatchSize: size}, client.State{})
		if err != nil {
			t.Fatal(err)
		}
		for b, err := range c.Batches(t.Context(), opt) {
			if err != nil {
				t.Fatal(err)
			}
			if b.Number == 4 {
				return opt.After(b)
			}
		}
		t.Fatal("no batch 4")
		return client.State{}
	}
	of := saved(with([]uint64{40, 0, 1}, []uint64{130, 1, 1}), 1)
	plain := saved(with(), 3)
	for _, c := range []struct {
		state    client.State
		schedule [][]uint64
		want     string
	}{
		{of, [][]uint64{{40, 0, 1}, {130, 1, 1}, {150, 1, 0}}, ""},
		{of, [][]uint64{{40, 0, 1}, {140, 1, 1}}, "the weights differ from position 30 of epoch 1 on"},
		{of, [][]uint64{{40, 0, 1}, {90, 1, 0}, {130, 1, 1}}, "the weights differ from position 90 of epoch 0 on"},
		{of, nil, "the weights differ from position 40 of epoch 0 on"},
		{plain, [][]uint64{{50, 0, 1}}, "the weights differ from position 50 of epoch 0 on"},
		{plain, [][]uint64{{350, 0, 1}}, ""},
		{client.State{Generation: of.Generation, Plan: strings.Repeat("0", 32), Epoch: 1, Position: 50}, nil, "use the seed, shuffle"},
	} {
		opt, err := with(c.schedule...).Resume(t.Context(), client.Options{BatchSize: size}, c.state)
		if c.want == "" && (err != nil || opt.Epoch != c.state.Epoch || opt.From != 5) {
			t.Errorf("%v: got %+v, %v", c.schedule, opt, err)
		}
		if c.want != "" && (!errors.Is(err, client.ErrState) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: got %v, want %q", c.schedule, err, c.want)
		}
	}
}
