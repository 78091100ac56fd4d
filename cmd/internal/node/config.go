package node

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/cluster/discovery"
	"github.com/millrace-data/millrace/cmd/internal/datasets"
	"github.com/millrace-data/millrace/cmd/internal/location"
)

// Config configures a node. Sizes are in bytes. A field that a flag of serve sets has the name of
// the flag.
type Config struct {
	Locations []location.Location // locations of the datasets; the first is the default
	Mixtures  []datasets.Mixture
	Datasets  string           // YAML file of more datasets and mixtures, reloaded when it changes; "": none
	Follow    time.Duration    // interval between reads of all index pointers; 0: never
	HangUp    <-chan os.Signal // each signal reloads the file and all pointers
	Quota     []Quota          // a file of datasets may add the dataset later
	Stores    location.Stores

	Listen      string       // comma-separated addresses of the data port; unix:PATH is a Unix socket
	SocketMode  fs.FileMode  // mode of Unix sockets; 0: 0600, only this user can connect
	Bound       net.Listener // the data port, if already bound
	PortFile    string       // file to write the data port's bound addresses to; "": none
	AdminListen string       // address of a port for metrics, statistics and profiles; "": the data port has them
	// HealthListen is the address of a plain HTTP port that only answers probes; "": no such
	// port. The other ports answer probes too.
	HealthListen string
	AccessConfig
	TLSCert  string // PEM file: certificate of the data and admin ports; "": plain HTTP
	TLSKey   string // PEM file: its key
	ClientCA string // PEM file: CAs of client certificates; "": clients need no certificate

	Memory        int64 // memory limit of the process
	LimitHeap     bool  // set the soft limit of Go's garbage collector
	PaceHeap      bool  // set the pace of Go's garbage collector
	CacheSize     int64
	CachePolicy   string
	DiskCache     string // directory; "": no disk cache
	DiskCacheSize int64
	IndexDir      string // directory for copies of indexes; "": a temporary directory
	LossLog       string // directory for reported losses that the bucket rejects; "": the gateway rejects them too

	BudgetWait       time.Duration // longest wait of a batch for memory, before 503
	FirstByteTimeout time.Duration // time limit for the first byte of a response
	LameDuck         time.Duration // time in which batches are still served after the shutdown signal
	DrainTimeout     time.Duration // time limit for open requests after that
	WhileLocked      string        // file: the node ends when no process has locked it for Linger; "": no lock
	Linger           time.Duration
	Parallel         int   // concurrent store reads; 0: automatic
	PartSize         int64 // maximum size of one store read
	CheckSHA256      bool  // also verify the SHA-256 of each received chunk
	NoPrefetch       bool
	NoSharedMemory   bool // send bytes to readers on this machine too, instead of sharing memory
	Traces           bool // send traces if the environment names a collector

	ClusterConfig
	Check   bool // open all parts, except the ports and the files that a running gateway may use
	Log     zerolog.Logger
	Version string
}

// Quota is the memory and disk reserved for one dataset, in bytes.
type Quota struct {
	Dataset string
	Memory  int64
	Disk    int64 // 0: the dataset is not in a disk cache
}

// ClusterConfig makes a gateway a member of a cluster. It is ignored if Cluster is empty.
type ClusterConfig struct {
	Cluster        string         // name of the cluster
	Join           discovery.Join // discovery of the other gateways
	PeerListen     string         // address of the port for other gateways
	PeerBound      net.Listener   // that port, if already bound
	PeerCert       string         // PEM files, as for TLSCert and ClientCA
	PeerKey        string
	PeerCA         string
	PeerAllow      []string // patterns; a gateway's certificate must have a name that matches one of them; none: any name
	PeerInsecure   bool     // connect to other gateways without TLS
	PeerSharedCert bool     // all gateways use the same certificate
	Member         string   // name of this gateway
}

// SettingError reports an invalid setting, or one that the datasets or the machine do not allow.
type SettingError struct {
	Setting string // name of the setting in a configuration file
	err     error  // text after the name: " must be ..." or ": ..."
}

// settingError returns the error of a setting with a cause, which is printed after a colon.
func settingError(setting string, err error) *SettingError {
	return &SettingError{setting, fmt.Errorf(": %w", err)}
}

func (e *SettingError) Error() string { return e.Named(e.Setting) }
func (e *SettingError) Unwrap() error { return e.err }

// Named returns the error text with another name for the setting, such as its flag.
func (e *SettingError) Named(name string) string { return name + e.err.Error() }

// memoryOfAll returns the sum of the memory limits of all divisions.
func (c *Config) memoryOfAll() int64 {
	sum := c.CacheSize
	for _, q := range c.Quota {
		sum += q.Memory
	}
	return sum
}
