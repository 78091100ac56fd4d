package node

import (
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/cluster/discovery"
	"github.com/millrace-data/millrace/cmd/internal/datasets"
	"github.com/millrace-data/millrace/cmd/internal/location"
)

// Config of a node. Sizes are in bytes. A field that a flag of serve sets has the name of the flag.
type Config struct {
	Locations []location.Location // of the datasets; the first is the default one
	Mixtures  []datasets.Mixture
	Datasets  string           // YAML file of more datasets and mixtures, read again when it changes; "": none
	Follow    time.Duration    // how often the pointers of all indexes are read again; 0: never
	HangUp    <-chan os.Signal // each signal reads the file and all pointers again
	Quotas    []Quota          // of datasets that need not be there yet if there is a file
	Stores    location.Stores

	Listen      string       // addresses of the data port, with commas between them; unix:PATH is a Unix socket
	SocketMode  fs.FileMode  // of Unix sockets: who may connect; 0: 0600, this user alone
	Bound       net.Listener // the data port, where it is bound already
	PortFile    string       // file that gets the bound addresses of the data port; "": none
	AdminListen string       // address of a port for metrics, statistics and profiles; "": the data port has them
	// HealthListen is the address of a port for probes only, plain HTTP; "": there is none. The other ports answer probes too.
	HealthListen string
	AccessConfig
	TLSCert  string // PEM file: certificate of the data and admin ports; "": plain HTTP
	TLSKey   string // PEM file: its key
	ClientCA string // PEM file: authorities whose certificates clients may show; "": none is asked for

	Memory        int64 // that the process may use
	LimitHeap     bool  // set the collector's soft limit
	PaceHeap      bool  // set the collector's pace
	CacheSize     int64
	CachePolicy   string
	DiskCache     string // "": no disk tier
	DiskCacheSize int64
	IndexDir      string // copies of indexes; "": a temporary directory
	LossLog       string // reported losses that the bucket does not take; "": they are refused

	BudgetWait       time.Duration // for memory, before a batch gets 503
	FirstByteTimeout time.Duration // to the first byte of an answer
	LameDuck         time.Duration // after the end was asked for, batches are served this long
	DrainTimeout     time.Duration // then open requests are waited for this long
	WhileLocked      string        // the node ends when no process has held a lock on this file for Linger; "": it ends when it is told to
	Linger           time.Duration
	Parallel         int   // concurrent store reads; 0: automatic
	PartSize         int64 // of one store read at most
	CheckSHA256      bool  // compare SHA-256 too when a chunk arrives
	NoPrefetch       bool
	NoSharedMemory   bool // readers on this machine get bytes, never memory
	Traces           bool // sent where the environment names a collector

	ClusterConfig
	Check   bool // open everything but the ports, and leave what a running gateway may be using alone
	Log     zerolog.Logger
	Version string
}

// Quota is what one dataset has for itself, in bytes.
type Quota struct {
	Dataset string
	Memory  int64
	Disk    int64 // 0: no disk tier
}

// ClusterConfig makes a gateway a member of a cluster. Without Cluster it is unused.
type ClusterConfig struct {
	Cluster        string         // name of the cluster
	Join           discovery.Join // where to find the other gateways
	PeerListen     string         // address of the port for other gateways
	PeerBound      net.Listener   // that port, where it is bound already
	PeerCert       string         // PEM files
	PeerKey        string
	PeerCA         string
	PeerAllow      []string // patterns, one of which a name of a certificate must fit; none: any name
	PeerInsecure   bool     // no certificates
	PeerSharedCert bool     // gateways share a certificate
	Member         string   // name of this gateway
}

// SettingError is an invalid setting, or one that the datasets or the machine do not allow.
type SettingError struct {
	Setting string // its name in a configuration file
	err     error
}

func (e *SettingError) Error() string { return e.Named(e.Setting) }
func (e *SettingError) Unwrap() error { return e.err }

// Named returns the error with another name for the setting, such as that of its flag.
func (e *SettingError) Named(name string) string {
	text := e.err.Error()
	for _, verb := range []string{"must ", "requires ", "excludes "} {
		if strings.HasPrefix(text, verb) {
			return name + " " + text
		}
	}
	return name + ": " + text
}

// memoryOfAll is what all divisions may use together.
func (c *Config) memoryOfAll() int64 {
	sum := c.CacheSize
	for _, q := range c.Quotas {
		sum += q.Memory
	}
	return sum
}
