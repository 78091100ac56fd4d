package ledger_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/client/ledger"
)

const (
	generation = "c2745ef8f32dd0e2131a682536b8d09e"
	plan       = "4298dff41f247fffb576ccde58a40809"
	address    = "/v1/datasets/photos/epochs/0?generation=" + generation + generation
	positions  = 1000
)

// run is a simulated run that writes ledgers. It resumes at random places on random ranks.
type run struct {
	attempts [][]*ledger.Part
	at       ledger.Place
}

// attempt reads the given number of positions. The next attempt resumes from a state that was saved
// back positions before the end. Each rank joins some of its batches.
func (r *run) attempt(ranks uint64, size, read, back uint64) {
	start, end := r.at, ahead(r.at, read)
	var parts []*ledger.Part
	for rank := range ranks {
		parts = append(parts, &ledger.Part{
			Attempt: uint64(len(r.attempts)), Generation: generation, Plans: []ledger.Plan{{Digest: plan}}, URL: address, Rank: rank, Ranks: ranks,
			Previous: []string{}, Positions: positions, Start: start, Read: batches(start, end, size),
		})
	}
	r.attempts = append(r.attempts, parts)
	r.at = ahead(start, read-min(back, read))
	r.chain()
}

// chain sets the digests of the parts that each part continues.
func (r *run) chain() {
	var last []*ledger.Part
	for _, parts := range r.attempts {
		for _, p := range parts {
			if len(last) > 0 {
				p.Previous = nil
			}
			for k := p.Rank; k < uint64(len(last)); k += p.Ranks {
				p.Previous = append(p.Previous, last[k].Digest)
			}
			if p.Previous == nil {
				p.Previous = []string{last[0].Digest}
			}
			if _, err := p.Line(); err != nil {
				panic(err)
			}
		}
		last = parts
	}
}

// ahead returns the place n positions after another.
func ahead(p ledger.Place, n uint64) ledger.Place {
	all := p[0]*positions + p[1] + n
	return ledger.Place{all / positions, all % positions}
}

// batches returns the batches between two places, some of which are joined.
func batches(from, to ledger.Place, size uint64) (list []ledger.Range) {
	for from != to {
		r := ledger.Range{from[0], from[1], min((from[1]/size+1)*size, positions)}
		if from[0] == to[0] {
			r[2] = min(r[2], to[1])
		}
		if n := len(list); n > 0 && list[n-1][0] == r[0] && r[1]%(7*size) != 0 {
			list[n-1][2] = r[2]
		} else {
			list = append(list, r)
		}
		from = ahead(ledger.Place{r[0], r[1]}, r[2]-r[1])
	}
	return list
}

// lines returns the ledgers of all ranks.
func (r *run) lines() (lines []string) {
	for _, parts := range r.attempts {
		for _, p := range parts {
			line, err := p.Line()
			if err != nil {
				panic(err)
			}
			lines = append(lines, string(line))
		}
	}
	return lines
}

func parse(t *testing.T, lines []string) []ledger.Part {
	t.Helper()
	parts, err := ledger.Parse([]byte(strings.Join(lines, "")))
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

func TestAudit_AcceptsRunsThatResumeAnywhere(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		run := &run{}
		for range r.IntN(5) {
			run.attempt(2+r.Uint64N(6), 20+r.Uint64N(300), 1+r.Uint64N(3*positions), r.Uint64N(500))
		}
		run.attempt(1+r.Uint64N(6), 20+r.Uint64N(300), 200+r.Uint64N(3*positions), 0)
		lines := run.lines()
		r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		got, want := ledger.Audit(parse(t, lines)), run.at[0]*positions+run.at[1]
		if !got.OK() || got.To != run.at || got.From != (ledger.Place{}) || got.Positions != want {
			t.Fatalf("seed %d: got %+v, want %d positions to %v without faults", seed, got, want, run.at)
		}
	}
}

func TestAudit_CountsPositionsReadAgainAsRolledBack(t *testing.T) {
	run := &run{}
	run.attempt(3, 100, 900, 350)
	run.attempt(2, 64, 1450, 0)
	run.attempts[0][1].Filtered = []ledger.Range{{0, 500, 600}}
	run.attempts[1][1].Replaced = []ledger.Range{{0, 600, 601}}
	run.chain()
	got := ledger.Audit(parse(t, run.lines()))
	if !got.OK() || got.RolledBack != 350 || got.Positions != 2000 || got.To != run.at || got.Attempts != 2 || got.Filtered != 50 || got.Replaced != 1 {
		t.Errorf("got %+v, want 350 positions read again, up to the end of epoch 1, and 50 filtered", got)
	}
	for place, want := range map[ledger.Place]string{{0, 549}: "filtered", {0, 600}: "", {0, 499}: ""} {
		if why, ok := got.List[0].Omission(1, place); why != want || ok != (place[1] < 550) {
			t.Errorf("%v: got %q, %t, want %q", place, why, ok, want)
		}
	}
}

// TestAudit_ComparesThePlansOfASchedule: a resumed run may have another future, not another past.
func TestAudit_ComparesThePlansOfASchedule(t *testing.T) {
	for place, ok := range map[ledger.Place]bool{{0, 550}: true, {0, 540}: false, {2, 0}: true} {
		run := &run{}
		run.attempt(2, 100, 900, 350)
		run.attempt(2, 64, 1450, 0)
		for i, parts := range run.attempts {
			for _, p := range parts {
				p.Plans = append(p.Plans, ledger.Plan{At: place, Digest: strings.Repeat("01"[i:i+1], 32)})
			}
		}
		run.chain()
		if got := ledger.Audit(parse(t, run.lines())); got.OK() != ok {
			t.Errorf("schedules that differ from %v on: got %+v, want %t", place, got, ok)
		}
	}
}

// TestAudit_Of512RanksIsFast checks 102,400 ranges, which takes 0.2 s of CPU time.
func TestAudit_Of512RanksIsFast(t *testing.T) {
	var text bytes.Buffer
	for rank := range uint64(512) {
		p := ledger.Part{Previous: []string{}, Generation: generation, Plans: []ledger.Plan{{Digest: plan}}, URL: address, Rank: rank, Ranks: 512, Positions: 20_000}
		for i := range uint64(200) {
			p.Read = append(p.Read, ledger.Range{0, i * 100, i*100 + 99})
		}
		line, err := p.Line()
		if err != nil {
			t.Fatal(err)
		}
		text.Write(line)
	}
	begun := time.Now()
	parts, err := ledger.Parse(text.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	parsed := time.Now()
	got := ledger.Audit(parts)
	t.Logf("%v to parse, %v to check", parsed.Sub(begun), time.Since(parsed))
	if took := time.Since(begun); took > 20*time.Second || len(got.Missing) != 199 || len(got.Missing[0].Ranks) != 512 || got.Missing[0].To != (ledger.Place{0, 100}) {
		t.Errorf("got %v and %d gaps, want much less and 199", took, len(got.Missing))
	}
}

func TestAudit_AcceptsTheExampleOfTheSpecification(t *testing.T) {
	page, err := os.ReadFile("../../docs/spec/state.md")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(page)) {
		if part, ok := strings.CutPrefix(line, "    {\"ledger\""); ok {
			lines = append(lines, `{"ledger"`+part)
		}
	}
	got := ledger.Audit(parse(t, lines))
	if !got.OK() || got.Parts != 3 || got.To != (ledger.Place{1, 0}) || got.RolledBack != 4 || !strings.Contains(string(page), "The head is "+got.Head+".") {
		t.Errorf("got %+v, want three parts of an epoch, with the head of the page", got)
	}
}
