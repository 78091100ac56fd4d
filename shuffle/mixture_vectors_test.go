//go:build !race

package shuffle

import (
	"slices"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/vectors"
)

const mixturesFile = "testdata/mixtures.json"

// mixtureVectors are vectors of quarantine, subsets and mixtures.
type mixtureVectors struct {
	Quarantine []quarantineVector `json:"quarantine"`
	Subset     []subsetVector     `json:"subset"`
	Mixture    []mixtureVector    `json:"mixture"`
}

type quarantineVector struct {
	Shuffle     string      `json:"shuffle"`
	Window      uint64      `json:"window"`
	Seed        uint64      `json:"seed"`
	Epoch       uint64      `json:"epoch"`
	Chunks      [][2]uint64 `json:"chunks"`            // runs of chunks: samples per chunk, number of chunks
	Subset      string      `json:"subset,omitempty"`  // Bad and Substitutes number the samples of this subset
	Members     [][2]uint64 `json:"members,omitempty"` // runs of samples: 1 for members, number of samples
	Bad         []uint64    `json:"bad"`
	OrderDigest string      `json:"order_digest"`
	Substitutes []uint64    `json:"substitutes"` // substitutes of the bad samples
	Digest      string      `json:"digest"`      // digest of the epoch's samples
}

type subsetVector struct {
	Shuffle     string      `json:"shuffle"`
	Window      uint64      `json:"window"`
	Seed        uint64      `json:"seed"`
	Epoch       uint64      `json:"epoch"`
	Subset      string      `json:"subset"`
	Chunks      [][2]uint64 `json:"chunks"`
	Members     [][2]uint64 `json:"members"` // runs of samples: 1 for members, number of samples
	OrderDigest string      `json:"order_digest"`
	Samples     uint64      `json:"samples"`
	Digest      string      `json:"digest"` // digest of the epoch's samples, by their numbers in the dataset
}

type mixtureVector struct {
	Seed        uint64      `json:"seed"`
	T           uint64      `json:"t"`                  // 0: the sum of the sources' samples
	Sources     [][3]uint64 `json:"sources"`            // samples, weight, count per batch
	Schedule    [][]uint64  `json:"schedule,omitempty"` // first position and weights of each segment after the first
	Samples     uint64      `json:"samples"`
	Seeds       []uint64    `json:"seeds"`
	Positions   [][2]uint64 `json:"positions"` // epoch, position
	Turns       [][3]uint64 `json:"turns"`     // source, own epoch, own position
	Counts      [][]uint64  `json:"counts"`    // counts before each position
	Found       [][2]uint64 `json:"found"`     // position of the next sample of source 0
	OrderDigest string      `json:"order_digest"`
	DigestsAt   []string    `json:"digests_at,omitempty"` // with a schedule, digest at each position
	Digest      string      `json:"digest,omitempty"`     // digest of source, own epoch and own position over epoch 1
}

func (v *quarantineVector) fill(t *testing.T) {
	first := (&planVector{Chunks: v.Chunks}).first()
	p := mustPlan(t, Params{Shuffle: v.Shuffle, Window: v.Window, Seed: v.Seed}, first)
	if v.Subset != "" {
		s := subsetVector{Shuffle: v.Shuffle, Window: v.Window, Seed: v.Seed, Chunks: v.Chunks, Subset: v.Subset, Members: v.Members}
		p, _ = s.plan(t)
		first = p.chunks
	}
	q, err := NewQuarantine(v.Seed, first, v.Bad)
	if err != nil {
		t.Fatal(err)
	}
	v.Substitutes = append([]uint64{}, v.Bad...)
	q.Replace(v.Epoch, v.Substitutes)
	samples := p.Epoch(v.Epoch).Append(nil, 0, p.Samples())
	q.Replace(v.Epoch, samples)
	v.OrderDigest, v.Digest = q.OrderDigest(p), digestOf(samples)
}

// size returns the number of samples in the subset.
func (v *subsetVector) size() (n uint64) {
	for _, run := range v.Members {
		n += run[0] * run[1]
	}
	return n
}

// plan returns the plan of the subset, and the samples in it.
func (v *subsetVector) plan(t *testing.T) (*Plan, split) {
	s := split{first: (&planVector{Chunks: v.Chunks}).first()}
	var is []bool
	for _, run := range v.Members {
		for range run[1] {
			is = append(is, run[0] == 1)
		}
	}
	for i := range len(s.first) - 1 {
		b := make([]byte, (s.first[i+1]-s.first[i]+7)/8)
		for k, in := range is[s.first[i]:s.first[i+1]] {
			if in {
				b[k/8] |= 1 << (k % 8)
			}
		}
		s.bitmaps = append(s.bitmaps, b)
	}
	_, members := s.members()
	p, err := NewSubsetPlan(Params{Shuffle: v.Shuffle, Window: v.Window, Seed: v.Seed, Subset: v.Subset}, s.first, members)
	if err != nil {
		t.Fatal(err)
	}
	return p, s
}

func (v *subsetVector) fill(t *testing.T) {
	p, s := v.plan(t)
	samples := p.Epoch(v.Epoch).Append(nil, 0, p.Samples())
	for i, x := range samples {
		samples[i] = s.stored(p.Members(), x)
	}
	v.OrderDigest, v.Samples, v.Digest = p.OrderDigest(), p.Samples(), digestOf(samples)
}

func (v *mixtureVector) fill(t *testing.T) {
	var from []Ingredient
	for _, s := range v.Sources {
		from = append(from, Ingredient{Samples: s[0], Weight: s[1], PerBatch: s[2]})
	}
	var schedule []Segment
	for _, s := range v.Schedule {
		schedule = append(schedule, Segment{First: s[0], Weights: s[1:]})
	}
	m, err := NewMixture(v.Seed, v.T, from, schedule...)
	if err != nil {
		t.Fatal(err)
	}
	v.Samples, v.Positions, v.Turns, v.Counts, v.Found, v.Seeds, v.DigestsAt = m.Samples(), nil, nil, nil, nil, nil, nil
	var plans []string
	for i := range from {
		seed := m.SourceSeed(i)
		v.Seeds = append(v.Seeds, seed)
		plans = append(plans, mustPlan(t, Params{Shuffle: Full, Seed: seed}, []uint64{0, from[i].Samples}).OrderDigest())
	}
	v.OrderDigest = m.OrderDigest(plans)
	pick := newKey("vector", v.Seed)
	for i := range uint64(6) {
		v.Positions = append(v.Positions, [2]uint64{pick.draw(i, min(m.Epochs(), []uint64{1, 2, 1000, 1 << 62}[i%4])), pick.draw(i+100, m.Samples())})
	}
	for _, s := range v.Schedule { // the positions around each change
		for t := s[0] - 1; t <= s[0]+1; t++ {
			v.Positions = append(v.Positions, [2]uint64{t / m.Samples(), t % m.Samples()})
		}
	}
	for i, at := range v.Positions {
		epoch, position := at[0], at[1]
		turn := m.At(epoch, position)
		if len(schedule) > 0 {
			v.DigestsAt = append(v.DigestsAt, m.Until(epoch, position).OrderDigest(plans))
		}
		v.Turns = append(v.Turns, [3]uint64{uint64(turn.Source), turn.Epoch, turn.Position})
		v.Counts = append(v.Counts, m.Counts(epoch, position))
		found := [2]uint64{1<<64 - 1, 1<<64 - 1}
		if e, p, ok := m.Find(0, v.Counts[i][0]); ok {
			found = [2]uint64{e, p}
		}
		v.Found = append(v.Found, found)
	}
	if m.Samples() <= 2000 && m.Epochs() > 1 {
		var all []uint64
		for _, turn := range m.Append(nil, 1, 0, m.Samples()) {
			all = append(all, uint64(turn.Source), turn.Epoch, turn.Position)
		}
		v.Digest = digestOf(all)
	}
}

// mixtureInputs returns the inputs of the vectors.
func mixtureInputs() mixtureVectors {
	k := newKey("mixture inputs")
	var v mixtureVectors
	for i := range uint64(40) {
		shape := [][2]uint64{{3, 1}, {0, 1}, {5, 1}, {2, 1}, {4, 1}}
		for j := range k.draw(i, 12) * (i % 2) {
			shape = append(shape, [2]uint64{k.draw(i<<8|j, 60), 1 + k.draw(i<<8|j+128, 3)})
		}
		first := (&planVector{Chunks: shape}).first()
		samples := first[len(first)-1]
		q := quarantineVector{
			Shuffle: []string{Slot, Window, Full, None}[i%4], Window: 1 + k.draw(i+1000, 8),
			Seed: []uint64{0, 42, k.word(i + 2000)}[i%3], Epoch: []uint64{0, 1, 7, 1<<64 - 1}[i%4], Chunks: shape, Bad: []uint64{},
		}
		for x := range samples - 1 {
			// One in ten samples, or all samples of some chunks, including the first and the last
			// chunk.
			if k.with(i).draw(x, 10) == 0 && i%3 > 0 || i%3 < 2 && (x < 3 || x >= first[len(first)-2] && i > 20) {
				q.Bad = append(q.Bad, x)
			}
		}
		s := subsetVector{
			Shuffle: q.Shuffle, Window: q.Window, Seed: q.Seed, Epoch: q.Epoch, Chunks: shape, Subset: []string{"train", "val", "a-longer-name"}[i%3],
		}
		for left, at := samples, uint64(0); left > 0; at++ {
			n := min(left, 1+k.with(i).draw(at+1<<20, 1+i%20))
			s.Members = append(s.Members, [2]uint64{(at + i) % 2, n})
			left -= n
		}
		v.Quarantine, v.Subset = append(v.Quarantine, q), append(v.Subset, s)
		if i%2 == 1 { // the same subset with bad samples, sometimes an empty list
			q.Subset, q.Members, q.Bad = s.Subset, s.Members, []uint64{}
			for x := range s.size() - 1 {
				if i%3 > 0 && (k.with(i).draw(x+1<<30, 6) == 0 || x < 3) {
					q.Bad = append(q.Bad, x)
				}
			}
			v.Quarantine = append(v.Quarantine, q)
		}
		m := mixtureVector{Seed: q.Seed, T: []uint64{0, 100, k.draw(i+3000, 3000)}[i%3]}
		for j := range 1 + i%6 {
			m.Sources = append(m.Sources, mixtureSource(k.with(i), i/6%3, j))
		}
		v.Mixture = append(v.Mixture, m)
	}
	for i := range uint64(24) {
		v.Mixture = append(v.Mixture, scheduledInput(k.with(i+100), i))
	}
	return v
}

// scheduledInput returns the input of a vector with a schedule: small with changes in epochs 0 to 2,
// or huge. Some sources are absent at first, or for a while.
func scheduledInput(k key, i uint64) mixtureVector {
	kind := i % 4 / 3
	v := mixtureVector{Seed: []uint64{0, 42, k.word(0)}[i%3], T: 100 + kind*k.draw(1, 1<<58)}
	first := uint64(0)
	for s := range 2 + k.draw(2, 5) {
		weights := []uint64{}
		for j := range 1 + i%6 {
			source := mixtureSource(k.with(s), kind, j)
			if (s+j)%3 == 1 && (s+j)%(1+i%6) != 0 {
				source[1] = 0
			}
			if weights = append(weights, source[1]); s == 0 {
				v.Sources = append(v.Sources, source)
			}
		}
		if slices.Max(weights) == 0 {
			weights[0] = 1
		}
		if s > 0 {
			v.Schedule = append(v.Schedule, append([]uint64{first}, weights...))
		} else {
			v.Sources[0][1] = weights[0]
		}
		first += 1 + k.draw(s+10, []uint64{90, 1 << 59}[kind])
	}
	return v
}

// mixtureSource returns samples, weight and count of a source of a small mixture, of a huge
// mixture, or of a mixture with fixed counts.
func mixtureSource(k key, kind, j uint64) [3]uint64 {
	small := 1 + k.draw(j, 90)
	switch kind {
	case 1:
		return [3]uint64{1 + k.draw(j+100, 1<<58), 1 + k.draw(j+200, 1<<58), 0}
	case 2:
		return [3]uint64{small, 0, 1 + k.draw(j+300, 50)}
	}
	return [3]uint64{small, 1 + k.draw(j+400, 9), 0}
}

func TestMixtureVectors(t *testing.T) {
	got := mixtureInputs()
	for i := range got.Quarantine {
		got.Quarantine[i].fill(t)
	}
	for i := range got.Subset {
		got.Subset[i].fill(t)
	}
	for i := range got.Mixture {
		got.Mixture[i].fill(t)
	}
	want := vectors.Hold(t, mixturesFile, *update, got)
	if len(want.Quarantine) < 40 || len(want.Subset) < 40 || len(want.Mixture) < 64 {
		t.Errorf("got %d, %d and %d vectors, want at least 40, 40 and 64", len(want.Quarantine), len(want.Subset), len(want.Mixture))
	}
}

func TestPythonReproducesTheMixtureVectors(t *testing.T) {
	vectors.Python(t, "../client/python/tests/order_vectors.py", mixturesFile)
}
