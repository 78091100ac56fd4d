// Package pack packs files into tar shards that follow the WebDataset convention. Other programs
// can read these shards without Millrace.
//
// A run first walks its sources and makes a plan, which determines the exact position of each file
// before any file is read. The plan depends only on names and sizes, the shards only on names and
// contents. The same input therefore produces the same bytes on any machine, in any order of
// directory entries and with any number of shards written in parallel. Each shard is built in
// memory or in an unnamed temporary file, and stored in one Put.
//
// A state object under .millrace/pack/, named by the plan's hash, lists the finished shards. During
// a run, notes next to the state list the shards that were added since. To resume an interrupted
// run, the user starts it again: the run compares finished shards with the objects in the store and
// reuses them.
package pack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/internal/parallel"
	"github.com/millrace-data/millrace/internal/objstore"
)

// Methods of grouping files into samples, for Options.Key.
const (
	KeyGroup = format.KeyGroup // files whose names agree up to the first dot of the base name are one sample
	KeyPath  = format.KeyPath  // every file is one sample
)

// DefaultShardSize is the target length of a shard.
const DefaultShardSize = 256 << 20

// ErrOccupied is the error for a target prefix that holds shards of another plan.
var ErrOccupied = errors.New("the destination already contains other shards")

// Options defines how files are packed into shards. The zero value of a field means its default.
type Options struct {
	ShardSize   int64       // target length of a shard, default 256 MiB; only a single larger sample produces a longer shard
	Key         string      // "group" (files with the same key are one sample) or "path" (every file is one sample)
	Match       string      // pattern of names, as in naming.Matches; only matching files are packed; empty: all files
	Label       string      // LabelDirectory: each sample gets a member with the number of its class; empty: no labels
	Tables      []string    // files whose rows describe other files, in addition to those called metadata.jsonl and metadata.csv; a sample gets a member with its row
	Parallel    int         // number of shards written in parallel, default: the number of usable processors
	Hidden      bool        // include hidden files, such as .DS_Store
	SkipSpecial bool        // exclude and report symbolic links, devices, sockets and pipes, instead of returning an error
	TempDir     string      // directory in which shards are built, default: the system's temporary directory
	Share       build.Share // part of the shards, in plan order, when several machines pack together
	Progress    func(chunkindex.Progress)
}

// Report is the result of a run.
type Report struct {
	Files         int            `json:"files"`
	Samples       int            `json:"samples"`
	Shards        int            `json:"shards"`
	ReusedShards  int            `json:"reused_shards"` // shards that an earlier, interrupted run finished
	Bytes         int64          `json:"bytes"`
	Classes       []string       `json:"classes,omitempty"`        // names of the classes, by class number
	MultiMember   int            `json:"multi_member_samples"`     // number of samples with more than one member
	Example       string         `json:"example,omitempty"`        // key of one such sample
	Extensions    map[string]int `json:"extensions"`               // number of files with each extension
	Hidden        int            `json:"hidden"`                   // number of excluded hidden files, such as .DS_Store
	HiddenExample string         `json:"hidden_example,omitempty"` // name of one such file
	Tables        []TableReport  `json:"tables,omitempty"`         // tables whose rows were joined to samples
	WithoutRow    int            `json:"without_row,omitempty"`    // number of samples without a row in a table
	WithoutRowOf  string         `json:"without_row_of,omitempty"` // key of one such sample
	Skipped       []string       `json:"skipped"`                  // names of entries that are not regular files

	Part *build.PartReport `json:"part,omitempty"` // for a run of one part; all other numbers cover all parts

	Names []string `json:"-"` // names of the shards of a run of one part, sorted
}

// Has reports whether the part that this run packed contains a shard. name is the shard's name
// below the prefix.
func (r *Report) Has(name string) bool {
	_, found := slices.BinarySearch(r.Names, name)
	return found
}

// Pack packs the regular files under the sources (files or directories) into tar shards under
// prefix. The same input produces the same bytes. Pack does not index the shards.
//
// A file's name in the shard is its path relative to the source directory, or its base name if the
// source is the file itself. Pack writes nothing and returns an error that names the file in these
// cases: two files have one name, two samples have one key, a name is not valid UTF-8, a name or
// sample is longer than an index allows, or an entry is not a regular file.
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
		return Report{}, fmt.Errorf("pack: all %d files in the sources are hidden: use --hidden to include them", len(found.hidden))
	}
	tables, err := found.takeTables(opt.Tables)
	if err != nil {
		return Report{}, fmt.Errorf("pack: %w", err)
	}
	todo, err := newPlan(found.files, tables, opt)
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
	if opt.Share.Parts > 0 { // the run that joins the parts confirms their shards
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
	o.ShardSize, o.Parallel, o.Key = cmp.Or(o.ShardSize, DefaultShardSize), cmp.Or(o.Parallel, runtime.GOMAXPROCS(0)), cmp.Or(o.Key, KeyGroup)
	if o.ShardSize < 0 || o.Parallel < 0 {
		return o, fmt.Errorf("pack: shard size %d and parallel %d must both be positive", o.ShardSize, o.Parallel)
	}
	if o.Key != KeyGroup && o.Key != KeyPath {
		return o, fmt.Errorf("pack: sample key %q: must be %q or %q", o.Key, KeyGroup, KeyPath)
	}
	if o.Label != "" && o.Label != LabelDirectory {
		return o, fmt.Errorf("pack: label %q: must be %q or empty", o.Label, LabelDirectory)
	}
	return o, nil
}

// job is one run of a plan against a store.
type job struct {
	plan   *plan
	opt    Options
	store  objstore.Store
	prefix string
	mine   []*shard                   // shards of this run: all shards of the plan, or those of one part
	begun  int                        // number of parts of an earlier run; 0: it had no parts
	done   map[string][]finishedShard // shards that earlier runs and other parts recorded, by shard name; workers only read it
	stored map[string]finishedShard   // shards that are in the store when this run ends, by shard name
	notes  []string                   // keys of the notes written since the state was written

	noting sync.Mutex // serializes the writes of notes

	mu       sync.Mutex      // guards the fields below, stored and the report, and serializes calls of opt.Progress
	fresh    []finishedShard // shards that no note lists yet
	progress chunkindex.Progress
	shown    int64 // value of progress.Done at the last call of opt.Progress
}

// progressStep is the number of bytes between two calls of opt.Progress.
const progressStep = 1 << 20

// advance adds bytes, and finished shards with their samples, to the progress.
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

// run finishes every shard of this run in parallel, until ctx ends or a shard fails.
func (j *job) run(ctx context.Context) error {
	j.stored = map[string]finishedShard{}
	return parallel.Each(ctx, j.opt.Parallel, len(j.mine), func(ctx context.Context, _, i int) error {
		f, reused, err := j.finish(ctx, j.mine[i])
		if err != nil {
			return err
		}
		return j.record(ctx, f, reused)
	})
}

// record counts a finished shard and writes a note of it, unless an earlier run already recorded it.
// Shards that other workers finish during a write share the next note. A killed run therefore loses
// at most two shards per worker: the shard in the unfinished note, and the shard stored meanwhile.
// The next run finds all shards that were stored before a failure.
func (j *job) record(ctx context.Context, f finishedShard, reused bool) error {
	j.mu.Lock()
	j.stored[f.Name] = f
	if reused {
		j.plan.report.ReusedShards++
	}
	if !slices.Contains(j.done[f.Name], f) {
		j.fresh = append(j.fresh, f)
	}
	j.mu.Unlock()
	j.noting.Lock()
	defer j.noting.Unlock()
	j.mu.Lock()
	fresh := j.fresh
	j.fresh = nil
	j.mu.Unlock()
	if len(fresh) == 0 {
		return nil
	}
	return j.note(ctx, fresh)
}
