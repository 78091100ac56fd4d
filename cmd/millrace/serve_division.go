package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/diskcache"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/location"
)

// division is a data path and what it alone may use: the datasets of one division displace nothing of another's.
// The main one serves every dataset without a quota, and its budget holds what all requests need: plans, reports.
type division struct {
	quota  quota  // of the main one: no dataset, --cache-size and --disk-cache-size
	dir    string // of its disk tier; "": none
	budget *budget.Budget
	disk   *diskcache.Cache
	path   *datapath.Path
	opened []location.Opened
}

// quota is what one dataset has for itself.
type quota struct {
	dataset string
	memory  int64
	disk    int64 // 0: no disk tier
}

func (q quota) String() string {
	s := q.dataset + "=" + cli.FormatSize(q.memory)
	if q.disk > 0 {
		s += ",disk=" + cli.FormatSize(q.disk)
	}
	return s
}

// setting names the flag that says how much memory the division has.
func (v *division) setting() string {
	if v.quota.dataset == "" {
		return "--cache-size " + cli.FormatSize(v.quota.memory)
	}
	return "--quota " + v.quota.String()
}

// diskSetting is the same for its disk.
func (v *division) diskSetting() string {
	if v.quota.dataset == "" {
		return "--disk-cache-size " + cli.FormatSize(v.quota.disk)
	}
	return "--quota " + v.quota.String()
}

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
	memory := c.cacheSize
	for _, t := range texts {
		q, err := parseQuota(t)
		switch {
		case err != nil:
			f.Fault("--quota %q: %w", t, err)
			continue
		case !slices.ContainsFunc(c.locations, func(l location.Location) bool { return l.Name == q.dataset }):
			f.Fault("--quota %q: no --dataset is called %q", t, q.dataset)
		case slices.ContainsFunc(c.quotas, func(o quota) bool { return o.dataset == q.dataset }):
			f.Fault("--quota %q: %q has one already", t, q.dataset)
		case q.disk > 0 && c.diskDir == "":
			f.Fault("--quota %q: want --disk-cache DIR with it", t)
		}
		c.quotas = append(c.quotas, q)
		memory += q.memory
	}
	if len(c.quotas) > 0 && memory > c.memory {
		f.Fault("--quota: --cache-size and all quotas together are %s, more than the %s this process may use", cli.FormatSize(memory), cli.FormatSize(c.memory))
	}
}

func parseQuota(text string) (q quota, err error) {
	memory, disk, found := strings.Cut(text, ",")
	name, size, named := strings.Cut(memory, "=")
	q.dataset = name
	if named {
		q.memory, err = cli.ParseSize(size)
	}
	if size, isDisk := strings.CutPrefix(disk, "disk="); err == nil && found && isDisk {
		q.disk, err = cli.ParseSize(size)
		if err == nil && q.disk < 1<<20 {
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
	case q.memory < 1<<20:
		return q, errors.New("want at least 1MiB")
	}
	return q, nil
}

// memoryOfAll is what all divisions may use together.
func (c *serveConfig) memoryOfAll() int64 {
	sum := c.cacheSize
	for _, q := range c.quotas {
		sum += q.memory
	}
	return sum
}

// divide makes the divisions, the main one first, without anything in them.
func (s *server) divide() error {
	c := s.cfg
	s.divisions = []*division{{quota: quota{memory: c.cacheSize, disk: c.diskSize}, dir: c.diskDir}}
	for _, q := range c.quotas {
		v := &division{quota: q}
		if q.disk > 0 {
			v.dir = filepath.Join(c.diskDir, "quota-"+q.dataset)
		}
		s.divisions = append(s.divisions, v)
	}
	var others datapath.Peers
	if s.peers != nil {
		others = s.peers.cluster
	}
	for _, v := range s.divisions {
		v.budget = budget.New(v.quota.memory, c.wait)
		if err := s.openDisk(v); err != nil {
			return err
		}
		v.path = datapath.New(datapath.Config{
			Budget: v.budget, Fetchers: c.fetchers, PartSize: c.partSize, CheckSHA: c.checkSHA, NoPrefetch: c.noPrefetch,
			Policy: datapath.Policy(c.cachePolicy), Disk: v.disk, Peers: others,
		})
		s.closers = append(s.closers, v.path.Close)
	}
	return nil
}

// main is the division of all datasets without a quota.
func (s *server) main() *division { return s.divisions[0] }

// division returns that of a dataset.
func (s *server) division(dataset string) *division {
	for _, v := range s.divisions[1:] {
		if v.quota.dataset == dataset {
			return v
		}
	}
	return s.main()
}

// open opens the indexes of all datasets.
func (s *server) open(ctx context.Context) error {
	var faults []error
	for _, l := range s.cfg.locations {
		v := s.division(l.Name)
		d, err := s.cfg.store.OpenIndex(ctx, l, chunkindex.OpenOptions{CacheDir: s.cfg.indexDir, Tables: v.path.Tables()})
		if err != nil {
			faults = append(faults, err)
			continue
		}
		s.closers = append(s.closers, d.Close)
		v.opened, s.opened, s.stores = append(v.opened, d), append(s.opened, d), append(s.stores, d.Store)
		s.log.Info().Str("dataset", l.Name).Stringer("from", l).Str("generation", d.Index.Generation()).
			Uint64("samples", d.Index.Samples()).Int("chunks", d.Index.Chunks()).Int64("bytes", d.Index.Bytes()).Msg("dataset opened")
	}
	return errors.Join(faults...)
}

// fit refuses settings that could never serve the datasets.
func (s *server) fit() error {
	for _, v := range s.divisions {
		if err := s.fits(v); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) datasets() ([]gateway.Dataset, error) {
	var faults []error
	sets := make([]gateway.Dataset, 0, len(s.opened))
	s.names = make(map[*datapath.Source]string, len(s.opened))
	for _, d := range s.opened {
		source := s.division(d.Loc.Name).path.Open(d.Index, d.Store, d.Loc.Prefix)
		s.names[source] = d.Loc.Name
		source.KeepOnDisk(d.Loc.String())
		source.Share(d.Loc.Name)
		losses, err := s.losses(d)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		selections, err := d.Selections()
		if err != nil {
			faults = append(faults, err)
			continue
		}
		sets = append(sets, gateway.Dataset{Name: d.Loc.Name, Index: d.Index, Source: source, Importance: losses, Selection: selections})
	}
	return sets, errors.Join(faults...)
}
