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

// PeerClient asks other gateways; a *peer.Client is one.
type PeerClient interface {
	Hello(ctx context.Context, address string, h peer.Hello) (peer.Hello, error)
	Read(ctx context.Context, address string, q *peer.Query, dst [][]byte) error
	Expect(peers int) // tells how many gateways there are to ask
}

// Discovery finds addresses where gateways may be. Which gateways are members is decided in package cluster, by their answers.
type Discovery interface {
	// Run hands over all addresses (host:port) that it knows now, each time that they change, until ctx ends. It
	// returns an error if it can never find anything.
	Run(ctx context.Context, found func(addresses []string)) error
	// Again has it look again soon: a gateway has come that it may know now. It does not wait.
	Again()
}

// Config of a Cluster. Name, ID, Boot, Weight, Discovery and Client are needed; the caller has checked them (CheckName).
type Config struct {
	Name   string                         // of the cluster
	ID     string                         // of this gateway: the same after a restart
	Boot   string                         // of this run of it: another one after each start
	Weight uint64                         // bytes of its cache: it owns chunks in proportion
	Serves map[peer.DatasetGeneration]int // how many chunks each generation has that this gateway serves

	Discovery Discovery
	Client    PeerClient
	// Inherit brings what a member that drains holds and this gateway owns from now on. It runs beside all else, and ends when ctx
	// does. nil: the chunks are read when they are needed.
	Inherit func(ctx context.Context, member string, held []peer.ChunkList)
	Log     zerolog.Logger
}

// Limits of a cluster.
const (
	mostContacts = 4096 // addresses that are greeted
	mostServed   = 1024 // datasets of one gateway
	nameBytes    = 128  // of a cluster or a member
)

// The times of membership.
const (
	helloEvery = 10 * time.Second // between two hellos to one member; a tenth of that where one was not answered
	missesGone = 3                // hellos without an answer until a member counts as gone
	remember   = 5 * time.Minute  // for so long a change of members is remembered, and who has gone
)

// CheckName refuses names of clusters and members that a log or a header could not show.
func CheckName(name string) error {
	bad := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsGraphic(r) || unicode.IsSpace(r) || strings.ContainsRune(`/"\`, r)
	}
	switch {
	case name == "":
		return errors.New("want a name")
	case len(name) > nameBytes:
		return fmt.Errorf("%.20q...: want at most %d bytes", name, nameBytes)
	case strings.ContainsFunc(name, bad):
		return fmt.Errorf("%q: want letters, digits and signs such as dot, dash and underscore", name)
	}
	return nil
}
