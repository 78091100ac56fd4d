package node

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/millrace-data/millrace/cluster"
	"github.com/millrace-data/millrace/cluster/discovery"
	"github.com/millrace-data/millrace/datapath/diskcache"
	"github.com/millrace-data/millrace/internal/certs"
)

const (
	minMemory   = 1 << 20     // minimum of a budget or a disk cache: less than this holds no typical chunk
	minFollow   = time.Second // minimum time between two checks of the pointers
	minPartSize = 64 << 10    // minimum of a store read: latency dominates smaller ones
)

// faults collects the faults of a configuration.
type faults []error

// add records a fault of a setting under its name in a configuration file. format continues the
// name.
func (f *faults) add(setting, format string, args ...any) {
	*f = append(*f, &SettingError{setting, fmt.Errorf(format, args...)})
}

// Complete computes missing settings from others and from this machine. It returns all faults that need no open dataset or port.
func (c *Config) Complete() []error {
	var f faults
	if c.FirstByteTimeout == 0 {
		f.add("first-byte-timeout", " must be more than 0s")
	}
	if c.BudgetWait == 0 {
		f.add("budget-wait", " must be more than 0s")
	}
	if c.Follow != 0 && c.Follow < minFollow {
		f.add("follow", " must be 0s or at least %s, not %s", minFollow, c.Follow)
	}
	if c.PartSize < minPartSize {
		f.add("part-size", " must be at least 64KiB, not %s", size(c.PartSize))
	}
	switch {
	case c.TLSCert == "" && c.TLSKey != "":
		f.add("tls-key", " requires tls-cert")
	case c.TLSCert != "" && c.TLSKey == "":
		f.add("tls-cert", " requires tls-key")
	case c.ClientCA != "" && c.TLSCert == "":
		f.add("client-ca", " requires tls-cert and tls-key")
	}
	c.placeOnDisk(&f)
	c.checkSpace(&f)
	c.checkQuotas(&f)
	if c.Cluster != "" {
		c.ClusterConfig.complete(&f)
		if slices.Contains(Addresses(c.Listen), c.PeerListen) {
			f.add("peer-listen", " must differ from listen: both are %s", c.PeerListen)
		}
	}
	return f
}

func size(n int64) string { return humanize.IBytes(uint64(n)) }

// placeOnDisk computes the size of the disk cache, and sets the directory for copies of indexes
// inside it.
func (c *Config) placeOnDisk(f *faults) {
	if c.DiskCache == "" {
		return
	}
	if c.IndexDir == "" && !c.Check {
		c.IndexDir = filepath.Join(c.DiskCache, "indexes")
	}
	if c.DiskCacheSize > 0 {
		return
	}
	all, err := diskcache.DefaultSize(c.DiskCache)
	if err != nil {
		f.add("disk-cache", ": %w", err)
		return
	}
	for _, q := range c.Quota {
		all -= q.Disk
	}
	c.DiskCacheSize = max(all/mebibyte, 1) * mebibyte
}

// checkSpace checks the sizes of memory and disk.
func (c *Config) checkSpace(f *faults) {
	switch {
	case c.CacheSize < minMemory:
		f.add("cache-size", " must be at least 1MiB, not %s", size(c.CacheSize))
	case c.CacheSize > c.Memory:
		f.add("cache-size", " must be at most %s, the memory limit of this process, not %s", size(c.Memory), size(c.CacheSize))
	}
	switch {
	case c.DiskCache == "" && c.DiskCacheSize > 0:
		f.add("disk-cache-size", " requires disk-cache")
	case c.DiskCache != "" && c.DiskCacheSize < minMemory:
		f.add("disk-cache-size", " must be at least 1MiB, not %s", size(c.DiskCacheSize))
	}
}

func (c *Config) checkQuotas(f *faults) {
	datasets, seen := map[string]bool{}, map[string]bool{}
	for _, l := range c.Locations {
		datasets[l.Name] = true
	}
	for _, q := range c.Quota {
		switch {
		case !datasets[q.Dataset] && c.Datasets == "":
			f.add("quota", ": there is no dataset %q", q.Dataset)
		case seen[q.Dataset]:
			f.add("quota", ": dataset %q has two quotas", q.Dataset)
		case q.Memory < minMemory:
			f.add("quota", ": memory of %q must be at least 1MiB, not %s", q.Dataset, size(q.Memory))
		case q.Disk > 0 && c.DiskCache == "":
			f.add("quota", ": disk of %q requires disk-cache", q.Dataset)
		case q.Disk > 0 && q.Disk < minMemory:
			f.add("quota", ": disk of %q must be at least 1MiB", q.Dataset)
		}
		seen[q.Dataset] = true
	}
	if all := c.memoryOfAll(); len(c.Quota) > 0 && all > c.Memory {
		f.add("quota", ": cache-size and all quotas are %s together, more than the memory limit of this process, %s", size(all), size(c.Memory))
	}
}

// complete computes the missing settings of a cluster member, and records all faults.
func (c *ClusterConfig) complete(f *faults) {
	if err := cluster.CheckName(c.Cluster); err != nil {
		f.add("cluster", ": %w", err)
	}
	if c.Member == "" {
		host, err := os.Hostname()
		if err != nil {
			f.add("member", ": required, because this host has no name: %w", err)
		}
		c.Member = host
	}
	if err := cluster.CheckName(c.Member); err != nil {
		f.add("member", ": %w", err)
	}
	c.checkPort(f)
	c.checkCertificates(f)
	if c.Join.Scheme == discovery.SchemeFile {
		if _, err := discovery.ReadList(c.Join.Targets[0]); err != nil {
			f.add("join", ": %w", err)
		}
	}
}

// checkPort records the faults of the peer port.
func (c *ClusterConfig) checkPort(f *faults) {
	if c.PeerListen == "" {
		f.add("cluster", " requires peer-listen")
		return
	}
	host, port, err := net.SplitHostPort(c.PeerListen)
	if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || n == 0 {
		f.add("peer-listen", " must be HOST:PORT with a port other than 0, not %q", c.PeerListen)
		return
	}
	if c.PeerInsecure && !discovery.Loopback(host) {
		f.add("peer-insecure", ": other machines can reach peer-listen %s: use 127.0.0.1, or certificates", c.PeerListen)
	}
	for _, t := range c.Join.Targets {
		if other, _, _ := net.SplitHostPort(t); discovery.Loopback(host) && net.ParseIP(other) != nil && !discovery.Loopback(other) {
			f.add("peer-listen", ": other machines cannot reach %s, but join names %s", c.PeerListen, t)
			return
		}
	}
}

func (c *ClusterConfig) checkCertificates(f *faults) {
	all := c.PeerCert != "" && c.PeerKey != "" && c.PeerCA != ""
	some := c.PeerCert != "" || c.PeerKey != "" || c.PeerCA != "" || len(c.PeerAllow) > 0 || c.PeerSharedCert
	switch {
	case c.PeerInsecure && some:
		f.add("peer-insecure", " excludes peer-cert, peer-key, peer-ca, peer-allow and peer-shared-cert")
	case !c.PeerInsecure && !all:
		f.add("cluster", " requires peer-cert, peer-key and peer-ca, or peer-insecure on loopback")
	}
	for _, pattern := range c.PeerAllow {
		if err := certs.CheckPattern(pattern); err != nil {
			f.add("peer-allow", ": %w", err)
		}
	}
}
