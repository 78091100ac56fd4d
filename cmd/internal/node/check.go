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
	if c.Deadline == 0 {
		f.add("first-byte-timeout", "0s: want more")
	}
	if c.Wait == 0 {
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
	if c.Cluster.Name != "" {
		c.Cluster.complete(&f)
		if slices.Contains(Addresses(c.Listen), c.Cluster.Listen) {
			f.add("peer-listen", "%s: the same address as listen", c.Cluster.Listen)
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
	case c.DiskDir == "" && c.DiskSize > 0:
		f.add("disk-cache-size", "%s: want disk-cache with it", size(c.DiskSize))
	case c.DiskDir != "" && c.DiskSize == 0:
		f.add("disk-cache", "%s: want disk-cache-size with it", c.DiskDir)
	case c.DiskDir != "" && c.DiskSize < minMemory:
		f.add("disk-cache-size", "%s: want at least 1MiB", size(c.DiskSize))
	}
}

func (c *Config) checkQuotas(f *faults) {
	datasets, seen := map[string]bool{}, map[string]bool{}
	for _, l := range c.Locations {
		datasets[l.Name] = true
	}
	for _, q := range c.Quotas {
		switch {
		case !datasets[q.Dataset] && c.DatasetsFile == "":
			f.add("quota", "no dataset is called %q", q.Dataset)
		case seen[q.Dataset]:
			f.add("quota", "%q has one already", q.Dataset)
		case q.Memory < minMemory:
			f.add("quota", "%s of %q: want at least 1MiB", size(q.Memory), q.Dataset)
		case q.Disk > 0 && c.DiskDir == "":
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
	if err := cluster.CheckName(c.Name); err != nil {
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
	if err := c.completePort(f); err != nil {
		f.add("peer-advertise", "%w", err)
	}
	c.checkCertificates(f)
	if c.Where.Scheme == discovery.SchemeFile {
		if _, err := discovery.ReadList(c.Where.Targets[0]); err != nil {
			f.add("join", "%w", err)
		}
	}
}

// completePort returns a fault of the address at which others reach the peer port, and notes those of the port itself.
func (c *ClusterConfig) completePort(f *faults) error {
	if c.Listen == "" {
		f.add("cluster", "%s: want peer-listen with it", c.Name)
		return nil
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || n == 0 {
		f.add("peer-listen", "%q: want HOST:PORT, with a port that others can be told", c.Listen)
		return nil
	}
	if c.Insecure && !discovery.Loopback(host) {
		f.add("peer-insecure", "others can reach peer-listen %s; use 127.0.0.1, or certificates", c.Listen)
	}
	if c.Advertise == "" {
		if c.Advertise, err = advertised(host, port); err != nil {
			return err
		}
	}
	if err := discovery.CheckAddress(c.Advertise); err != nil {
		return err
	}
	own, _, _ := net.SplitHostPort(c.Advertise)
	for _, t := range c.Where.Targets {
		if other, _, _ := net.SplitHostPort(t); discovery.Loopback(own) && net.ParseIP(other) != nil && !discovery.Loopback(other) {
			return fmt.Errorf("%s: only this machine can reach it, and join names %s", c.Advertise, t)
		}
	}
	return nil
}

func (c *ClusterConfig) checkCertificates(f *faults) {
	all := c.Cert != "" && c.Key != "" && c.CA != ""
	some := c.Cert != "" || c.Key != "" || c.CA != "" || len(c.Allow) > 0 || c.SharedCert
	switch {
	case c.Insecure && some:
		f.add("peer-insecure", "means no certificates, but some are named")
	case !c.Insecure && !all:
		f.add("cluster", "%s: want peer-cert, peer-key and peer-ca, or peer-insecure on loopback", c.Name)
	}
	for _, pattern := range c.Allow {
		if err := certs.CheckPattern(pattern); err != nil {
			f.add("peer-allow", "%w", err)
		}
	}
}
