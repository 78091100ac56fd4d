package client_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/testing/seeds"
	"github.com/millrace-data/millrace/shuffle"
)

// copies reads mixtures whose sources are the same stored dataset.
type copies struct{ storedDataset }

func (c copies) Read(ctx context.Context, at shuffle.Cursor, chunks []batch.ChunkRanges) (*batch.Body, error) {
	own := slices.Clone(chunks)
	for i := range own {
		own[i].Chunk %= c.index.Chunks()
	}
	return c.storedDataset.Read(ctx, at, own)
}

// delivery is a delivered position of a run with the digest of its sample.
type delivery struct {
	epoch, position uint64
	digest          [sha256.Size]byte
}

// switches is a run that is stopped and resumed at random.
type switches struct {
	*testing.T
	client  *client.Client
	dataset string
	random  *rand.Rand
	opt     client.Options // of the run; sizes and shares differ between its parts
	fixed   bool           // the batch size determines which samples come
	state   client.State
	read    []delivery // up to state
	count   int        // switches
}

// perBatch ends the name of a mixture in fixed counts.
const perBatch = ",per-batch"

// switchEpochs is the number of epochs of a run.
const switchEpochs = 3

// randomRun returns options and the dataset of a run.
func randomRun(random *rand.Rand) (dataset string, opt client.Options, fixed bool) {
	seed := random.Uint64()
	opt.Seed, opt.Tail = &seed, pick(random, "short", "short", "pad", "drop")
	opt.Shuffle = pick(random, shuffle.None, shuffle.Window, shuffle.Slot, shuffle.Full)
	if shuffle.UsesWindow(opt.Shuffle) {
		opt.Window = pick[uint64](random, 1, 4, 8)
	}
	opt.BatchSize = pick[uint64](random, 7, 12, 25)
	dataset = pick(random, "photos", "photos", "mix:photos:3,photos(subset=samples:0-20):1,samples=50", "mix:photos:5,photos(quarantine=samples:7):2"+perBatch)
	if strings.HasSuffix(dataset, perBatch) {
		opt.BatchSize = 0
	}
	if dataset == "photos" {
		opt.Subset, opt.Quarantine = pick(random, "", "", "samples:3-40"), pick(random, "", "samples:5,9")
	}
	return dataset, opt, opt.Tail == "drop" || strings.HasSuffix(dataset, perBatch)
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

// TestState_RandomSwitchesDeliverTheRunInOnePiece compares runs that continue on random ranks and
// batch sizes, after clean ends, kills and in the middle of batches, with the same runs in one
// piece.
func TestState_RandomSwitchesDeliverTheRunInOnePiece(t *testing.T) {
	s := newStored(t)
	g := newReal(t, s, gateway.Config{Mix: func([]gateway.Dataset) gateway.Source { return copies{s} }})
	from, to, few := seeds.Range(t, 15, 1000)
	all := 0
	for seed := from; seed < to; seed++ {
		random := rand.New(rand.NewPCG(seed, 38))
		dataset, opt, fixed := randomRun(random)
		opt.Manifest = true
		c := newClient(t, client.Config{Gateways: []string{g.url}, Dataset: dataset})
		whole := &switches{T: t, client: c, dataset: dataset, opt: opt, fixed: true}
		for whole.state.Epoch < switchEpochs {
			whole.part(opt, 1, 1<<20, 0, 0)
		}
		for i, d := range whole.read {
			if d.position != 0 && (i == 0 || whole.read[i-1].position+1 != d.position) {
				t.Fatalf("seed %d: %s, %+v: got position %d after %d others of the whole run", seed, dataset, opt, d.position, i)
			}
		}
		parts := &switches{T: t, client: c, dataset: dataset, random: random, opt: opt, fixed: fixed}
		for parts.state.Epoch < switchEpochs {
			parts.randomPart()
		}
		all += parts.count
		if !slices.Equal(parts.read, whole.read) {
			i := 0
			for i < min(len(parts.read), len(whole.read)) && parts.read[i] == whole.read[i] {
				i++
			}
			t.Fatalf("seed %d: %s, %+v: got %d deliveries, want %d; number %d is the first that differs", seed, dataset, opt, len(parts.read), len(whole.read), i)
		}
	}
	if t.Logf("%d switches", all); !few && all < 100 {
		t.Errorf("got %d switches, want at least 100", all)
	}
}

// randomPart reads a part of the run by random ranks.
func (r *switches) randomPart() {
	r.Helper()
	opt, world := r.opt, pick[uint64](r.random, 1, 1, 2, 3, 7)
	if !r.fixed {
		opt.BatchSize = pick[uint64](r.random, 0, 1, 5, 8, 25, 100)
	}
	if opt.Balance = pick(r.random, "", "bytes"); opt.Balance == "" && opt.Shuffle == shuffle.Slot && opt.Window > 1 && r.dataset == "photos" {
		opt.Share, opt.Homes = "locality", min(world, 2)
	}
	within := 0
	if world == 1 && r.random.IntN(2) == 0 && !strings.HasSuffix(r.dataset, perBatch) {
		within = 1 + r.random.IntN(10)
	}
	r.part(opt, world, uint64(1+r.random.IntN(4)), r.random.IntN(3), within)
}

// part continues the run on world ranks for some batches. After the last state that is saved, the
// ranks read up to lost further batches, and are killed. With within, one rank saves its last state
// after that many samples of the last batch.
func (r *switches) part(opt client.Options, world, batches uint64, lost, within int) {
	r.Helper()
	text, err := json.Marshal(r.state)
	if r.count++; err != nil || r.count > 1000 {
		r.Fatalf("after %d parts: %s, %v", r.count, text, err)
	}
	var came []delivery
	saved := map[client.State]bool{}
	for rank := range world {
		var s client.State
		if r.state != s {
			if err := json.Unmarshal(text, &s); err != nil {
				r.Fatal(err)
			}
		}
		opt.Rank, opt.WorldSize = rank, world
		own, err := r.client.Resume(r.Context(), opt, s)
		if err != nil {
			r.Fatalf("resume %s: %v", text, err)
		}
		state, read := r.rank(own, own.From+batches, lost, within)
		saved[state], came = true, append(came, read...)
	}
	if len(saved) != 1 {
		r.Fatalf("%d ranks saved the states %v after %s, want one", world, saved, text)
	}
	slices.SortFunc(came, func(a, b delivery) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.position, b.position))
	})
	for s := range saved {
		r.state = s
	}
	r.read = append(r.read, came...)
}

// rank reads the share of one rank. It returns the state that the rank saves, and its deliveries up
// to that state.
func (r *switches) rank(opt client.Options, until uint64, lost, within int) (state client.State, read []delivery) {
	r.Helper()
	var later int
	for b, err := range r.client.Batches(r.Context(), opt) {
		if err != nil {
			r.Fatal(err)
		}
		n := b.Samples()
		last := b.Number+1 == until || b.Number+1 == b.Batches
		switch {
		case b.Number >= until: // read and rolled back
			if later++; later > lost {
				return state, read
			}
			continue
		case last && within > 0:
			n = min(n, within)
			state = opt.AfterSample(b, n-1)
		default:
			state = opt.After(b)
		}
		for i := range n {
			d := b.Describe(i)
			if i >= b.Samples()-int(b.Padded) {
				break
			}
			read = append(read, delivery{b.Epoch, d.Position, sha256.Sum256(b.Sample(i))})
		}
	}
	return state, read
}
