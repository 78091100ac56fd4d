package peer

// Version is the protocol version. Both gateways must have the same one.
const Version = 2

// Headers of every request. No header contains a time of day, since the clocks of gateways may
// differ.
const (
	ClusterHeader  = "Millrace-Cluster"      // the cluster's name
	VersionHeader  = "Millrace-Peer-Version" // Version
	MemberHeader   = "Millrace-Member"       // the ID of the gateway that asks
	DeadlineHeader = "Millrace-Deadline-Ms"  // in a read: maximum time that the asker waits for the answer to begin
)

// Paths on the peer port, all for POST.
const (
	readPath  = "/peer/v1/read"
	helloPath = "/peer/v1/hello"

	contentBytes   = "application/octet-stream"
	contentJSON    = "application/json"
	contentProblem = "application/problem+json"
)

// Hello is a gateway's description of itself. The answer to a hello is the other gateway's hello.
type Hello struct {
	Cluster      string              `json:"cluster"`
	ID           string              `json:"id"`   // the same after a restart
	Boot         string              `json:"boot"` // different after each start
	Weight       uint64              `json:"weight,string"`
	OrderVersion int                 `json:"order_version"` // shuffle.OrderVersion
	Serves       []DatasetGeneration `json:"serves"`
	Draining     bool                `json:"draining"` // it still answers, but will be gone soon
	UpMS         uint64              `json:"up_ms"`    // milliseconds since it was started

	// Held is set in the answer of a draining gateway. It lists the chunks in its memory that
	// the asker owns from now on, so that the asker can load them while the gateway still
	// answers. Held is ignored in requests, which may be sent in another gateway's name.
	Held []ChunkList `json:"held,omitempty"`
}

// named reports whether h has an ID, and whether its names have an acceptable length.
func (h Hello) named() bool {
	return h.ID != "" && max(len(h.Cluster), len(h.ID), len(h.Boot)) <= maxNameBytes
}

// DatasetGeneration identifies one generation of a dataset.
type DatasetGeneration struct {
	Dataset    string `json:"dataset"`
	Generation string `json:"generation"`
}

// ChunkList lists chunks of one generation by number, soonest needed first.
type ChunkList struct {
	DatasetGeneration
	Chunks []uint32 `json:"chunks"`
}

// MostHeld is the maximum number of chunks in Hello.Held: 16 TiB in chunks of 64 MiB.
const MostHeld = 1 << 18

// Limits of messages. They bound the memory that an unknown sender can use.
const (
	maxHelloBytes   = 512 << 10 // enough for a thousand datasets, by name and generation
	maxHeldBytes    = 4 << 20   // enough for MostHeld chunks, in addition to the rest of the answer
	maxProblemBytes = 16 << 10
	maxNameBytes    = 255
	maxDetailBytes  = 500 // length of a refusal's detail, which is written to logs
)
