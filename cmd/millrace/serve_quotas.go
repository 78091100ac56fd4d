package main

import (
	"errors"
	"strings"

	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/node"
)

// splitQuotas splits quotas at commas. A part that begins with disk= belongs to the quota before it.
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

// readQuotas parses the quotas and records faults.
func (c *serveConfig) readQuotas(f *cli.Flags) {
	c.Quotas = nil
	for _, t := range c.quota {
		q, err := parseQuota(t)
		if err != nil {
			f.Fault("--quota %q: %w", t, err)
			continue
		}
		c.Quotas = append(c.Quotas, q)
	}
}

// parseQuota parses DATASET=SIZE or DATASET=SIZE,disk=SIZE.
func parseQuota(text string) (q node.Quota, err error) {
	memory, disk, more := strings.Cut(text, ",")
	name, size, named := strings.Cut(memory, "=")
	disk, isDisk := strings.CutPrefix(disk, "disk=")
	if !named || more != isDisk {
		return q, errors.New("must be DATASET=SIZE or DATASET=SIZE,disk=SIZE")
	}
	q.Dataset = name
	if q.Memory, err = cli.ParseSize(size); err == nil && more {
		q.Disk, err = cli.ParseSize(disk)
	}
	return q, err
}
