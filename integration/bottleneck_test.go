package integration_test

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

const (
	// settles is the shortest time under load before a gateway is judged. It is a little longer
	// than the six seconds that a response covers.
	settles = 7 * time.Second

	// settled is the number of right responses in a row after which every response counts.
	settled = 2

	// counted is the number of the first asker's responses that count, about one second apart.
	counted = 6
)

// limits is a gateway's report about the bottleneck of its readers.
type limits struct{ Code, Sentence, Do string }

// ask requests a gateway's report about the bottleneck of its readers.
func ask(ctx context.Context, g *harness.Gateway, query string) (limits, error) {
	var stats struct{ Limits limits }
	r, err := g.TryAdmin(ctx, "/v1/stats"+query)
	if err == nil {
		err = json.Unmarshal(r.Body, &stats)
	}
	return stats.Limits, err
}

// answers counts a gateway's reports to all clients, by code.
type answers struct {
	mu            sync.Mutex
	judged        bool // the situation has settled
	early, counts map[string]int
	wrong         []string
}

func (a *answers) note(want string, said limits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.judged {
		a.early[said.Code]++
		return
	}
	a.counts[said.Code]++
	if said.Code != want {
		a.wrong = append(a.wrong, said.Code+": "+said.Sentence)
	}
}

// asks requests reports until ctx ends, and counts them.
func (a *answers) asks(ctx context.Context, g *harness.Gateway, query string, every time.Duration, want string) {
	for ctx.Err() == nil {
		if said, err := ask(ctx, g, query); err == nil {
			a.note(want, said)
		}
		pause(ctx, every)
	}
}

// listen puts a gateway under load and counts its reports to two pages and a terminal, which ask
// concurrently. After a settling time each wrong report is a fault.
func listen(t *testing.T, name string, b bottleneck, s setting) {
	want, settles, settled, counted := b.want, settles, settled, counted
	if b.kind == shortLived {
		settles, settled, counted = 0, 1, 3
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var loading sync.WaitGroup
	defer loading.Wait()
	defer cancel()
	g, a := s.gateways[0], &answers{early: map[string]int{}, counts: map[string]int{}}
	loading.Go(func() { s.load(ctx) })
	loading.Go(func() { a.asks(ctx, g, "?readers=jobs", 1100*time.Millisecond, want) })
	loading.Go(func() { a.asks(ctx, g, "", 300*time.Millisecond, want) })
	began := time.Now()
	var said limits
	for right, n := 0, 0; n < counted; pause(ctx, time.Second) {
		var err error
		if said, err = ask(ctx, g, "?readers=jobs"); err != nil {
			t.Fatalf("got %v; before that %v", err, a.early)
		}
		a.note(want, said)
		switch {
		case a.judged:
			n++
		case said.Code == want && time.Since(began) > settles:
			right++
		default:
			right = 0
		}
		if right == settled {
			a.mu.Lock()
			a.judged, right = true, 0
			a.mu.Unlock()
		}
	}
	cancel()
	loading.Wait()
	t.Logf("figure: %s | %s | %v | before it settled %v", name, want, a.counts, a.early)
	t.Logf("figure: %s: %s (%s)", name, said.Sentence, said.Do)
	if len(a.wrong) > 0 {
		t.Errorf("got %d of %d answers wrong, want %q: %s", len(a.wrong), a.counts[want]+len(a.wrong), want, strings.Join(a.wrong, "\n"))
	}
	if !strings.Contains(said.Sentence, b.says) {
		t.Errorf("got %q, want %q in it", said.Sentence, b.says)
	}
	if command := regexp.MustCompile("`millrace (.*?)`").FindStringSubmatch(said.Do); command != nil {
		harness.MustRun(t, s.store, strings.Fields(strings.ReplaceAll(command[1], "'", ""))...)
	} else if want == "store" || want == "cache" {
		t.Errorf("got %q, want a command in it", said.Do)
	}
}

// TestBottlenecks puts gateways into situations and requests reports about the bottleneck of their
// readers. Scenes with little processor time run in parallel; the rest run one after another.
func TestBottlenecks(t *testing.T) {
	all := bottlenecks()
	var making sync.Mutex // concurrent searches might find the same free port
	var light sync.WaitGroup
	run := func(name string) {
		t.Run(name, func(t *testing.T) {
			harness.Record(t, nil)
			s := func() setting {
				making.Lock()
				defer making.Unlock()
				return all[name].meet(t)
			}()
			listen(t, name, all[name], s)
		})
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name].kind != byItself {
			light.Go(func() { run(name) })
		}
	}
	light.Wait()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name].kind == byItself {
			run(name)
		}
	}
}
