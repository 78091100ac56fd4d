package gateway_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/shuffle"
)

// composed is a plan whose batches are compared with package shuffle, applied to the order of the
// same plan without buckets.
type composed struct {
	dataset, query string
	without        string // the dataset and query without quarantines, if they have one
	seed, epoch    uint64
	size, bucket   uint64
	tail           string
	costs          string // value of balance
	cost           func(s manifestEntry) uint32
}

func storedLength(s manifestEntry) uint32 { return s.Length }

// order returns the samples of the epoch, by position, with the query of a plan without buckets.
func (c composed) order(r *rig, query string) (all []manifestEntry) {
	r.t.Helper()
	epoch := fmt.Sprintf("/v1/datasets/%s/epochs/%d", c.dataset, c.epoch)
	var plan struct{ Batches uint64 }
	r.json(fmt.Sprintf("%s?%s&batch_size=%d&tail=short", epoch, query, c.size), &plan)
	for m := range plan.Batches {
		all = append(all, r.entries(fmt.Sprintf("%s/batches/%d/manifest?%s&batch_size=%d&tail=short", epoch, m, query, c.size))...)
	}
	return all
}

// expected returns the samples of all batches by definition.
func (c composed) expected(r *rig) [][]manifestEntry {
	r.t.Helper()
	order := c.order(r, c.query)
	costly := order
	if dataset, query, ok := strings.Cut(c.without, "?"); ok {
		plain := c
		plain.dataset = dataset
		costly = plain.order(r, query)
	}
	b := shuffle.Buckets{Batches: c.bucket, BatchSize: c.size, Samples: uint64(len(order))}
	sorted := slices.Clone(order)
	for from := uint64(0); ; {
		block, ok := b.Block(from)
		if !ok || from >= b.Samples {
			break
		}
		first, to := b.Range(block)
		var costs []uint32
		for _, s := range costly[first:to] {
			costs = append(costs, c.cost(s))
		}
		for i, former := range b.Arrange(c.seed, c.epoch, block, costs) {
			sorted[first+uint64(i)] = order[first+uint64(former)]
		}
		from = to
	}
	batching := shuffle.Batching{Samples: b.Samples, BatchSize: c.size, Tail: shuffle.Tail(c.tail)}
	batches := make([][]manifestEntry, batching.Batches())
	for m := range batches {
		share := batching.Share(uint64(m), 0, 1)
		for t := share.First; t < share.First+share.Count; t++ {
			s := sorted[t%b.Samples]
			s.Position = t
			batches[m] = append(batches[m], s)
		}
	}
	return batches
}

// check compares the manifests of all ranks with the shares by definition, with the given parameters
// of sharing. It returns the samples that the ranks of the epoch get.
func (c composed) check(r *rig, balance string, world, parts int, skip uint64) (keys []string) {
	r.t.Helper()
	for m, batch := range c.expected(r) {
		if skip >= uint64(len(batch)) {
			continue
		}
		batch = batch[skip:]
		var costs []uint32
		total := uint64(0)
		for _, s := range batch {
			costs = append(costs, c.cost(s))
			total += uint64(max(c.cost(s), 1))
		}
		division := shuffle.Divide(costs, uint64(world))
		for rank := range world {
			places, counts := contiguous(len(batch), rank, world), ""
			if balance != "" {
				places, counts = balanced(costs, division.Share(uint64(rank)), parts)
			}
			var want []manifestEntry
			for _, place := range places {
				want = append(want, batch[place])
				keys = append(keys, batch[place].Key)
			}
			path := fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d", c.dataset, c.epoch, m)
			query := fmt.Sprintf("?%s&batch_size=%d&tail=%s&bucket=%d%s&rank=%d&world_size=%d&skip=%d", c.query, c.size, c.tail, c.bucket, balance, rank, world, skip)
			if parts > 1 {
				query += fmt.Sprintf("&micro=%d", parts)
			}
			if got := r.entries(path + "/manifest" + query); fmt.Sprint(got) != fmt.Sprint(want) {
				r.t.Fatalf("%s%s: got %v, want %v", path, query, got, want)
			}
			a := r.do("GET", path+query)
			var body []byte
			for _, s := range want {
				body = append(body, r.samples[s.Key]...)
			}
			if a.StatusCode != http.StatusOK || !bytes.Equal(a.body, append(body, make([]byte, 1024)...)) {
				r.t.Fatalf("%s%s: got status %d and another body", path, query, a.StatusCode)
			}
			cost := ""
			if balance != "" {
				cost = fmt.Sprint(total)
			}
			if h := a.Header; h.Get("Millrace-Batch-Samples") != fmt.Sprint(len(batch)) || h.Get("Millrace-Batch-Cost") != cost || h.Get("Millrace-Micro") != counts {
				r.t.Errorf("%s%s: got %s samples, cost %s, micro-batches %s, want %d, %s, %s", path, query,
					h.Get("Millrace-Batch-Samples"), h.Get("Millrace-Batch-Cost"), h.Get("Millrace-Micro"), len(batch), cost, counts)
			}
		}
	}
	return keys
}

// contiguous returns the places of a rank without balance.
func contiguous(n, rank, world int) (places []int) {
	for place := rank * n / world; place < (rank+1)*n/world; place++ {
		places = append(places, place)
	}
	return places
}

// balanced returns the places of a share in the order of its micro-batches, and the value of
// Millrace-Micro.
func balanced(costs []uint32, share []uint32, parts int) (places []int, counts string) {
	if parts == 1 {
		for _, place := range share {
			places = append(places, int(place))
		}
		return places, ""
	}
	var own []uint32
	for _, place := range share {
		own = append(own, costs[place])
	}
	d := shuffle.Divide(own, uint64(parts))
	for i := range parts {
		part := d.Share(uint64(i))
		counts += fmt.Sprintf("%d,", len(part))
		for _, at := range part {
			places = append(places, int(share[at]))
		}
	}
	return places, strings.TrimSuffix(counts, ",")
}

// tokensOf is the cost of a sample in a table.
func tokensOf(sample uint64) uint32 { return uint32(sample * 7919 % 31) }

// costs stores a cost table of the dataset with a name, and returns its digest.
func (r *rig) costs(name string, of func(sample uint64) uint32) string {
	r.t.Helper()
	s, generation := r.selections(), r.index.Generation()
	digest, _, err := s.WriteCosts(r.t.Context(), generation, r.index.Samples(), func(yield func([]uint32, error) bool) {
		for n := range r.index.Samples() {
			if !yield([]uint32{of(n)}, nil) {
				return
			}
		}
	})
	if err == nil {
		err = s.NameCosts(r.t.Context(), generation, name, digest)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return digest
}

// compositions returns the plans of the table "Composition" in docs/spec/order.md.
func compositions(r *rig) map[string]composed {
	snapshot := r.snapshot().Snapshot
	schedule := r.schedule(http.StatusCreated, "[[12,1,0],[24,1,3]]")
	c := composed{dataset: "photos", seed: 7, epoch: 1, size: 4, bucket: 3, tail: "short", costs: "bytes", cost: storedLength}
	with := func(dataset, query, without string) composed {
		c := c
		c.dataset, c.query, c.without = dataset, query, without
		return c
	}
	bad := "&quarantine=samples:3,8-11,20"
	numbers := map[string]uint64{}
	for i, key := range r.order {
		numbers[key] = uint64(i)
	}
	byTable := func(c composed) composed {
		c.costs, c.cost = "cost:tokens", func(s manifestEntry) uint32 { return tokensOf(numbers[s.Key]) }
		return c
	}
	r.costs("tokens", tokensOf)
	return map[string]composed{
		"none":       with("photos", "shuffle=none", ""),
		"window":     with("photos", "shuffle=window&window=2", ""),
		"slot":       with("photos", "shuffle=slot", ""),
		"full":       with("photos", "shuffle=full", ""),
		"subset":     with("photos", "subset=train=3,val=1:train", ""),
		"quarantine": with("photos", "seed=7"+bad, "photos?seed=7"),
		"both":       with("photos", "subset=samples:0-30"+bad, "photos?subset=samples:0-30"),
		"importance": with("photos", "importance="+snapshot, ""),
		"mixture":    with("mix:photos:3,scans:1,samples=46", "seed=7", ""),
		"sources":    with("mix:photos(subset=samples:0-19"+bad+"):1,scans:2,samples=46", "seed=7", "mix:photos(subset=samples:0-19):1,scans:2,samples=46?seed=7"),
		"table":      byTable(with("photos", "seed=7"+bad, "photos?seed=7")),
		"tables":     byTable(with("mix:photos:3,photos(subset=samples:0-19"+bad+"):1,samples=46", "seed=7", "mix:photos:3,photos(subset=samples:0-19):1,samples=46?seed=7")),
		"drawn":      byTable(with("photos", "importance="+snapshot, "")),
		"schedule":   with("mix:photos:3,scans:1,samples=48,schedule="+schedule, "seed=7", ""),
	}
}

// TestComposition compares batches in buckets, balanced or not, with their definition.
func TestComposition(t *testing.T) {
	r, _ := mixedRig(t)
	for name, c := range compositions(r) {
		t.Run(name, func(t *testing.T) {
			on := *r
			on.t = t
			for i, tail := range []string{"short", "drop", "pad"} {
				c.tail = tail
				if keys := c.check(&on, "&balance="+c.costs, 3, 1, 0); tail == "short" {
					checkKeys(t, keys, c.order(&on, c.query))
				}
				if c.costs == "bytes" {
					c.check(&on, "", 3, 1, 0)
				}
				c.check(&on, "&balance="+c.costs, 3, 1, uint64(i))
				c.check(&on, "&balance="+c.costs, 2, 2, 0)
			}
		})
	}
}

// checkKeys checks that an epoch delivers the samples of another order, in any order.
func checkKeys(t *testing.T, keys []string, order []manifestEntry) {
	t.Helper()
	var want []string
	for _, s := range order {
		want = append(want, s.Key)
	}
	slices.Sort(keys)
	slices.Sort(want)
	if !slices.Equal(keys, want) {
		t.Errorf("got samples %q, want %q", keys, want)
	}
}

// TestComposition_Locality compares the shares of ranks that follow homes, of batches in buckets,
// with the homes of the samples.
func TestComposition_Locality(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	for query, params := range homely() {
		plan, err := shuffle.NewPlan(params, r.index.First())
		if err != nil {
			t.Fatal(err)
		}
		c := composed{dataset: "photos", query: query, seed: 7, epoch: 1, size: 8, bucket: 3, tail: "pad", cost: storedLength}
		at := map[string]uint64{}
		for _, s := range c.order(r, query) {
			at[s.Key] = s.Position
		}
		for m, batch := range c.expected(r) {
			var former []uint64
			for _, s := range batch {
				former = append(former, at[s.Key])
			}
			for rank := range uint64(5) {
				var want []manifestEntry
				for _, place := range plan.Epoch(1).DealHomesAt(former, rank, 5, 2) {
					want = append(want, batch[place])
				}
				path := fmt.Sprintf("/v1/datasets/photos/epochs/1/batches/%d/manifest?%s&batch_size=8&tail=pad&bucket=3&share=locality&homes=2&world_size=5&rank=%d", m, query, rank)
				if got := r.entries(path); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%s: got %v, want %v", path, got, want)
				}
			}
		}
	}
}

// TestBuckets_OnAnyGateway compares the bytes from two gateways with separate caches, which serve
// the batches in different orders.
func TestBuckets_OnAnyGateway(t *testing.T) {
	a, b := newRig(t, 50, 800, nil), newRig(t, 50, 800, nil)
	const path = "/v1/datasets/photos/epochs/3/batches/%d?batch_size=6&bucket=3&balance=bytes&micro=2&world_size=3&rank=%d"
	var bodies [][]byte
	for i := range 24 {
		bodies = append(bodies, a.do("GET", fmt.Sprintf(path, i/3, i%3)).body)
	}
	for i := range 24 {
		i = i * 7 % 24
		if got := b.do("GET", fmt.Sprintf(path, i/3, i%3)); !bytes.Equal(got.body, bodies[i]) || got.StatusCode != http.StatusOK {
			t.Errorf("batch %d, rank %d: got status %d and another body", i/3, i%3, got.StatusCode)
		}
	}
}

// TestBuckets_DescribesAnEpoch compares the digests of an epoch with those of package shuffle.
func TestBuckets_DescribesAnEpoch(t *testing.T) {
	r, _ := mixedRig(t)
	schedule := r.schedule(http.StatusCreated, "[[12,1,0],[24,1,3]]")
	type epoch struct {
		Digest   string             `json:"order_digest"`
		Digests  []shuffle.DigestAt `json:"plan_digests"`
		Memory   uint64             `json:"window_memory"`
		Variance *float64           `json:"expected_batch_variance"`
		Links    struct{ Draws string }
	}
	for _, dataset := range []string{"photos", "mix:photos:3,scans:1,samples=48,schedule=" + schedule} {
		var plain, sorted epoch
		path := "/v1/datasets/" + dataset + "/epochs/0?batch_size=4"
		r.json(path, &plain)
		r.json(path+"&bucket=3", &sorted)
		if got, want := sorted.Digest, shuffle.BucketDigest(plain.Digest, 3, 4, "bytes"); got != want || len(sorted.Digests) != len(plain.Digests) {
			t.Errorf("%s: got digest %s and %d plan digests, want %s and %d", dataset, got, len(sorted.Digests), want, len(plain.Digests))
		}
		for i, at := range sorted.Digests {
			if want := shuffle.BucketDigest(plain.Digests[i].Digest, 3, 4, "bytes"); at.Digest != want || at.Position != plain.Digests[i].Position {
				t.Errorf("%s: got plan digest %v, want %s", dataset, at, want)
			}
		}
		if sorted.Memory <= plain.Memory || sorted.Variance != nil || sorted.Links.Draws != "" {
			t.Errorf("%s: got %d bytes of memory, variance %v and link %q, want more than %d, none and none", dataset, sorted.Memory, sorted.Variance, sorted.Links.Draws, plain.Memory)
		}
	}
	for path, name := range map[string]string{
		"photos/epochs/0?batch_size=4&bucket=262145": "bucket", "photos/epochs/0?bucket=0": "bucket", "photos/epochs/0/draws?bucket=2": "bucket",
		"photos/epochs/0/samples?at=1&bucket=2":                                                    "bucket",
		"mix:photos:3,scans:1,samples=48,schedule=" + schedule + "/epochs/0?batch_size=4&bucket=2": "bucket",
	} {
		p := checkProblem(t, r.do("GET", "/v1/datasets/"+path), http.StatusBadRequest, "invalid_argument", false)
		if len(p.Faults) != 1 || p.Faults[0].Name != name {
			t.Errorf("%s: got faults %v, want one of %s", path, p.Faults, name)
		}
	}
	const far = "/v1/datasets/photos/occurrences?key=d0%2Fs00001&batch_size=1024&bucket=1024&epochs="
	checkProblem(t, r.do("GET", far+"0-9"), http.StatusBadRequest, "invalid_argument", false)
}

// TestCosts_AreNamed compares batches by the name of a cost table with those by its digest.
func TestCosts_AreNamed(t *testing.T) {
	r, _ := mixedRig(t)
	const mixture = "mix:photos:3,photos(subset=samples:0-19):1"
	digest := r.costs("tokens", tokensOf)
	for dataset, want := range map[string]string{"photos": digest, mixture: digest + "," + digest} {
		path := "/v1/datasets/" + dataset + "/epochs/1/batches/2?bucket=3&micro=2&batch_size=4&world_size=2&balance=cost"
		a, b := r.do("GET", path+":tokens"), r.do("GET", path+"%3A"+strings.ReplaceAll(want, ",", "%2C"))
		location := a.Header.Get("Content-Location")
		if !strings.Contains(location, "balance=cost:"+want+"&") || location != b.Header.Get("Content-Location") || !bytes.Equal(a.body, b.body) || a.StatusCode != http.StatusOK {
			t.Errorf("%s: got status %d, location %s, by digest %s", dataset, a.StatusCode, location, b.Header.Get("Content-Location"))
		}
	}
	for path, reason := range map[string]string{
		"photos/epochs/0/batches/0?balance=cost:nothing":                    "no cost table nothing of the present generation of photos: create it with millrace cost",
		"mix:photos:1,scans:1/epochs/0/batches/0?balance=cost:tokens":       "no cost table tokens of the present generation of scans: create it with millrace cost",
		"photos/epochs/0/batches/0?balance=cost:" + strings.Repeat("0", 64): "dataset photos has no cost table 000000000000: create it with millrace cost",
		"photos/epochs/0/batches/0?balance=cost:" + digest + "," + digest:   "got 2 cost tables, want 1: one for each source, in order",
		"photos/epochs/0/batches/0?balance=cost:a/b":                        "must be samples, bytes, or cost: and the name of a cost table, of at most 64 letters, digits, dots, dashes and underscores, or its digest; of a mixture, a digest for each source",
		"photos/epochs/0/batches/0?balance=cost:":                           "must be samples, bytes, or cost: and the name of a cost table, of at most 64 letters, digits, dots, dashes and underscores, or its digest; of a mixture, a digest for each source",
	} {
		p := checkProblem(t, r.do("GET", "/v1/datasets/"+path), http.StatusBadRequest, "invalid_argument", false)
		if len(p.Faults) != 1 || p.Faults[0].Name != "balance" || p.Faults[0].Reason != reason {
			t.Errorf("%s: got faults %v, want balance: %s", path, p.Faults, reason)
		}
	}
}
