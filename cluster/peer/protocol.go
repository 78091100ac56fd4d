package peer

// Version is the protocol's. Both sides of a question speak the same one.
const Version = 2

// What every request carries. Nothing of it is a time of day: the clocks of two gateways may differ by an hour.
const (
	ClusterHeader  = "Millrace-Cluster"      // the cluster's name
	VersionHeader  = "Millrace-Peer-Version" // Version
	MemberHeader   = "Millrace-Member"       // the ID of the gateway that asks
	DeadlineHeader = "Millrace-Deadline-Ms"  // of a read: how long the asker will wait for the answer to begin
)

// Addresses on the peer port, all of them POST.
const (
	readPath  = "/peer/v1/read"
	helloPath = "/peer/v1/hello"

	contentBytes   = "application/octet-stream"
	contentJSON    = "application/json"
	contentProblem = "application/problem+json"
)

// Hello is what one gateway tells another one of itself. It goes both ways: whoever says it gets the other's.
type Hello struct {
	Cluster      string              `json:"cluster"`
	ID           string              `json:"id"`   // the same after a restart
	Boot         string              `json:"boot"` // another one after each start
	Weight       uint64              `json:"weight,string"`
	OrderVersion int                 `json:"order_version"` // shuffle.OrderVersion
	Serves       []DatasetGeneration `json:"serves"`
	Draining     bool                `json:"draining"` // it answers, but will be gone soon
	UpMS         uint64              `json:"up_ms"`    // milliseconds since it was started

	// Held stands in the answer of a gateway that drains: the chunks in its memory that the asker owns from now on. The asker can
	// bring them while the gateway still answers. In a question Held means nothing, as anybody could ask in another one's name.
	Held []ChunkList `json:"held,omitempty"`
}

// named reports whether h says whose it is, in names that fit a page of status.
func (h Hello) named() bool {
	return h.ID != "" && max(len(h.Cluster), len(h.ID), len(h.Boot)) <= maxNameBytes
}

// DatasetGeneration names one generation of a dataset that a gateway serves.
type DatasetGeneration struct {
	Dataset    string `json:"dataset"`
	Generation string `json:"generation"`
}

// ChunkList lists chunks of one generation by number, the soonest needed first.
type ChunkList struct {
	DatasetGeneration
	Chunks []uint32 `json:"chunks"`
}

// MostHeld is how many chunks the answer to one hello may list as held: those of 16 TiB in chunks of 64 MiB.
const MostHeld = 1 << 18

// Limits of what is said. They bound what a stranger can make a gateway hold, not what is of use.
const (
	maxHelloBytes   = 512 << 10 // of a thousand datasets, by name and generation
	maxHeldBytes    = 4 << 20   // of MostHeld chunks, beside the rest of an answer
	maxProblemBytes = 16 << 10
	maxNameBytes    = 255
	maxDetailBytes  = 500 // of a refusal: it is written to logs
)
