package cluster

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
)

// State is the state of another gateway.
type State string

// The states.
const (
	Alive    State = "alive"    // it answers, and owns chunks
	Suspect  State = "suspect"  // it has not answered the last one or two hellos
	Ejected  State = "ejected"  // it was silent, refused or was late too often, or sent wrong bytes; it gets no questions for now
	Draining State = "draining" // it answers, owns nothing any more, and will be gone soon
	Gone     State = "gone"     // it does not answer hellos
	Refused  State = "refused"  // the gateway at the address is no member, or refuses this gateway
	Unknown  State = "unknown"  // no answer yet
)

// Status is this gateway's view of the cluster.
type Status struct {
	Cluster string         `json:"cluster"`
	View    uint64         `json:"view"` // changes whenever the owner of a chunk changes
	Self    MemberStatus   `json:"self"`
	Members []MemberStatus `json:"members"` // the other members, by name
	Others  []OtherStatus  `json:"others"`  // addresses without a member
	Faults  []string       `json:"faults"`  // problems that the members have together, such as different generations
	Hedges  uint64         `json:"hedges"`  // questions that were also sent to a second member because the first was late
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
	LatencyMS   float64           `json:"latency_ms"`    // recent time that a hello took
	SeenSeconds float64           `json:"seen_seconds"`  // time since it last answered
	RetryAfter  float64           `json:"retry_seconds"` // time until an ejected member is tried again
	LinkRate    int64             `json:"link_bytes_per_second"`
	Asked       Traffic           `json:"asked"`    // questions from this gateway to it
	Answered    Traffic           `json:"answered"` // its questions to this gateway
}

// OwnershipStatus is a generation that a gateway serves, and the gateway's share of the chunks.
type OwnershipStatus struct {
	Dataset    string  `json:"dataset"`
	Generation string  `json:"generation"`
	Share      float64 `json:"owned_share"`            // 0 to 1
	Chunks     int64   `json:"owned_chunks,omitempty"` // computed from the share if this gateway serves the generation too
}

// Traffic is the traffic in one direction since the other gateway was started.
type Traffic struct {
	Requests uint64 `json:"requests"`
	Bytes    uint64 `json:"bytes"`
	Failed   uint64 `json:"failed"`
}

// OtherStatus is an address at which there is no member.
type OtherStatus struct {
	Address string `json:"address"`
	ID      string `json:"id,omitempty"`
	State   State  `json:"state"` // refused or unknown
	Reason  string `json:"reason,omitempty"`
}

// Status returns the current status.
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

// others returns the addresses without a member, and the number of hedged questions.
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

// owned returns the ownership of each generation that a gateway serves.
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
