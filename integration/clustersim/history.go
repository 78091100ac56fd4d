package clustersim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/shuffle"
)

// History is all that one seed decides: who reads what from whom, and what goes wrong when. It prints as text.
type History struct {
	Seed      uint64
	Kind      Kind
	Data      *Data
	Old       *Data // an earlier generation of the same dataset, which only lying gateways speak of
	Params    shuffle.Params
	Locality  bool   // share=locality
	Homes     uint64 // of it; 0: as many as ranks
	Apart     bool   // the gateways know nothing of each other
	Batch     uint64
	Epochs    uint64
	Gateways  []Gateway
	Ranks     []Rank
	Link      link
	Card      int64         // bytes a second each way of a gateway's network card, for its clients, the others and the store; 0: no bound
	StoreCard int64         // of the store's
	Room      int           // bytes that two gateways have between them and nobody has read yet
	Cluster   string        // its name
	Store     time.Duration // at most so long does the store take
	Even      bool          // it takes just that
	Faults    []Fault
	Heal      time.Duration                    // everything is well from then on
	InStep    bool                             // no rank begins a batch before all have the one before, as ranks that add up gradients
	Each      time.Duration                    // epoch e begins after e times that, or when it comes
	Trace     func(format string, args ...any) // is told what happens; nil: nobody is
	Mark      time.Duration                    // reads of the store after that are counted by themselves too
}

// Kind says what may befall a history, and so what is asked of it beyond right bytes.
type Kind string

// The kinds of histories.
const (
	Healthy Kind = "healthy" // nothing goes wrong: each chunk is read once
	Gentle  Kind = "gentle"  // gateways come and go: only what they held is read again
	Wild    Kind = "wild"    // anything
)

// Gateway is one gateway process of a history.
type Gateway struct {
	Budget     int64
	Fetchers   int
	PartSize   int64
	CheckSHA   bool
	NoPrefetch bool
	Policy     int           // of datapath.Policies()
	Joins      time.Duration // it is started so late
	Clock      time.Duration // how far its clock is off
}

// Rank is one reader.
type Rank struct {
	Near  int           // the gateway it prefers
	Moves int           // of 16 batches, so many are asked of any gateway
	Slow  int           // of 16 answers, so many are taken slowly
	Quits int           // of 16 requests, so many are given up early
	Think time.Duration // between batches
	Ahead int           // so many batches are asked for at a time; 0: one when it is wanted
	Limit time.Duration // of one request
}

// Fault is one thing that goes wrong.
type Fault struct {
	What     Trouble
	At, For  time.Duration
	Machine  int
	Other    int
	Amount   time.Duration
	Seed     uint64
	Silently bool
}

// Trouble is a kind of fault.
type Trouble string

// The kinds of faults.
const (
	Kill      Trouble = "kill"       // the process is gone and comes again with empty memory; silently: the machine is
	Stop      Trouble = "stop"       // the process stands still
	Partition Trouble = "partition"  // two halves do not see each other
	Cut       Trouble = "cut"        // one direction between two gateways
	Slow      Trouble = "slow"       // one direction takes long
	Trickle   Trouble = "trickle"    // one direction is narrow
	Clog      Trouble = "clog"       // the links of a gateway fail one by one, and come back in another order
	Lie       Trouble = "lie"        // a gateway answers others with what they did not ask for
	Mangle    Trouble = "mangle"     // answers arrive short, long, or as something else
	Refuse    Trouble = "refuse"     // a gateway says no
	Full      Trouble = "full"       // a gateway says that it has no memory for any answer
	Late      Trouble = "late"       // what a gateway answers others arrives later by an amount
	View      Trouble = "view"       // discovery shows a gateway some of the others only, and changes its mind
	Drain     Trouble = "drain"      // a gateway leaves in good order, and comes again
	StoreCut  Trouble = "store cut"  // a gateway does not reach the store
	StoreBad  Trouble = "store bad"  // the store fails in every way
	StoreSlow Trouble = "store slow" // the store takes long
)

func (f Fault) String() string {
	s := fmt.Sprintf("at %v for %v: %s, gateway %d, other %d, amount %v, seed %d", f.At, f.For, f.What, f.Machine, f.Other, f.Amount, f.Seed)
	if f.Silently {
		s += ", silently"
	}
	return s
}

func (h *History) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %s: dataset %s of %d samples in %d chunks, %+v, locality %v, batches of %d, %d epochs, link %v, store %v, heals at %v\n",
		h.Seed, h.Kind, h.Data.Name, h.Data.Index.Samples(), h.Data.Index.Chunks(), h.Params, h.Locality, h.Batch, h.Epochs, h.Link.delay, h.Store, h.Heal)
	for i, g := range h.Gateways {
		fmt.Fprintf(&b, "  gateway %d: %+v\n", i, g)
	}
	for i, r := range h.Ranks {
		fmt.Fprintf(&b, "  rank %d: %+v\n", i, r)
	}
	for _, f := range h.Faults {
		fmt.Fprintf(&b, "  %v\n", f)
	}
	return b.String()
}

// Shelf is what histories draw their data from: pairs of a dataset and an earlier generation of it.
type Shelf [][2]*Data

// Draw draws the history of a seed.
func Draw(seed uint64, shelf Shelf) *History {
	rnd := rand.New(rand.NewPCG(seed, 22))
	pair := shelf[rnd.IntN(len(shelf))]
	h := &History{
		Seed: seed, Cluster: "job-a", Data: pair[0], Old: pair[1], Epochs: 1 + rnd.Uint64N(2),
		Kind: []Kind{Healthy, Gentle, Gentle, Wild, Wild, Wild, Wild, Wild}[rnd.IntN(8)],
		Room: 16 << 10, Link: link{delay: time.Duration(rnd.IntN(3)) * time.Millisecond}, Store: time.Duration(1+rnd.IntN(60)) * time.Millisecond,
		Batch: 1 + rnd.Uint64N(min(pair[0].Index.Samples(), 64)),
	}
	h.Batch = max(h.Batch, pair[0].Index.Samples()/12)
	h.drawGateways(rnd)
	for range 1 + rnd.IntN(8) {
		h.Ranks = append(h.Ranks, Rank{
			Near: rnd.IntN(len(h.Gateways)), Moves: []int{0, 0, 2, 16}[rnd.IntN(4)], Quits: []int{0, 0, 0, 4}[rnd.IntN(4)], Slow: 2,
			Think: time.Duration(rnd.IntN(800)) * time.Millisecond, Limit: time.Second + time.Duration(rnd.IntN(4000))*time.Millisecond,
		})
	}
	h.drawPlan(rnd)
	switch h.Kind {
	case Gentle:
		h.drawComings(rnd)
	case Wild:
		h.drawFaults(rnd)
		return h
	}
	for i := range h.Ranks { // whoever gives up early, or asks a slow owner, may have a chunk read again
		h.Ranks[i].Quits, h.Ranks[i].Limit = 0, 10*time.Second
	}
	for i := range h.Gateways {
		g := &h.Gateways[i]
		g.PartSize, g.Fetchers = max(g.PartSize, 32<<10), max(g.Fetchers, 4)
	}
	return h
}

// ample reports whether each gateway alone has room for all the data.
func (h *History) ample() int64 { return 16 * h.Data.stored() }

func (h *History) drawGateways(rnd *rand.Rand) {
	n := 2 + rnd.IntN(3)
	if rnd.IntN(4) == 0 {
		n = 2 + rnd.IntN(7)
	}
	tiny, clocks := h.Kind == Wild && rnd.IntN(2) == 0, rnd.IntN(2) == 0
	for range n {
		g := Gateway{
			Budget: h.ample(), Fetchers: 1 + rnd.IntN(12), PartSize: 2 << 10 << rnd.IntN(6), CheckSHA: rnd.IntN(2) == 0,
			NoPrefetch: rnd.IntN(4) == 0, Policy: rnd.IntN(len(datapath.Policies())),
		}
		if tiny {
			g.Budget = 12 << 10 << rnd.IntN(6)
		}
		if clocks {
			g.Clock = time.Duration(rnd.IntN(121)-60) * time.Minute
		}
		h.Gateways = append(h.Gateways, g)
	}
}

func (h *History) drawPlan(rnd *rand.Rand) {
	names := []string{shuffle.None, shuffle.Window, shuffle.Window, shuffle.Slot, shuffle.Slot, shuffle.Full}
	h.Params = shuffle.Params{Shuffle: names[rnd.IntN(len(names))], Window: 1 + rnd.Uint64N(12), Seed: rnd.Uint64N(100)}
	if h.Params.Shuffle == shuffle.Window && rnd.IntN(2) == 0 {
		h.Params.Strata = 1 + rnd.Uint64N(8)
		h.Params.Window = h.Params.Strata * (1 + rnd.Uint64N(3))
	}
	if plan, err := shuffle.NewPlan(h.Params, h.Data.Index.First()); err == nil && rnd.IntN(2) == 0 {
		h.Locality = plan.CheckSharing(uint64(len(h.Ranks)), uint64(len(h.Ranks))) == nil
	}
}

// drawComings draws gateways that come and go one after another, in the first two of three epochs: in the third all that was lost is
// wanted again.
func (h *History) drawComings(rnd *rand.Rand) {
	h.Epochs, h.Each = 3, 20*time.Second
	for e := range 1 + rnd.IntN(2) {
		h.Faults = append(h.Faults, Fault{
			What: []Trouble{Kill, Drain}[rnd.IntN(2)], At: time.Duration(e)*h.Each + 2*time.Second, For: 5 * time.Second, Machine: rnd.IntN(len(h.Gateways)),
		})
	}
	if rnd.IntN(3) == 0 {
		h.Gateways[len(h.Gateways)-1].Joins = time.Duration(2+rnd.IntN(4)) * time.Second
	}
	h.end()
}

// end makes everything well after the last fault.
func (h *History) end() {
	for _, f := range h.Faults {
		h.Heal = max(h.Heal, f.At+f.For)
	}
	for _, g := range h.Gateways {
		h.Heal = max(h.Heal, g.Joins)
	}
	h.Heal += time.Second
}

// drawFaults draws what befalls a wild history within its first eight seconds.
func (h *History) drawFaults(rnd *rand.Rand) {
	all := []Trouble{Kill, Kill, Stop, Stop, Partition, Cut, Cut, Slow, Trickle, Clog, Lie, Lie, Mangle, Refuse, View, View, Drain, StoreCut, StoreBad, StoreSlow}
	for range 1 + rnd.IntN(6) {
		f := Fault{
			What: all[rnd.IntN(len(all))], At: time.Duration(rnd.IntN(5000)) * time.Millisecond, For: time.Duration(50+rnd.IntN(4000)) * time.Millisecond,
			Machine: rnd.IntN(len(h.Gateways)), Amount: time.Duration(rnd.IntN(1500)) * time.Millisecond, Seed: rnd.Uint64(), Silently: rnd.IntN(2) == 0,
		}
		f.Other = (f.Machine + 1 + rnd.IntN(len(h.Gateways)-1)) % len(h.Gateways)
		h.Faults = append(h.Faults, f)
	}
	if rnd.IntN(4) == 0 {
		h.Gateways[rnd.IntN(len(h.Gateways))].Joins = time.Duration(rnd.IntN(4000)) * time.Millisecond
	}
	h.end()
}
