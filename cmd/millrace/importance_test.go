package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/node"
)

// TestFetch_DrawsByImportance reports the losses of an epoch through the client, and reads the next
// epoch with weights from these losses.
func TestFetch_DrawsByImportance(t *testing.T) {
	url := gatewayFor(t, shards(t))
	c, err := client.New(client.Config{Gateways: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdle()
	var last *client.Batch
	for b, err := range c.Batches(t.Context(), client.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		losses := make([]float64, b.Samples())
		for i := range losses {
			losses[i] = float64((int(b.Number)*8 + i) % 7)
		}
		if err := c.Report(t.Context(), b, losses); err != nil {
			t.Fatal(err)
		}
		last = b
	}
	snapshot, err := c.Freeze(t.Context(), last)
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{{}, {"--world-size", "3", "--all-ranks", "--balance", "bytes"}, {"--tail", "pad"}, {"--from", "2", "--until", "5"}, {"--tail", "drop"}, {"--shuffle", "none"}, {"--shuffle", "window", "--window", "3"}, {"--shuffle", "full"}} {
		out := ok(t, append([]string{"fetch", url, "--epoch", "1", "--importance", snapshot}, more...)...).stdout
		want := "every draw came exactly once"
		switch strings.Join(more, " ") {
		case "--from 2 --until 5":
			want = "no draw came twice (24 of 50 draws were asked for)"
		case "--tail drop":
			want = "no draw came twice, 2 of the tail were dropped as the plan says"
		}
		if !strings.Contains(out, want) {
			t.Errorf("%v: got %q, want %q", more, out, want)
		}
	}
	if out := ok(t, "explain", url, "--importance", snapshot).stdout; !strings.Contains(out, "coverage") || !strings.Contains(out, snapshot) {
		t.Errorf("got %s, want the coverage and the snapshot's name", out)
	}
	for _, name := range []string{"none", "window", "slot", "full"} {
		if out := ok(t, "warm", url, "--epoch", "1", "--shuffle", name, "--importance", snapshot).stdout; !strings.Contains(out, "all 50 samples are in the caches") {
			t.Errorf("%s: got %q, want all samples in the caches", name, out)
		}
	}
	if o := millrace(t, nil, "fetch", url, "--importance", strings.Repeat("0", 64)); o.code != exitNotFound {
		t.Errorf("unknown snapshot: got exit code %d, want 4\n%s", o.code, o.stderr)
	}
}

// TestServe_LossLogBelongsToOneGateway: a second gateway with the same loss log gets an error.
// serve --check works meanwhile.
func TestServe_LossLogBelongsToOneGateway(t *testing.T) {
	dir, log := shards(t), t.TempDir()
	a := &app{cli.New([]string{"GOMEMLIMIT=off"}, &bytes.Buffer{}, &bytes.Buffer{})}
	compose := func(check bool) (*node.Node, error) {
		c := &serveConfig{logLevel: "error", logFormat: "json", Config: node.Config{CacheSize: 64 << 20, Memory: 1 << 40, LossLog: log, Check: check}}
		c.Locations = []location.Location{{Name: "files", Dir: dir}}
		return a.compose(t.Context(), c)
	}
	first, err := compose(false)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := compose(true); err != nil {
		t.Errorf("check: got %v, want none", err)
	} else {
		s.Close()
	}
	if _, err := compose(false); err == nil || !strings.Contains(err.Error(), "loss-log") || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second gateway: got %v, want loss-log to be in use", err)
	}
	first.Close()
	again, err := compose(false)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	again.Close()
}
