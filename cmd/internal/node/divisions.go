package node

import (
	"path/filepath"

	"github.com/millrace-data/millrace/cmd/internal/datasets"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/datapath/diskcache"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
)

// division is a data path with its own budget and disk cache. Datasets of one division never evict
// chunks of another. The main division serves all datasets without a quota. Its budget also
// contains the plans and reports of all requests.
type division struct {
	quota  Quota  // in the main division: no dataset, and the sizes of --cache-size and --disk-cache-size
	dir    string // directory of its disk cache; "": none
	budget *budget.Budget
	disk   *diskcache.Cache
	path   *datapath.Path
	listed int64 // reserved bytes for the list of the files on disk; guarded by keeper.fitting
}

// divide makes the divisions without datasets, the main one first. set is the initial set of
// datasets.
func (s *Node) divide(set datasets.Set) error {
	c := s.cfg
	s.divisions = []*division{{quota: Quota{Memory: c.CacheSize, Disk: c.DiskCacheSize}, dir: c.DiskCache}}
	for _, q := range c.Quota {
		v := &division{quota: q}
		if q.Disk > 0 {
			v.dir = filepath.Join(c.DiskCache, "quota-"+q.Dataset)
		}
		s.divisions = append(s.divisions, v)
	}
	var others datapath.Peers
	if s.peers != nil {
		others = s.peers.cluster
	}
	for _, v := range s.divisions {
		v.budget = budget.New(v.quota.Memory, c.BudgetWait)
		if err := s.openDisk(v, set); err != nil {
			return err
		}
		v.path = datapath.New(datapath.Config{
			Budget: v.budget, Fetchers: c.Parallel, PartSize: c.PartSize, CheckSHA: c.CheckSHA256, NoPrefetch: c.NoPrefetch,
			Policy: c.CachePolicy, Disk: v.disk, Peers: others, Trace: s.trace, Quota: v != s.main(),
		})
		s.closers = append(s.closers, v.path.Close)
	}
	return nil
}

// main is the division of all datasets without a quota.
func (s *Node) main() *division { return s.divisions[0] }

// division returns the division of a dataset.
func (s *Node) division(dataset string) *division {
	for _, v := range s.divisions[1:] {
		if v.quota.Dataset == dataset {
			return v
		}
	}
	return s.main()
}

// paths returns the data paths of all divisions.
func (s *Node) paths() []*datapath.Path {
	paths := make([]*datapath.Path, 0, len(s.divisions))
	for _, v := range s.divisions {
		paths = append(paths, v.path)
	}
	return paths
}

// stats returns the metrics of a quota's memory; none for the main division.
func (v *division) stats() []gateway.Stat {
	if v.quota.Dataset == "" {
		return nil
	}
	of, b := map[string]string{"dataset": v.quota.Dataset}, v.budget
	return []gateway.Stat{
		{Name: "quota_bytes", Help: "Memory quota of the dataset.", Value: float64(b.Total()), Labels: of},
		{Name: "quota_used_bytes", Help: "Memory quota in use.", Value: float64(b.InUse()), Labels: of},
		{Name: "quota_refused_total", Help: "Requests refused after waiting for memory of the quota.", Value: float64(b.Refused()), Labels: of},
	}
}

// setting returns the name of the setting for the division's memory.
func (v *division) setting() string {
	if v.quota.Dataset == "" {
		return "cache-size"
	}
	return "quota " + v.quota.Dataset
}

// diskSetting returns the name of the setting for the division's disk cache.
func (v *division) diskSetting() string {
	if v.quota.Dataset == "" {
		return "disk-cache-size"
	}
	return v.setting()
}

// mix makes the source of a mixture. Its sources may be in several divisions. It reserves memory in
// the divisions' order.
func (s *Node) mix(sources []gateway.Dataset) gateway.Source {
	parts := make([]datapath.Part, 0, len(sources))
	for _, d := range sources {
		parts = append(parts, datapath.Part{Name: d.Name, Source: d.Source.(*datapath.Source)})
	}
	return datapath.Mix(s.paths(), parts)
}
