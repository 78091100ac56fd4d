package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/location"
	"github.com/millrace-data/millrace/internal/node"
)

func (c *serveConfig) defineQuotas(f *cli.Flags) {
	f.List(&c.quotaTexts, "quota", "serve `DATASET=SIZE[,disk=SIZE]` with memory and disk of its own, beside --cache-size; may be repeated")
}

// validateQuotas reads the quotas. What follows a comma belongs to the quota before it if it says disk=.
func (c *serveConfig) validateQuotas(f *cli.Flags) {
	var texts []string
	for _, t := range c.quotaTexts {
		if strings.HasPrefix(t, "disk=") && len(texts) > 0 {
			texts[len(texts)-1] += "," + t
			continue
		}
		texts = append(texts, t)
	}
	memory := c.CacheSize
	for _, t := range texts {
		q, err := parseQuota(t)
		switch {
		case err != nil:
			f.Fault("--quota %q: %w", t, err)
			continue
		case !slices.ContainsFunc(c.Locations, func(l location.Location) bool { return l.Name == q.Dataset }):
			f.Fault("--quota %q: no --dataset is called %q", t, q.Dataset)
		case slices.ContainsFunc(c.Quotas, func(o node.Quota) bool { return o.Dataset == q.Dataset }):
			f.Fault("--quota %q: %q has one already", t, q.Dataset)
		case q.Disk > 0 && c.DiskDir == "":
			f.Fault("--quota %q: want --disk-cache DIR with it", t)
		}
		c.Quotas = append(c.Quotas, q)
		memory += q.Memory
	}
	if len(c.Quotas) > 0 && memory > c.Memory {
		f.Fault("--quota: --cache-size and all quotas together are %s, more than the %s this process may use", cli.FormatSize(memory), cli.FormatSize(c.Memory))
	}
}

func parseQuota(text string) (q node.Quota, err error) {
	memory, disk, found := strings.Cut(text, ",")
	name, size, named := strings.Cut(memory, "=")
	q.Dataset = name
	if named {
		q.Memory, err = cli.ParseSize(size)
	}
	if size, isDisk := strings.CutPrefix(disk, "disk="); err == nil && found && isDisk {
		q.Disk, err = cli.ParseSize(size)
		if err == nil && q.Disk < 1<<20 {
			return q, errors.New("disk: want at least 1MiB")
		}
	} else if found && !isDisk {
		named = false
	}
	switch {
	case err != nil:
		return q, err
	case !named:
		return q, errors.New("want DATASET=SIZE or DATASET=SIZE,disk=SIZE")
	case q.Memory < 1<<20:
		return q, errors.New("want at least 1MiB")
	}
	return q, nil
}

// defineDisk defines what is kept where beyond the horizon of the readers.
func (c *serveConfig) defineDisk(f *cli.Flags) {
	var policies []string
	for _, p := range datapath.Policies() {
		policies = append(policies, string(p))
	}
	f.Choice(&c.CachePolicy, "cache-policy", policies[0], "`POLICY` by which chunks leave memory that no reader comes for soon", policies...)
	f.Text(&c.DiskDir, "disk-cache", "", "`DIR` that keeps chunks between memory and store, also over a restart")
	f.Size(&c.DiskSize, "disk-cache-size", 0, "`SIZE` that --disk-cache may take at most; wanted with it")
	f.Set.Lookup("disk-cache-size").DefValue = ""
}

func (c *serveConfig) validateDisk(f *cli.Flags) {
	switch {
	case c.DiskDir == "" && c.DiskSize > 0:
		f.Fault("--disk-cache-size %s: want --disk-cache DIR with it", cli.FormatSize(c.DiskSize))
	case c.DiskDir != "" && c.DiskSize == 0:
		f.Fault("--disk-cache %s: want --disk-cache-size SIZE with it", c.DiskDir)
	case c.DiskDir != "" && c.DiskSize < 1<<20:
		f.Fault("--disk-cache-size %s: want at least 1MiB", cli.FormatSize(c.DiskSize))
	}
}
