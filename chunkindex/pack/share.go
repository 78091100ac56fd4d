package pack

import (
	"context"
	"slices"
	"sync"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/internal/parallel"
)

// take selects the shards of this run: all shards of the plan, or one of every Parts shards.
func (j *job) take() {
	r, share := &j.plan.report, j.opt.Share
	part := build.PartReport{Part: share.Part, Parts: share.Parts}
	for i := range j.plan.shards {
		if s := &j.plan.shards[i]; share.Parts == 0 || i%share.Parts == share.Part {
			j.mine = append(j.mine, s)
			part.Shards, part.Bytes = part.Shards+1, part.Bytes+s.length
		}
	}
	if share.Parts > 0 {
		r.Part = &part
		for _, s := range j.mine {
			r.Names = append(r.Names, s.name)
		}
		slices.Sort(r.Names)
	}
	j.progress = chunkindex.Progress{Total: part.Bytes, Of: part.Shards}
}

// joinable returns a PartsError if this run joins parts and shards of parts that were started are
// missing.
func (j *job) joinable(ctx context.Context) error {
	if j.begun == 0 || j.opt.Share.Parts > 0 || j.opt.Share.Rest {
		return nil
	}
	missing := &build.PartsError{StartedParts: build.StartedParts{Parts: j.begun}, Same: true, Shards: len(j.plan.shards)}
	var mu sync.Mutex // guards missing
	err := parallel.Each(ctx, j.opt.Parallel, len(j.mine), func(ctx context.Context, _, i int) error {
		s := j.mine[i]
		old, found, err := j.recall(ctx, s)
		if err != nil || found && old.Stamp == s.stamp {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		missing.Add(i%j.begun, s.name, 1)
		missing.Bytes += s.length
		return nil
	})
	if err == nil && len(missing.Lacks) > 0 {
		return missing
	}
	return err
}
