package ledger_test

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/client/ledger"
)

const (
	generation = "c2745ef8f32dd0e2131a682536b8d09e"
	plan       = "4298dff41f247fffb576ccde58a40809"
	positions  = 1000
)

// run is a simulated run that writes ledgers. It resumes at random places on random ranks.
type run struct {
	t     *testing.T
	lines [][]byte
	last  []string // digests of the parts of the latest attempt
	n     int
	at    ledger.Place
}

// attempt reads the given number of positions. The next attempt resumes from a state that was saved
// back positions before the end. Each rank joins some of its batches.
func (r *run) attempt(ranks uint64, size, read, back uint64) {
	r.t.Helper()
	start, end := r.at, ahead(r.at, read)
	var digests []string
	for rank := range ranks {
		p := ledger.Part{
			Attempt: r.n, Generation: generation, Plan: plan, URL: "/v1/datasets/photos/epochs/0", Rank: rank, Ranks: ranks,
			Positions: positions, Start: start, Read: batches(start, end, size),
		}
		for k := rank; k < uint64(len(r.last)); k += ranks {
			p.Previous = append(p.Previous, r.last[k])
		}
		if r.n > 0 && len(p.Previous) == 0 {
			p.Previous = r.last[:1]
		}
		line, digest, err := p.Line()
		if err != nil {
			r.t.Fatal(err)
		}
		r.lines, digests = append(r.lines, line), append(digests, digest)
	}
	r.last, r.n = digests, r.n+1
	r.at = ahead(start, read-min(back, read))
}

// ahead returns the place n positions after another.
func ahead(p ledger.Place, n uint64) ledger.Place {
	all := p.Epoch*positions + p.Position + n
	return ledger.Place{Epoch: all / positions, Position: all % positions}
}

// batches returns the batches between two places, some of which are joined.
func batches(from, to ledger.Place, size uint64) (list []ledger.Range) {
	for from != to {
		r := ledger.Range{Epoch: from.Epoch, First: from.Position, End: min((from.Position/size+1)*size, positions)}
		if from.Epoch == to.Epoch {
			r.End = min(r.End, to.Position)
		}
		if n := len(list); n > 0 && list[n-1].Epoch == r.Epoch && r.First%(7*size) != 0 {
			list[n-1].End = r.End
		} else {
			list = append(list, r)
		}
		from = ahead(ledger.Place{Epoch: r.Epoch, Position: r.First}, r.End-r.First)
	}
	return list
}

func (r *run) parts() []ledger.Part {
	r.t.Helper()
	parts, err := ledger.Parse(bytes.NewReader(bytes.Join(r.lines, nil)))
	if err != nil {
		r.t.Fatal(err)
	}
	return parts
}

// randomRun returns a run of several attempts, of at least two ranks in the last one.
func randomRun(t *testing.T, r *rand.Rand) *run {
	run := &run{t: t}
	for range 1 + r.IntN(4) {
		run.attempt(2+r.Uint64N(6), 20+r.Uint64N(300), 1+r.Uint64N(3*positions), r.Uint64N(500))
	}
	run.attempt(2+r.Uint64N(6), 20+r.Uint64N(300), 200+r.Uint64N(3*positions), 0)
	return run
}

func TestAudit_AcceptsRunsThatResumeAnywhere(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		run := randomRun(t, r)
		parts := run.parts()
		r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		got := ledger.Audit(parts)
		want := run.at.Epoch*positions + run.at.Position
		if !got.OK() || got.To != run.at || got.From != (ledger.Place{}) || got.Positions != want {
			t.Fatalf("seed %d: got %+v, want %d positions to %v without faults", seed, got, want, run.at)
		}
	}
}

// TestAudit_FindsEveryChange changes one part of a run. Every change of a part that a later one
// continues is found by its digest, and every change of ranges by the coverage.
func TestAudit_FindsEveryChange(t *testing.T) {
	changes := map[string]func(*run, *rand.Rand) []ledger.Part{
		"a part is removed": func(run *run, r *rand.Rand) []ledger.Part {
			parts := run.parts()
			i := r.IntN(len(parts))
			return append(parts[:i:i], parts[i+1:]...)
		},
		"a part is doubled": func(run *run, r *rand.Rand) []ledger.Part {
			parts := run.parts()
			return append(parts, parts[r.IntN(len(parts))])
		},
		"a range is removed": forged(func(p *ledger.Part, r *rand.Rand) bool {
			i := r.IntN(len(p.Read))
			p.Read = append(p.Read[:i:i], p.Read[i+1:]...)
			return true
		}),
		"a range is doubled": forged(func(p *ledger.Part, r *rand.Rand) bool {
			p.Read = append(p.Read, p.Read[r.IntN(len(p.Read))])
			return true
		}),
		"a range is shorter": forged(func(p *ledger.Part, r *rand.Rand) bool {
			p.Read[r.IntN(len(p.Read))].End--
			return true
		}),
		"a range overlaps": forged(func(p *ledger.Part, r *rand.Rand) bool {
			i := r.IntN(len(p.Read))
			p.Read[i].First -= min(p.Read[i].First, 1)
			return i > 0 && p.Read[i].First > 0
		}),
		"a rank is another": forged(func(p *ledger.Part, _ *rand.Rand) bool {
			p.Rank = (p.Rank + 1) % p.Ranks
			return true
		}),
		"a plan is another": forged(func(p *ledger.Part, _ *rand.Rand) bool {
			p.Plan = strings.Repeat("0", 32)
			return true
		}),
		"a start is another": forged(func(p *ledger.Part, _ *rand.Rand) bool {
			moved := p.Start != ledger.Place{}
			p.Start = ledger.Place{}
			return moved
		}),
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			found := 0
			for seed := range uint64(150) {
				r := rand.New(rand.NewPCG(seed, 1))
				parts := change(randomRun(t, r), r)
				if parts == nil {
					continue
				}
				if got := ledger.Audit(parts); got.OK() {
					t.Fatalf("seed %d: got %+v, want a fault", seed, got)
				}
				found++
			}
			if found < 20 {
				t.Errorf("got %d cases, want at least 20", found)
			}
		})
	}
}

// forged returns a change of the content of one part. Its digest changes with it; the parts that
// continue it still have the digest of the original.
func forged(change func(*ledger.Part, *rand.Rand) bool) func(*run, *rand.Rand) []ledger.Part {
	return func(run *run, r *rand.Rand) []ledger.Part {
		parts := run.parts()
		p := &parts[r.IntN(len(parts))]
		if len(p.Read) == 0 || !change(p, r) {
			return nil
		}
		line, digest, err := p.Line()
		if err != nil {
			run.t.Fatal(err)
		}
		p.Digest = digest
		if _, err := ledger.Parse(bytes.NewReader(line)); err != nil {
			return nil // a reader of the file finds it
		}
		return parts
	}
}

func TestAudit_NamesPositionsAndRanks(t *testing.T) {
	run := &run{t: t}
	run.attempt(4, 100, 1500, 0)
	parts := run.parts()
	parts[2].Read = []ledger.Range{{Epoch: 0, First: 0, End: 300}, {Epoch: 0, First: 250, End: 1000}, {Epoch: 1, First: 100, End: 500}}
	got := ledger.Audit(parts)
	missing, doubled := []ledger.Gap{{Epoch: 1, End: 100, Ranks: []uint64{2}}}, []ledger.Gap{{First: 250, End: 300, Ranks: []uint64{2}}}
	if !reflect.DeepEqual(got.Missing, missing) || !reflect.DeepEqual(got.Doubled, doubled) || got.Positions != 1400 {
		t.Errorf("got %+v, want missing %+v, doubled %+v", got, missing, doubled)
	}
}

func TestAudit_CountsPositionsReadAgainAsRolledBack(t *testing.T) {
	run := &run{t: t}
	run.attempt(3, 100, 900, 350)
	run.attempt(2, 64, 1450, 0)
	got := ledger.Audit(run.parts())
	if !got.OK() || got.RolledBack != 350 || got.Positions != 2000 || got.To != run.at || got.Attempts != 2 {
		t.Errorf("got %+v, want 350 positions read again, up to the end of epoch 1", got)
	}
}

func TestParse_RejectsInvalidLines(t *testing.T) {
	run := &run{t: t}
	run.attempt(1, 100, 900, 0)
	line := string(run.lines[0])
	for name, c := range map[string]struct{ old, new, want string }{
		"truncated":        {"\n", "", "line 1: the line is incomplete"},
		"not JSON":         {`{"ledger"`, `{ledger`, "not a part of a ledger"},
		"another version":  {`{"ledger":1`, `{"ledger":2`, "version 2 of a ledger, not 1"},
		"an unknown field": {`"rank":0`, `"rank":0,"more":1`, "unknown field"},
		"a rank":           {`"rank":0`, `"rank":1`, "rank 1 of 1"},
		"a digest":         {generation, "c2", "32 hexadecimal digits"},
		"beyond the epoch": {`900]`, `1001]`, "an epoch has 1000"},
		"an empty range":   {`900]`, `700]`, "positions 700 to 700"},
		"two numbers":      {`,900]`, `]`, "a list of 3 numbers"},
		"a fraction":       {`,900]`, `,9e2]`, "cannot unmarshal"},
		"filtered":         {"}\n", ",\"filtered\":[[0,899,901]]}\n", "were not read"},
		"two values":       {"}\n", "}{}\n", "several values"},
	} {
		changed := strings.Replace(line, c.old, c.new, 1)
		if _, err := ledger.Parse(strings.NewReader(changed)); changed == line || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestAudit_Of512RanksIsFast checks 102,400 ranges, which takes 0.1 s of CPU time.
func TestAudit_Of512RanksIsFast(t *testing.T) {
	var text bytes.Buffer
	for rank := range uint64(512) {
		p := ledger.Part{Generation: generation, Plan: plan, Rank: rank, Ranks: 512, Positions: 20_000}
		for i := range uint64(200) {
			p.Read = append(p.Read, ledger.Range{First: i * 100, End: i*100 + 99})
		}
		line, _, err := p.Line()
		if err != nil {
			t.Fatal(err)
		}
		text.Write(line)
	}
	begun := time.Now()
	parts, err := ledger.Parse(&text)
	if err != nil {
		t.Fatal(err)
	}
	parsed := time.Now()
	got := ledger.Audit(parts)
	t.Logf("%v to parse, %v to check", parsed.Sub(begun), time.Since(parsed))
	if took := time.Since(begun); took > 20*time.Second || got.Lacking != 199 {
		t.Errorf("got %v and %d positions that ranks lack, want much less and 199", took, got.Lacking)
	}
}
