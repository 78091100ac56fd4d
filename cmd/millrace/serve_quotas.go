package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/location"
	"github.com/millrace-data/millrace/internal/node"
)

// splitQuotas takes quotas apart at their commas. What follows a comma belongs to the quota before it if it says disk=.
func splitQuotas(s string) (texts []string) {
	for t := range strings.SplitSeq(s, ",") {
		if strings.HasPrefix(t, "disk=") && len(texts) > 0 {
			texts[len(texts)-1] += "," + t
			continue
		}
		texts = append(texts, t)
	}
	return texts
}

// validateQuotas reads the quotas.
func (c *serveConfig) validateQuotas(f *cli.Flags) {
	memory := c.CacheSize
	for _, t := range c.quotaTexts {
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
