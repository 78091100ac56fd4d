package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// TestDeliveries_CountAsAModelDoes compares deliveries with a model, for positions and keys that arrive
// once, twice, beyond the epoch, or as padding.
func TestDeliveries_CountAsAModelDoes(t *testing.T) {
	const samples = 9000 // more than two pages
	rapid.Check(t, func(r *rapid.T) {
		l, draws := client.NewDeliveries(samples, false), client.NewDeliveries(samples, true)
		positions, keys := map[uint64]bool{}, map[string]bool{}
		seen, again, repeated := uint64(0), 0, 0
		add := func(padded uint64, of ...client.Sample) {
			b := client.WithManifest(padded, of...)
			l.Add(b)
			draws.Add(b)
			for _, s := range of[:len(of)-int(padded)] {
				seen++
				if s.Position >= samples || positions[s.Position] {
					again++
				}
				if s.Position >= samples {
					continue
				}
				if id := fmt.Sprint(s.Shard, "\x00", s.Key); keys[id] {
					repeated++
				} else {
					keys[id] = true
				}
				positions[s.Position] = true
			}
		}
		for p := range rapid.SampledFrom([]uint64{0, 1, 64, 4095, 4096, 4097, 8192, samples}).Draw(r, "that come first") {
			add(0, client.Sample{Position: p, Key: fmt.Sprint(p), Shard: 0})
		}
		for range rapid.IntRange(0, 12).Draw(r, "batches") {
			some := make([]client.Sample, rapid.IntRange(1, 3).Draw(r, "samples"))
			for i := range some {
				some[i].Position = rapid.SampledFrom([]uint64{0, 1, 63, 64, 65, 4095, 4096, 8191, 8192, samples - 1, samples, samples + 1}).Draw(r, "position")
				some[i].Key = rapid.SampledFrom([]string{"0", "1", "a", "b"}).Draw(r, "key")
				some[i].Shard = rapid.IntRange(0, 1).Draw(r, "shard")
			}
			add(uint64(rapid.IntRange(0, len(some)).Draw(r, "padded")), some...)
		}
		missing, first := uint64(samples-len(positions)), uint64(0)
		for positions[first] {
			first++
		}
		for name, c := range map[string]struct {
			l      *client.Deliveries
			faults int
		}{"samples": {l, again + repeated}, "draws": {draws, again}} {
			var whole, part *client.DeliveryError
			isWhole, isPart := errors.As(c.l.Check(), &whole), errors.As(c.l.CheckPart(), &part)
			if isWhole != (missing > 0 || c.faults > 0) || isPart != (c.faults > 0) || c.l.Seen() != seen || c.l.Missing() != missing {
				r.Errorf("%s: got %v, %v, %d seen, %d missing; want %d faults, %d seen, %d missing", name, whole, part, c.l.Seen(), c.l.Missing(), c.faults, seen, missing)
			}
			if isWhole && (whole.Missing != missing || missing > 0 && whole.First != first || len(whole.Faults)+whole.More != c.faults || len(whole.Faults) != min(c.faults, 10)) {
				r.Errorf("%s: got %+v, want %d missing from %d on, and %d faults", name, whole, missing, first, c.faults)
			}
			if isPart && (part.Missing != 0 || len(part.Faults)+part.More != c.faults) {
				r.Errorf("%s: got %+v of a part, want %d faults", name, part, c.faults)
			}
		}
	})
}

// TestBatches_YieldsAsAModelDoes compares Batches with a model, for any part of an epoch up to a
// refusal or a break. It requests at most Prefetch batches ahead.
func TestBatches_YieldsAsAModelDoes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.Uint64Range(1, 9).Draw(r, "batches")
		refused := rapid.Uint64Range(0, 2*n).Draw(r, "refused")
		opt := client.Options{
			From: rapid.Uint64Range(0, n-1).Draw(r, "from"), Until: rapid.Uint64Range(0, n+2).Draw(r, "until"),
			Step: rapid.Uint64Range(0, 4).Draw(r, "step"), Prefetch: rapid.SampledFrom([]int{-1, 0, 1, 2, 20}).Draw(r, "prefetch"),
		}
		most := rapid.IntRange(1, 12).Draw(r, "break after")
		f := &fake{batches: n, generation: "g"}
		f.fault = func(_ int, w http.ResponseWriter, request *http.Request) bool {
			at := fmt.Sprintf("/epoch/0/batch/%d", refused)
			if request.URL.Path == at {
				refuse(w, http.StatusBadRequest, map[string]any{"code": client.CodeInvalidArgument})
			}
			return request.URL.Path == at
		}
		var want []string
		until := n
		if opt.Until != 0 {
			until = min(until, opt.Until)
		}
		for at := opt.From; at < until && len(want) < most; at += max(opt.Step, 1) {
			if at == refused {
				want = append(want, "refused")
				break
			}
			want = append(want, fmt.Sprint(at))
		}
		var got []string
		c := newClient(t, client.Config{Gateways: []string{"gw"}, HTTP: &http.Client{Transport: transport{f}}})
		for b, err := range c.Batches(t.Context(), opt) {
			ahead := map[int]int{-1: 0, 0: 2}[opt.Prefetch]
			if asked := len(f.seen()); asked > len(got)+1+max(ahead, opt.Prefetch) {
				r.Errorf("got %d batches asked for at the turn %d of the loop", asked, len(got)+1)
			}
			switch {
			case errors.Is(err, &client.Error{Code: client.CodeInvalidArgument}):
				got = append(got, "refused")
			case err != nil:
				r.Errorf("got %v", err)
			default:
				got = append(got, fmt.Sprint(b.Number))
			}
			if len(got) == most {
				break
			}
		}
		if !slices.Equal(got, want) {
			r.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestRestOfAnotherBatchIsNotTaken: the client drops the first part of a batch if the response with
// the rest differs in one header under the same ETag.
func TestRestOfAnotherBatchIsNotTaken(t *testing.T) {
	whole := body(0, 0)
	for name, value := range map[string]string{
		"Millrace-Samples": "3", "Millrace-Batches": "2", "Millrace-Generation": "h", "Millrace-Crc32c": "00000000", "ETag": `"other"`,
		"Content-Range": fmt.Sprintf("bytes 9-%d/%d", len(whole)-1, len(whole)), "": "",
	} {
		var asked []string
		f := &fake{batches: 1, generation: "g"}
		f.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
			asked = append(asked, r.Header.Get("Range"))
			f.answer(w, r, func(h http.Header, b []byte) []byte {
				h.Set("ETag", `"e"`)
				switch n {
				case 0:
					return b[:10]
				case 1:
					h.Set("Content-Range", fmt.Sprintf("bytes 10-%d/%d", len(b)-1, len(b)))
					h.Set("Content-Length", strconv.Itoa(len(b)-10))
					if name != "" {
						h.Set(name, value)
					}
					w.WriteHeader(http.StatusPartialContent)
					return b[10:]
				}
				return b
			})
			return true
		}
		got, err := newClient(t, client.Config{Gateways: []string{serve(t, f)}}).Batch(t.Context(), client.Options{}, 0)
		if err != nil || !bytes.Equal(got.Bytes(), whole) || got.Samples() != 2 || got.Generation != "g" {
			t.Errorf("another %s: got %+v, %v, want the batch", name, got, err)
		}
		want := []string{"", "bytes=10-", ""}
		if name == "" {
			want = want[:2] // the rest belongs to the first part and is accepted
		}
		if !slices.Equal(asked, want) {
			t.Errorf("another %s: asked for the parts %q, want %q", name, asked, want)
		}
	}
}

// TestBatch_RefusesAnotherPlan: the client refuses a response whose canonical address has another
// value for a requested parameter. The error names the parameter.
func TestBatch_RefusesAnotherPlan(t *testing.T) {
	seed := uint64(7)
	for _, tc := range []struct {
		opt    client.Options
		plan   string // query of the response's canonical address
		refuse bool
	}{
		{client.Options{Seed: &seed}, "&seed=7", false},
		{client.Options{Seed: &seed}, "&seed=8", true},
		{client.Options{Seed: new(uint64)}, "&seed=7", true},
		{client.Options{BatchSize: 2}, "&batch_size=3", true},
		{client.Options{Rank: 1, WorldSize: 2, Generation: "g"}, "&rank=0&world_size=2", true},
		{client.Options{Rank: 1, WorldSize: 2, Generation: "g"}, "&rank=1&world_size=3", true},
		{client.Options{Window: 4}, "&window=5", true},
		{client.Options{Shuffle: "full"}, "&shuffle=none", true},
		{client.Options{Tail: "pad"}, "&tail=drop", true},
		{client.Options{Importance: "a"}, "&importance=b", true},
		{client.Options{Quarantine: "a"}, "&quarantine=b", true},
		{client.Options{Strata: 2}, "&strata=3", true},
		{client.Options{Balance: "bytes"}, "&balance=samples", true},
		{client.Options{Share: "locality"}, "&share=contiguous", true},
		{client.Options{Homes: 2}, "&homes=3", true},
		{client.Options{Subset: "val"}, "&subset=aa:val", false},
		{client.Options{Subset: "val"}, "&subset=aa:train", true},
		{client.Options{Subset: "val"}, "&subset=aa:xval", true},
		{client.Options{}, "&batch_size=2", false},
		{client.Options{}, "&batch_size=1", true}, // the rank's share has two samples
		{client.Options{WorldSize: 2, Generation: "g"}, "&batch_size=3", false},
		{client.Options{WorldSize: 2, Generation: "g"}, "&batch_size=2", true},
	} {
		bubble.Test(t, func(t *testing.T) {
			f := &fake{batches: 1, generation: "g", plan: tc.plan}
			c := newClient(t, client.Config{Gateways: []string{"gw"}, HTTP: &http.Client{Transport: transport{f}}})
			if _, err := c.Batch(t.Context(), tc.opt, 0); errors.Is(err, client.ErrProtocol) != tc.refuse || !tc.refuse && err != nil {
				t.Errorf("%+v answered by %s: got %v, want a refusal: %t", tc.opt, tc.plan, err, tc.refuse)
			}
		})
	}
}
