package node

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/millrace-data/millrace/cluster"
	"github.com/millrace-data/millrace/cluster/discovery"
	"github.com/millrace-data/millrace/internal/certs"
)

const (
	minMemory   = 1 << 20     // of a budget or a disk tier: less holds no chunk of a usual dataset
	minFollow   = time.Second // between two looks at the pointers
	minPartSize = 64 << 10    // below it a store read is all latency
)

// faults collects what is wrong with a configuration.
type faults []error

// add notes a fault of a setting, by its name in a configuration file.
func (f *faults) add(setting, format string, args ...any) {
	*f = append(*f, &SettingError{setting, fmt.Errorf(format, args...)})
}

// Complete fills in what follows from other settings and from this machine, and returns each fault that can be seen without
// opening a dataset or a port.
func (c *Config) Complete() []error {
	var f faults
	if c.FirstByteTimeout == 0 {
		f.add("first-byte-timeout", "0s: want more")
	}
	if c.BudgetWait == 0 {
		f.add("budget-wait", "0s: want more")
	}
	if c.Follow != 0 && c.Follow < minFollow {
		f.add("follow", "%s: want at least %s, or 0s for never", c.Follow, minFollow)
	}
	if c.PartSize < minPartSize {
		f.add("part-size", "%s: want at least 64KiB", size(c.PartSize))
	}
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		f.add("tls-cert", "want tls-key with it, or neither")
	case c.ClientCA != "" && c.TLSCert == "":
		f.add("client-ca", "want tls-cert and tls-key with it")
	}
	c.checkSpace(&f)
	c.checkQuotas(&f)
	if c.Cluster != "" {
		c.ClusterConfig.complete(&f)
		if slices.Contains(Addresses(c.Listen), c.PeerListen) {
			f.add("peer-listen", "%s: the same address as listen", c.PeerListen)
		}
	}
	return f
}

func size(n int64) string { return humanize.IBytes(uint64(n)) }

// checkSpace checks the sizes of memory and disk.
func (c *Config) checkSpace(f *faults) {
	switch {
	case c.CacheSize < minMemory:
		f.add("cache-size", "%s: want at least 1MiB", size(c.CacheSize))
	case c.CacheSize > c.Memory:
		f.add("cache-size", "%s: more than the %s this process may use", size(c.CacheSize), size(c.Memory))
	}
	switch {
	case c.DiskCache == "" && c.DiskCacheSize > 0:
		f.add("disk-cache-size", "%s: want disk-cache with it", size(c.DiskCacheSize))
	case c.DiskCache != "" && c.DiskCacheSize == 0:
		f.add("disk-cache", "%s: want disk-cache-size with it", c.DiskCache)
	case c.DiskCache != "" && c.DiskCacheSize < minMemory:
		f.add("disk-cache-size", "%s: want at least 1MiB", size(c.DiskCacheSize))
	}
}

func (c *Config) checkQuotas(f *faults) {
	datasets, seen := map[string]bool{}, map[string]bool{}
	for _, l := range c.Locations {
		datasets[l.Name] = true
	}
	for _, q := range c.Quotas {
		switch {
		case !datasets[q.Dataset] && c.Datasets == "":
			f.add("quota", "no dataset is called %q", q.Dataset)
		case seen[q.Dataset]:
			f.add("quota", "%q has one already", q.Dataset)
		case q.Memory < minMemory:
			f.add("quota", "%s of %q: want at least 1MiB", size(q.Memory), q.Dataset)
		case q.Disk > 0 && c.DiskCache == "":
			f.add("quota", "disk of %q: want disk-cache with it", q.Dataset)
		case q.Disk > 0 && q.Disk < minMemory:
			f.add("quota", "disk of %q: want at least 1MiB", q.Dataset)
		}
		seen[q.Dataset] = true
	}
	if all := c.memoryOfAll(); len(c.Quotas) > 0 && all > c.Memory {
		f.add("quota", "cache-size and all quotas together are %s, more than the %s this process may use", size(all), size(c.Memory))
	}
}

// complete is Complete for a member of a cluster.
func (c *ClusterConfig) complete(f *faults) {
	if err := cluster.CheckName(c.Cluster); err != nil {
		f.add("cluster", "%w", err)
	}
	if c.Member == "" {
		host, err := os.Hostname()
		if err != nil {
			f.add("member", "this host has no name (%w): give one", err)
		}
		c.Member = host
	}
	if err := cluster.CheckName(c.Member); err != nil {
		f.add("member", "%w", err)
	}
	c.checkPort(f)
	c.checkCertificates(f)
	if c.Join.Scheme == discovery.SchemeFile {
		if _, err := discovery.ReadList(c.Join.Targets[0]); err != nil {
			f.add("join", "%w", err)
		}
	}
}

// checkPort notes the faults of the peer port.
func (c *ClusterConfig) checkPort(f *faults) {
	if c.PeerListen == "" {
		f.add("cluster", "%s: want peer-listen with it", c.Cluster)
		return
	}
	host, port, err := net.SplitHostPort(c.PeerListen)
	if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || n == 0 {
		f.add("peer-listen", "%q: want HOST:PORT, with a port that others know", c.PeerListen)
		return
	}
	if c.PeerInsecure && !discovery.Loopback(host) {
		f.add("peer-insecure", "others can reach peer-listen %s; use 127.0.0.1, or certificates", c.PeerListen)
	}
	for _, t := range c.Join.Targets {
		if other, _, _ := net.SplitHostPort(t); discovery.Loopback(host) && net.ParseIP(other) != nil && !discovery.Loopback(other) {
			f.add("peer-listen", "%s: only this machine can reach it, and join names %s", c.PeerListen, t)
			return
		}
	}
}

func (c *ClusterConfig) checkCertificates(f *faults) {
	all := c.PeerCert != "" && c.PeerKey != "" && c.PeerCA != ""
	some := c.PeerCert != "" || c.PeerKey != "" || c.PeerCA != "" || len(c.PeerAllow) > 0 || c.PeerSharedCert
	switch {
	case c.PeerInsecure && some:
		f.add("peer-insecure", "means no certificates, but some are named")
	case !c.PeerInsecure && !all:
		f.add("cluster", "%s: want peer-cert, peer-key and peer-ca, or peer-insecure on loopback", c.Cluster)
	}
	for _, pattern := range c.PeerAllow {
		if err := certs.CheckPattern(pattern); err != nil {
			f.add("peer-allow", "%w", err)
		}
	}
}
