package cluster

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
)

// State is how a gateway stands with us.
type State string

// The states.
const (
	Alive    State = "alive"    // it answers, and owns chunks
	Suspect  State = "suspect"  // it has not answered the last hello, or the last two
	Ejected  State = "ejected"  // it was silent, refused or was late too often, or lied: it is left alone for a while
	Draining State = "draining" // it answers, owns nothing any more, and will be gone soon
	Gone     State = "gone"     // it answers no hello
	Refused  State = "refused"  // who answers there is no member, or refuses us
	Unknown  State = "unknown"  // nobody has answered there yet
)

// Status is the cluster as this gateway sees it.
type Status struct {
	Cluster string         `json:"cluster"`
	View    uint64         `json:"view"` // another number whenever anybody owns something else than before
	Self    MemberStatus   `json:"self"`
	Members []MemberStatus `json:"members"` // the others, by name
	Others  []OtherStatus  `json:"others"`  // addresses where no member answers
	Faults  []string       `json:"faults"`  // of the members together: generations that differ
	Hedges  uint64         `json:"hedges"`  // questions that were asked of a second member too, as the first was late
}

// MemberStatus is one gateway of the cluster.
type MemberStatus struct {
	ID          string            `json:"id"`
	Boot        string            `json:"boot"`
	Address     string            `json:"address"`
	State       State             `json:"state"`
	Reason      string            `json:"reason,omitempty"` // why it is gone or ejected
	CacheBytes  uint64            `json:"cache_bytes"`
	Serves      []OwnershipStatus `json:"serves"`
	LatencyMS   float64           `json:"latency_ms"`    // of a hello, of late
	SeenSeconds float64           `json:"seen_seconds"`  // since it last answered
	RetryAfter  float64           `json:"retry_seconds"` // until an ejected member is tried again
	LinkRate    int64             `json:"link_bytes_per_second"`
	Asked       Traffic           `json:"asked"`    // by us
	Answered    Traffic           `json:"answered"` // to it
}

// OwnershipStatus is a generation that a gateway serves, and how much of it the gateway owns.
type OwnershipStatus struct {
	Dataset    string  `json:"dataset"`
	Generation string  `json:"generation"`
	Share      float64 `json:"owned_share"`            // 0 to 1
	Chunks     int64   `json:"owned_chunks,omitempty"` // as many as the share makes, where the generation is ours too
}

// Traffic is what went one way since the other gateway was started.
type Traffic struct {
	Requests uint64 `json:"requests"`
	Bytes    uint64 `json:"bytes"`
	Failed   uint64 `json:"failed"`
}

// OtherStatus is an address where no member answers.
type OtherStatus struct {
	Address string `json:"address"`
	ID      string `json:"id,omitempty"`
	State   State  `json:"state"` // refused or unknown
	Reason  string `json:"reason,omitempty"`
}

// Status returns all that is known now.
func (c *Cluster) Status() Status {
	s, n := c.now.Load(), c.membership()
	out := Status{Cluster: c.cfg.Name, View: s.number, Members: []MemberStatus{}, Faults: append([]string{}, n.faults()...)}
	out.Others, out.Hedges = c.others()
	self := c.Self()
	out.Self = MemberStatus{
		ID: self.ID, Boot: self.Boot, Address: n.address, State: Alive, CacheBytes: self.Weight,
		Serves: n.owned(s, self.ID, self.Serves),
	}
	if self.Draining {
		out.Self.State = Draining
	}
	for _, m := range n.members {
		out.Members = append(out.Members, n.status(s, m))
	}
	slices.SortFunc(out.Others, func(a, b OtherStatus) int { return cmp.Compare(a.Address, b.Address) })
	return out
}

// others returns the addresses where no member answers, and how many questions were hedged.
func (c *Cluster) others() (others []OtherStatus, hedged uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	others = []OtherStatus{}
	for _, k := range c.contacts {
		switch {
		case k.reason != "" && k.misses == 0:
			others = append(others, OtherStatus{Address: k.address, ID: k.who, State: Refused, Reason: k.reason})
		case !k.alias && c.here(k) == nil:
			others = append(others, OtherStatus{Address: k.address, State: Unknown, Reason: k.reason})
		}
	}
	return others, c.hedged
}

func (n membership) status(s *snapshot, m member) MemberStatus {
	out := MemberStatus{
		ID: m.ID, Boot: m.Boot, Address: m.at.address, State: m.state, Reason: m.reason, CacheBytes: m.Weight,
		Serves:    n.owned(s, m.ID, m.Serves),
		LatencyMS: float64(m.latency.Microseconds()) / 1000, SeenSeconds: time.Since(m.seen).Seconds(), LinkRate: int64(m.rate),
		Asked: m.asked, Answered: m.answered,
	}
	if m.state == Ejected {
		out.RetryAfter = max(0, time.Until(m.until).Seconds())
	}
	return out
}

// owned says what a gateway owns of what it serves.
func (n membership) owned(s *snapshot, id string, serves []peer.DatasetGeneration) []OwnershipStatus {
	out := []OwnershipStatus{}
	for _, key := range serves {
		share := s.owners[key].Share(id)
		out = append(out, OwnershipStatus{
			Dataset: key.Dataset, Generation: key.Generation, Share: share, Chunks: int64(math.Round(share * float64(n.serves[key]))),
		})
	}
	return out
}
