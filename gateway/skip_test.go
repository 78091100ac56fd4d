package gateway_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/shuffle"
)

// skipCase is a plan whose batches are read in part.
type skipCase struct {
	dataset, query string
	world          uint64
	share          func(rest []manifestEntry, rank, world uint64) []int // places in the rest of a batch
}

// contiguousShare is the share of a rank by default.
func contiguousShare(rest []manifestEntry, rank, world uint64) (places []int) {
	n := uint64(len(rest))
	for place := rank * n / world; place < (rank+1)*n/world; place++ {
		places = append(places, int(place))
	}
	return places
}

// lengthShare is the share of a rank with balance=bytes.
func lengthShare(rest []manifestEntry, rank, world uint64) []int {
	lengths := make([]int, len(rest))
	for i, s := range rest {
		lengths[i] = int(s.Length)
	}
	return divided(lengths, int(world))[rank]
}

// homeShare returns the shares of ranks with share=locality and two homes.
func homeShare(order *shuffle.Epoch) func([]manifestEntry, uint64, uint64) []int {
	return func(rest []manifestEntry, rank, world uint64) []int {
		return order.DealHomes(shuffle.Share{First: rest[0].Position, Count: uint64(len(rest))}, rank, world, 2)
	}
}

// TestSkip_SharesTheRestOfABatch compares bodies, headers and manifests of all ranks with the
// manifest of the whole batch, for every kind of plan and share.
func TestSkip_SharesTheRestOfABatch(t *testing.T) {
	r, _ := mixedRig(t)
	r.split("train=3,val=1", "")
	snapshot := r.snapshot().Snapshot
	cases := []skipCase{
		{"photos", "tail=short&batch_size=20", 3, contiguousShare},
		{"photos", "tail=drop&batch_size=20&shuffle=full", 3, contiguousShare},
		{"photos", "tail=pad&batch_size=20&shuffle=window&window=2", 3, contiguousShare},
		{"photos", "tail=pad&batch_size=20&balance=bytes", 3, lengthShare},
		{"photos", "tail=pad&batch_size=20&importance=" + snapshot, 2, contiguousShare},
		{"photos", "batch_size=20&balance=bytes&importance=" + snapshot, 2, lengthShare},
		{"photos", "batch_size=9&subset=val&quarantine=samples:3,20", 2, contiguousShare},
		{"mix:photos:3,scans:1,samples=70", "batch_size=16", 3, contiguousShare},
		{"mix:photos:3,scans:1,samples=70", "batch_size=16&tail=pad&balance=bytes", 3, lengthShare},
	}
	for query, params := range homely() {
		plan, err := shuffle.NewPlan(params, r.index.First())
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, skipCase{"photos", query + "&batch_size=20&tail=pad&share=locality&homes=2", 5, homeShare(plan.Epoch(1))})
	}
	for _, c := range cases {
		var epoch struct{ Batches, Samples uint64 }
		r.json("/v1/datasets/"+c.dataset+"/epochs/1?"+withoutSharing(c.query), &epoch)
		for batch := range epoch.Batches {
			r.checkSkip(c, batch, epoch.Samples)
		}
	}
}

// withoutSharing removes the parameters that only several ranks may have.
func withoutSharing(query string) string {
	return strings.NewReplacer("&share=locality&homes=2", "", "&balance=bytes", "").Replace(query)
}

// checkSkip compares the shares of a batch without its first samples with the whole batch.
func (r *rig) checkSkip(c skipCase, batch, samples uint64) {
	r.t.Helper()
	at := fmt.Sprintf("/v1/datasets/%s/epochs/1/batches/%d", c.dataset, batch)
	whole := r.entries(at + "/manifest?" + withoutSharing(c.query))
	n := len(whole)
	for _, k := range slices.Compact([]int{0, 1, n / 2, n - 1}) {
		if k >= n {
			continue
		}
		for rank := range c.world {
			query := fmt.Sprintf("?%s&rank=%d&world_size=%d&skip=%d", c.query, rank, c.world, k)
			var want []manifestEntry
			var body []byte
			padded := 0
			for _, place := range c.share(whole[k:], rank, c.world) {
				s := whole[k+place]
				want, body = append(want, s), append(body, r.samples[s.Key]...)
				if s.Position >= samples {
					padded++
				}
			}
			if got := r.entries(at + "/manifest" + query); fmt.Sprint(got) != fmt.Sprint(want) {
				r.t.Errorf("%s%s: got %v, want %v", at, query, got, want)
			}
			a := r.do("GET", at+query)
			if !bytes.Equal(a.body, append(body, make([]byte, 1024)...)) {
				r.t.Errorf("%s%s: got status %d and %d bytes, want 200 and %d", at, query, a.StatusCode, len(a.body), len(body)+1024)
			}
			if h := a.Header; h.Get("Millrace-Samples") != strconv.Itoa(len(want)) || h.Get("Millrace-Padded") != strconv.Itoa(padded) {
				r.t.Errorf("%s%s: got %s samples, %s of padding, want %d and %d", at, query, h.Get("Millrace-Samples"), h.Get("Millrace-Padded"), len(want), padded)
			}
		}
	}
}

// TestSkip_IsPartOfTheAddress: an incomplete batch has its own canonical URL and ETag, and the next
// batch is complete.
func TestSkip_IsPartOfTheAddress(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	whole, zero, rest := r.do("GET", "/epoch/0/batch/1"), r.do("GET", "/epoch/0/batch/1?skip=0"), r.do("GET", "/epoch/0/batch/1?skip=3")
	location := rest.Header.Get("Content-Location")
	if !strings.Contains(location, "&shuffle=slot&skip=3&tail=") {
		t.Errorf("got Content-Location %s, want skip=3 in alphabetical order", location)
	}
	if next := rest.Header.Get("Link"); next != whole.Header.Get("Link") || next == "" {
		t.Errorf("got the next batch %q, want the whole batch %q", next, whole.Header.Get("Link"))
	}
	for _, name := range []string{"Content-Location", "ETag"} {
		if zero.Header.Get(name) != whole.Header.Get(name) || rest.Header.Get(name) == whole.Header.Get(name) {
			t.Errorf("got %s %s, with skip=0 %s, with skip=3 %s", name, whole.Header.Get(name), zero.Header.Get(name), rest.Header.Get(name))
		}
	}
	if again := r.do("GET", location); !bytes.Equal(again.body, rest.body) || again.Header.Get("ETag") != rest.Header.Get("ETag") {
		t.Errorf("%s: got status %d and another body", location, again.StatusCode)
	}
	for _, form := range []string{"framed", "multipart", "arrow"} {
		if a := r.do("GET", "/epoch/0/batch/1?skip=3&format="+form); a.StatusCode != http.StatusOK || a.Header.Get("Millrace-Samples") != "13" {
			t.Errorf("%s: got status %d and %s samples, want 200 and 13", form, a.StatusCode, a.Header.Get("Millrace-Samples"))
		}
	}
	r.accept(fmt.Sprintf(`{"url":%q,"losses":[%s0.5]}`, location, strings.Repeat("0.5,", 12)))
	r.accept(fmt.Sprintf(`{"url":%q,"losses":[%s0.5]}`, whole.Header.Get("Content-Location"), strings.Repeat("0.5,", 15)))
}

func TestSkip_IsRefusedWithoutASample(t *testing.T) {
	r, _ := mixedRig(t)
	const d = "/v1/datasets/photos/epochs/0"
	for path, reason := range map[string]string{
		"/epoch/0/batch/0?skip=16":                                              "must be below 16, the samples in the batch",
		"/epoch/0/batch/3?skip=2&tail=short":                                    "must be below 2, the samples in the batch",
		"/epoch/0/batch/3?skip=16&tail=pad":                                     "must be below 16, the samples in the batch",
		d + "/batches/0/manifest?skip=2147483647":                               "must be below 16, the samples in the batch",
		"/epoch/0/batch/0?skip=-1":                                              "must be an unsigned decimal number, with digits only",
		"/epoch/0/batch/0?skip=2147483648":                                      "must be at most 2147483647",
		"/v1/datasets/mix:photos:5,scans:2,per-batch/epochs/0/batches/0?skip=1": "must be 0: a batch of this mixture has fixed counts of its sources",
		d + "?skip=1":                "unknown parameter",
		d + "/batches?skip=1":        "unknown parameter",
		d + "/samples?at=1&skip=1":   "unknown parameter",
		d + "/draws?skip=1":          "unknown parameter",
		d + "/wds/000000.tar?skip=1": "unknown parameter",
	} {
		p := checkProblem(t, r.do("GET", path), http.StatusBadRequest, "invalid_argument", false)
		if len(p.Faults) != 1 || p.Faults[0].Name != "skip" || p.Faults[0].Reason != reason {
			t.Errorf("%s: got faults %v, want skip: %s", path, p.Faults, reason)
		}
	}
	url := d + "?generation=" + r.index.Generation() + "&skip=1"
	p := checkProblem(t, r.post(importancePath, fmt.Sprintf(`{"url":%q,"losses":[1]}`, url)), http.StatusBadRequest, "invalid_argument", false)
	if !strings.Contains(fmt.Sprint(p.Faults), "url.skip") {
		t.Errorf("an epoch: got faults %v, want url.skip", p.Faults)
	}
}
