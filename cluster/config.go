package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/cluster/peer"
)

// PeerClient sends questions and hellos to other gateways. *peer.Client implements it.
type PeerClient interface {
	Hello(ctx context.Context, address string, h peer.Hello) (peer.Hello, error)
	Read(ctx context.Context, address string, q *peer.Query, dst [][]byte) error
	Expect(peers int) // sets the number of other gateways
}

// Discovery finds addresses where gateways may be. Package cluster decides from the answers which
// gateways are members.
type Discovery interface {
	// Run calls found with all known addresses (host:port), at the start and after each change,
	// until ctx ends. It returns an error if it can never find any addresses.
	Run(ctx context.Context, found func(addresses []string)) error
	// Again requests another lookup soon, for example because a new gateway may have been
	// registered. It does not wait for the lookup.
	Again()
}

// Config configures a Cluster. Name, ID, Boot, Weight, Discovery and Client are required. The
// caller has validated the names (CheckName).
type Config struct {
	Name   string                         // the cluster's name
	ID     string                         // this gateway's ID: the same after a restart
	Boot   string                         // this process's ID: different after each start
	Weight uint64                         // size of its cache in bytes: the gateway owns chunks in proportion
	Serves map[peer.DatasetGeneration]int // the generations that this gateway serves, with their numbers of chunks

	Discovery Discovery
	Client    PeerClient
	// Inherit loads the chunks that a draining member holds and this gateway owns from now on.
	// It runs in a goroutine of its own until ctx ends. If it is nil, the chunks are loaded
	// when they are needed.
	Inherit func(ctx context.Context, member string, held []peer.ChunkList)
	Log     zerolog.Logger
}

// Limits of a cluster.
const (
	mostContacts = 4096 // maximum number of addresses
	mostServed   = 1024 // maximum number of datasets of one gateway
	nameBytes    = 128  // maximum length of a cluster or member name
)

// Times of membership.
const (
	helloEvery = 10 * time.Second // time between two hellos to a member; a tenth of that after an unanswered hello
	missesGone = 3                // consecutive unanswered hellos after which a member counts as gone
	remember   = 5 * time.Minute  // how long a change of members, and a member that is gone, are remembered
)

// CheckName returns an error for a name of a cluster or member that is unsafe in a log or a header.
func CheckName(name string) error {
	bad := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsGraphic(r) || unicode.IsSpace(r) || strings.ContainsRune(`/"\`, r)
	}
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > nameBytes:
		return fmt.Errorf("%.20q...: must be at most %d bytes", name, nameBytes)
	case strings.ContainsFunc(name, bad):
		return fmt.Errorf("%q: must consist of letters, digits and signs such as dot, dash and underscore", name)
	}
	return nil
}
