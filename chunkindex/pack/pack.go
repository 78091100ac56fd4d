// Package pack turns files into tar shards that follow the WebDataset convention, so that what Millrace packed can
// be read without Millrace.
//
// A run first walks its sources and plans: which file goes where in which shard is known, to the byte, before any
// file is read. The plan depends on names and sizes alone, the shards on names and contents, so the same input gives
// the same bytes on any machine, in any order of directory entries and with any number of shards written side by
// side. Each shard is built aside (in memory or in a temporary file that has no name) and stored in one Put.
//
// A state object under .millrace/pack/, named by the plan's hash, lists the shards that are finished, and while a run goes
// on, notes beside it those that it has added. A run that was killed is therefore simply started again: finished shards are compared with what the store holds and left alone.
package pack

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/internal/objstore"
)

// Ways of making samples from files, for Options.Key.
const (
	KeyGroup = format.KeyGroup // files that agree up to the first dot of their base name are one sample
	KeyPath  = format.KeyPath  // every file is a sample of its own
)

// DefaultShardSize is the target length of a shard.
const DefaultShardSize = 256 << 20

// ErrOccupied says that the target prefix holds shards that are not of this plan.
var ErrOccupied = errors.New("the target already holds other shards")

// Options says how files become shards. The zero value of a field means its default.
type Options struct {
	ShardSize   int64       // target length of a shard, 256 MiB; only a single larger sample makes a longer one
	Key         string      // "group" (files that share a key are one sample) or "path" (every file is a sample)
	Match       string      // only files whose names match it, as build.Matches has it; empty: all
	Label       string      // LabelDirectory: each sample gets a member with the number of its class; empty: none does
	Parallel    int         // shards written side by side, the number of usable processors
	Hidden      bool        // take files that programs leave beside data too, such as .DS_Store
	SkipSpecial bool        // leave out symbolic links, devices, sockets and pipes, and report them, instead of refusing them
	TempDir     string      // where shards too large for memory are built, the system's temporary directory
	Share       build.Share // of the shards, where several machines pack together; shards are counted as the plan does
	Progress    func(chunkindex.Progress)
}

// Report says what was packed.
type Report struct {
	Files         int            `json:"files"`
	Samples       int            `json:"samples"`
	Shards        int            `json:"shards"`
	ReusedShards  int            `json:"reused_shards"` // finished by an earlier, interrupted run
	Bytes         int64          `json:"bytes"`
	Classes       []string       `json:"classes,omitempty"`        // names of the labels, by their numbers
	MultiMember   int            `json:"multi_member_samples"`     // samples of more than one member
	Example       string         `json:"example,omitempty"`        // one of them
	Extensions    map[string]int `json:"extensions"`               // how many files have each
	Hidden        int            `json:"hidden"`                   // files that were left out, such as .DS_Store
	HiddenExample string         `json:"hidden_example,omitempty"` // one of them
	Skipped       []string       `json:"skipped"`                  // what is not a regular file, by name

	Part *build.PartReport `json:"part,omitempty"` // of a run for one part; the other numbers are those of all parts

	Names []string `json:"-"` // of the shards of a run for one part, sorted
}

// Has says whether a shard, by its name below the prefix, is of the part that this run has packed.
func (r *Report) Has(name string) bool {
	_, found := slices.BinarySearch(r.Names, name)
	return found
}

// Pack packs the regular files under the sources (files or directories) into tar shards under prefix. The
// same input gives the same bytes. Indexing is a separate step.
//
// A file's name in the shard is its path relative to the source directory, or its base name if it is a source
// itself. Two files with one name, two samples with one key, names that are not valid UTF-8, what is longer than an
// index takes, and everything that is not a regular file are refused by name before anything is written.
func Pack(ctx context.Context, sources []string, store objstore.Store, prefix string, opt Options) (Report, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return Report{}, err
	}
	if prefix != "" && prefix[len(prefix)-1] != '/' {
		prefix += "/"
	}
	found, err := walk(ctx, sources, opt)
	defer found.close()
	if err != nil {
		return Report{}, err
	}
	if len(found.files) == 0 && len(found.hidden) > 0 {
		return Report{}, fmt.Errorf("pack: the sources hold no files but %d hidden ones: --hidden takes them", len(found.hidden))
	}
	todo, err := newPlan(found.files, opt)
	if err != nil {
		return Report{}, err
	}
	todo.report.Skipped, todo.report.Hidden = found.skipped, len(found.hidden)
	if len(found.hidden) > 0 {
		todo.report.HiddenExample = found.hidden[0]
	}
	j := &job{plan: todo, opt: opt, store: store, prefix: prefix, done: map[string][]finishedShard{}}
	if err := j.prepare(ctx); err != nil {
		return Report{}, err
	}
	j.take()
	if err := j.joinable(ctx); err != nil {
		return Report{}, err
	}
	if err := j.run(ctx); err != nil {
		return Report{}, err
	}
	if opt.Share.Parts > 0 { // what all parts have made is confirmed by the run that joins them
		return j.plan.report, nil
	}
	if err := j.confirm(ctx); err != nil {
		return Report{}, err
	}
	if err := j.settle(ctx); err != nil {
		return Report{}, err
	}
	return j.plan.report, nil
}

func (o Options) withDefaults() (Options, error) {
	if o.ShardSize == 0 {
		o.ShardSize = DefaultShardSize
	}
	if o.Parallel == 0 {
		o.Parallel = runtime.GOMAXPROCS(0)
	}
	if o.Key == "" {
		o.Key = KeyGroup
	}
	if o.ShardSize < 0 || o.Parallel < 0 {
		return o, fmt.Errorf("pack: shard size %d and parallel %d must be positive", o.ShardSize, o.Parallel)
	}
	if o.Key != KeyGroup && o.Key != KeyPath {
		return o, fmt.Errorf("pack: key %q: want %q or %q", o.Key, KeyGroup, KeyPath)
	}
	if o.Label != "" && o.Label != LabelDirectory {
		return o, fmt.Errorf("pack: label %q: want %q or nothing", o.Label, LabelDirectory)
	}
	return o, nil
}

// job is one run of a plan against a store.
type job struct {
	plan   *plan
	opt    Options
	store  objstore.Store
	prefix string
	mine   []*shard                   // that this run finishes: all, or those of its part
	begun  int                        // parts that were begun; 0: none
	done   map[string][]finishedShard // by shard name: what earlier runs, and other parts, say that they stored; the workers read it
	stored map[string]finishedShard   // by shard name: what is stored when this run has ended
	notes  []string                   // keys of what was written since the state

	mu       sync.Mutex // guards progress, and lets one goroutine at a time call opt.Progress
	progress chunkindex.Progress
	shown    int64 // progress.Done at the last call
}

// progressStep is how many bytes pass between two calls of Options.Progress.
const progressStep = 1 << 20

// advance counts bytes, and samples of shards that are finished.
func (j *job) advance(more chunkindex.Progress) {
	if j.opt.Progress == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.progress.Add(more)
	if more.Shards == 0 && j.progress.Done-j.shown < progressStep {
		return
	}
	j.shown = j.progress.Done
	j.opt.Progress(j.progress)
}

// result is what a worker hands over when a shard is finished.
type result struct {
	finishedShard
	reused bool
}

// run finishes every shard that is this run's. The workers hand their results to this goroutine, the only one that writes the state
// object: whatever was stored before a failure is known to the next run. A state that cannot be written ends the run,
// since nothing stored from then on would be known.
func (j *job) run(ctx context.Context) error {
	results := make(chan result)
	failed := make(chan error, 1)
	working, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		failed <- j.work(working, results)
		close(results)
	}()
	saveErr := j.collect(ctx, results, stop)
	err := <-failed
	if saveErr != nil && ctx.Err() == nil && errors.Is(err, context.Canceled) {
		err = nil // no more than the end that saveErr brought about
	}
	return errors.Join(err, saveErr)
}

// work finishes the shards side by side, until ctx ends or one of them fails.
func (j *job) work(ctx context.Context, results chan<- result) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(j.opt.Parallel)
	for _, s := range j.mine {
		if groupCtx.Err() != nil {
			break
		}
		group.Go(func() error {
			r, err := j.finish(groupCtx, s)
			if err == nil {
				results <- r
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// collect writes a note whenever shards have been finished, until results is closed; it calls stop when that
// fails. One write tells the shards that are waiting for it, one of each worker at most: so a kill never loses more
// than two shards a worker, those of the write under way and those stored meanwhile.
func (j *job) collect(ctx context.Context, results <-chan result, stop func()) error {
	j.stored = map[string]finishedShard{}
	var failure error
	for r := range results {
		fresh := j.count(nil, r)
		for more, n := true, 1; more && n < j.opt.Parallel; n++ {
			select {
			case r, more = <-results:
				if more {
					fresh = j.count(fresh, r)
				}
			default:
				more = false
			}
		}
		if len(fresh) > 0 && failure == nil {
			if failure = j.note(ctx, fresh); failure != nil {
				stop()
			}
		}
	}
	return failure
}

// count counts one result, and appends it to those that a note has to tell if no earlier run has.
func (j *job) count(fresh []finishedShard, r result) []finishedShard {
	j.stored[r.Name] = r.finishedShard
	if r.reused {
		j.plan.report.ReusedShards++
	}
	if !slices.Contains(j.done[r.Name], r.finishedShard) {
		fresh = append(fresh, r.finishedShard)
	}
	return fresh
}
