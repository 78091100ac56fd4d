package node

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/datapath/diskcache"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/location"
)

// division is a data path and what it alone may use: the datasets of one division displace nothing of another's.
// The main one serves every dataset without a quota, and its budget holds what all requests need: plans, reports.
type division struct {
	quota  Quota  // of the main one: no dataset, --cache-size and --disk-cache-size
	dir    string // of its disk tier; "": none
	budget *budget.Budget
	disk   *diskcache.Cache
	path   *datapath.Path
	opened []location.Opened
}

// divide makes the divisions, the main one first, without anything in them.
func (s *Node) divide() error {
	c := s.cfg
	s.divisions = []*division{{quota: Quota{Memory: c.CacheSize, Disk: c.DiskSize}, dir: c.DiskDir}}
	for _, q := range c.Quotas {
		v := &division{quota: q}
		if q.Disk > 0 {
			v.dir = filepath.Join(c.DiskDir, "quota-"+q.Dataset)
		}
		s.divisions = append(s.divisions, v)
	}
	var others datapath.Peers
	if s.peers != nil {
		others = s.peers.cluster
	}
	for _, v := range s.divisions {
		v.budget = budget.New(v.quota.Memory, c.Wait)
		if err := s.openDisk(v); err != nil {
			return err
		}
		v.path = datapath.New(datapath.Config{
			Budget: v.budget, Fetchers: c.Fetchers, PartSize: c.PartSize, CheckSHA: c.CheckSHA, NoPrefetch: c.NoPrefetch,
			Policy: datapath.Policy(c.CachePolicy), Disk: v.disk, Peers: others, Trace: s.trace,
		})
		s.closers = append(s.closers, v.path.Close)
	}
	return nil
}

// main is the division of all datasets without a quota.
func (s *Node) main() *division { return s.divisions[0] }

// division returns that of a dataset.
func (s *Node) division(dataset string) *division {
	for _, v := range s.divisions[1:] {
		if v.quota.Dataset == dataset {
			return v
		}
	}
	return s.main()
}

// openIndexes opens the indexes of all datasets.
func (s *Node) openIndexes(ctx context.Context) error {
	var faults []error
	for _, l := range s.cfg.Locations {
		v := s.division(l.Name)
		d, err := s.cfg.Stores.OpenIndex(ctx, l, chunkindex.OpenOptions{CacheDir: s.cfg.IndexDir, Tables: v.path.Tables()})
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
func (s *Node) fit() error {
	for _, v := range s.divisions {
		if err := s.fits(v); err != nil {
			return err
		}
	}
	return nil
}

func (s *Node) datasets() ([]gateway.Dataset, error) {
	var faults []error
	sets := make([]gateway.Dataset, 0, len(s.opened))
	s.names = make(map[*datapath.Source]string, len(s.opened))
	for _, d := range s.opened {
		source := s.division(d.Loc.Name).path.Open(d.Index, d.Store, d.Loc.Prefix)
		s.names[source] = d.Loc.Name
		source.KeepOnDisk(s.cfg.Stores.Place(d.Loc))
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

// setting names the setting for the memory of the division.
func (v *division) setting() string {
	if v.quota.Dataset == "" {
		return "cache-size"
	}
	return "quota " + v.quota.Dataset
}

// diskSetting names the setting for its disk.
func (v *division) diskSetting() string {
	if v.quota.Dataset == "" {
		return "disk-cache-size"
	}
	return v.setting()
}

// mix makes the source of a mixture. Its sources may be of several divisions: the order of these is that in which their memory is taken.
func (s *Node) mix(sources []gateway.Dataset) gateway.Source {
	paths := make([]*datapath.Path, 0, len(s.divisions))
	for _, v := range s.divisions {
		paths = append(paths, v.path)
	}
	parts := make([]datapath.Part, 0, len(sources))
	for _, d := range sources {
		parts = append(parts, datapath.Part{Name: d.Name, Source: d.Source.(*datapath.Source)})
	}
	return datapath.Mix(paths, parts)
}
