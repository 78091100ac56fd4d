package clustersim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/shuffle"
)

// History is everything that one seed determines: the data, the reads of each rank, and the faults
// with their times. Its String method describes it.
type History struct {
	Seed      uint64
	Kind      Kind
	Data      *Data
	Old       *Data // an earlier generation of the dataset, which only lying gateways send
	Params    shuffle.Params
	Locality  bool   // share=locality
	Homes     uint64 // for share=locality; 0: one per rank
	Apart     bool   // the gateways do not know one another
	Batch     uint64
	Epochs    uint64
	Gateways  []Gateway
	Ranks     []Rank
	Link      link
	Card      int64         // bytes per second in each direction of a gateway's network card; 0: no limit
	StoreCard int64         // bytes per second in each direction of the store's network card
	Room      int           // maximum bytes in flight between two gateways that the receiver has not read
	Cluster   string        // the cluster's name
	Store     time.Duration // maximum time of a store read
	Even      bool          // every store read takes exactly Store
	Faults    []Fault
	Heal      time.Duration                    // time after which there are no faults
	InStep    bool                             // no rank begins a batch before all ranks have the previous one
	Each      time.Duration                    // epoch e begins no earlier than e times this
	Trace     func(format string, args ...any) // receives the run's events; nil: no tracing
	Mark      time.Duration                    // store reads after this time are also counted separately
}

// Kind determines which faults a history may have. It thereby determines which guarantees are
// checked in addition to correct bytes.
type Kind string

// The kinds of histories.
const (
	Healthy Kind = "healthy" // no faults: each chunk is read once
	Gentle  Kind = "gentle"  // gateways start and leave: only lost chunks are read again
	Wild    Kind = "wild"    // any fault
)

// Gateway is one gateway process of a history.
type Gateway struct {
	Budget     int64
	Fetchers   int
	PartSize   int64
	CheckSHA   bool
	NoPrefetch bool
	Policy     int           // index in policy.Names()
	Joins      time.Duration // time of its start
	Clock      time.Duration // offset of its clock
}

// Rank is one reader.
type Rank struct {
	Near  int           // preferred gateway
	Moves int           // this many of 16 batches are requested from a random gateway
	Slow  int           // this many of 16 responses are read slowly
	Quits int           // this many of 16 requests are canceled early
	Think time.Duration // pause between batches
	Ahead int           // number of batches requested at a time; 0: each when it is needed
	Limit time.Duration // deadline of one request
}

// Fault is one fault of a history.
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
	Kill      Trouble = "kill"       // the process dies and restarts with empty memory; with Silently, the machine dies
	Stop      Trouble = "stop"       // the process is stopped
	Partition Trouble = "partition"  // two halves cannot reach each other
	Cut       Trouble = "cut"        // one direction between two gateways is cut
	Slow      Trouble = "slow"       // one direction has a long delay
	Trickle   Trouble = "trickle"    // one direction has a low rate
	Clog      Trouble = "clog"       // the links of a gateway fail one by one, and are restored in another order
	Lie       Trouble = "lie"        // a gateway sends peers data that they did not request
	Mangle    Trouble = "mangle"     // responses arrive short, long, or altered
	Refuse    Trouble = "refuse"     // a gateway refuses requests
	Full      Trouble = "full"       // a gateway reports that it has no memory for any response
	Late      Trouble = "late"       // a gateway's responses to peers are delayed by Amount
	View      Trouble = "view"       // discovery shows a gateway a changing selection of the others
	Drain     Trouble = "drain"      // a gateway drains and leaves, and restarts
	StoreCut  Trouble = "store cut"  // a gateway cannot reach the store
	StoreBad  Trouble = "store bad"  // the store fails in all ways
	StoreSlow Trouble = "store slow" // the store is slow
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

// Shelf holds the data for histories: pairs of a dataset and an earlier generation of it.
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
	for i := range h.Ranks { // a rank that gives up early or uses a slow owner may cause a second read of a chunk
		h.Ranks[i].Quits, h.Ranks[i].Limit = 0, 10*time.Second
	}
	for i := range h.Gateways {
		g := &h.Gateways[i]
		g.PartSize, g.Fetchers = max(g.PartSize, 32<<10), max(g.Fetchers, 4)
	}
	return h
}

// ample returns a budget with which each gateway has memory for all data.
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
			NoPrefetch: rnd.IntN(4) == 0, Policy: rnd.IntN(len(policy.Names())),
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

// drawComings draws gateways that leave and return one after another in the first two of three
// epochs. The third epoch needs all lost data.
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

// end sets the time after which there are no faults.
func (h *History) end() {
	for _, f := range h.Faults {
		h.Heal = max(h.Heal, f.At+f.For)
	}
	for _, g := range h.Gateways {
		h.Heal = max(h.Heal, g.Joins)
	}
	h.Heal += time.Second
}

// drawFaults draws the faults of a wild history, all within its first eight seconds.
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
