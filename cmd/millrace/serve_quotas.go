package main

import (
	"errors"
	"strings"

	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/node"
	"github.com/millrace-data/millrace/internal/words"
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

// formatQuota returns a quota as parseQuota accepts it.
func formatQuota(q node.Quota) string {
	text := q.Dataset + "=" + words.Size(q.Memory)
	if q.Disk > 0 {
		text += ",disk=" + words.Size(q.Disk)
	}
	return text
}
