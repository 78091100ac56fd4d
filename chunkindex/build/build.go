// Package build makes an index.
//
// Run lists the objects (build.go), finds out their format (survey.go, formats.go), takes over the shards that have not changed (reuse.go),
// scans the others (scan.go, loose.go) with the scanner of their format (the package format and those beside it), decoded where they are
// compressed (the package codec), cuts chunks (cut.go), keeps each scan for a run that is killed (keep.go, scanfile.go), writes the index
// file (write.go, hash.go) and publishes it (publish.go).
//
// What serves batches does not import this package: it reads indexes with the package chunkindex.
package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
)

// Options says how an index is made. The zero value of a field means its default.
type Options struct {
	ChunkSize int64               // target length of a chunk, 8 MiB
	Defaults  chunkindex.Defaults // plan parameters stored in the index; zero fields: slot, 128, 0, 256, short
	Parallel  int                 // shards scanned side by side
	// Inherit returns Defaults and ChunkSize, given those of the index that is there; nil: they hold as they are.
	Inherit      func(was chunkindex.Defaults, chunkSize int64) (chunkindex.Defaults, int64)
	SingleWriter bool // publish without conditional writes: the caller promises to be the only writer
	Progress     func(chunkindex.Progress)
	Inspect      func(*chunkindex.Index) // called with the index once it is published; it is closed afterwards
	Classes      []string                // names of the folders that are classes, in byte order, where the caller knows them; nil: found out of the names of pictures
	AllowEmpty   bool                    // publish a dataset without samples too, which nobody means to train on
	TempDir      string                  // for scans and the index while it is made; empty: the system's
	Format       string                  // name of the shards' format; empty: found out by looking
	Name         string                  // of the index, where a prefix has several; empty: the default one
	Match        string                  // only objects whose keys match it are looked at, as docs/spec/formats.md says; empty: all
	Split        string                  // only objects of this split, AllSplits for all; empty: all, unless shards of several splits lie here
	Config       string                  // only objects of this configuration of a repository with several
	Hidden       bool                    // objects that programs leave beside data, such as .DS_Store, are looked at too
	Hints        format.Options
	Share        Share // of the shards, where several machines make the index together

	// Index is where the index lies. The zero value is beside the shards. Elsewhere, nothing at all is written beside the shards.
	Index Place
	// Data is the address of the shards, for an index that lies elsewhere. The pointer keeps it, so that the index of one
	// dataset never replaces that of another.
	Data string
	// SpareClassFolders refuses, with ErrClassFolders, to write a first index among folders of which each is a class of pictures.
	SpareClassFolders bool
	// Links says that the store follows links out of its directory. The pointer keeps it, so that Index.Links tells
	// readers that they need such a store too.
	Links bool
}

// Report says what an index run found and did.
type Report struct {
	Name           string `json:"name,omitempty"`   // of the index, where it is not the default one
	Split          string `json:"split,omitempty"`  // that was chosen
	Config         string `json:"config,omitempty"` // that was chosen
	Generation     string `json:"generation"`
	Format         string `json:"format"`
	Ignored        int    `json:"ignored"`                   // objects that are no shards of the format, and say nothing of any
	IgnoredExample string `json:"ignored_example,omitempty"` // one of them
	Assumed        string `json:"assumed,omitempty"`         // what was taken for granted, and the flag that says otherwise
	Tokens         string `json:"tokens,omitempty"`          // what a sample is, of token files; the caller fills it in
	Hidden         int    `json:"hidden"`                    // objects that nobody looked at, such as .DS_Store
	HiddenExample  string `json:"hidden_example,omitempty"`  // one of them
	HadHidden      int    `json:"had_hidden"`                // those of them that are samples, or shards, of the index that was there
	HadExample     string `json:"had_hidden_example,omitempty"`
	Members        int64  `json:"hidden_members"`         // hidden members of the archives that this run read: no part of any sample
	Outside        uint64 `json:"names_outside"`          // samples of the shards that this run read whose names lead out of a directory, as format.Outside has it
	OutsideExample string `json:"name_outside,omitempty"` // one of these names
	Unmatched      int    `json:"unmatched,omitempty"`    // objects that Match leaves out, hidden ones not counted
	Empty          int    `json:"empty_shards"`           // shards without a byte, as an upload that failed leaves them
	Shards         int    `json:"shards"`
	Chunks         int    `json:"chunks"`
	Samples        uint64 `json:"samples"`
	Links          int    `json:"links"`                   // links that were passed over
	Link           string `json:"link,omitempty"`          // one of them
	ClassFolders   int    `json:"class_folders,omitempty"` // folders of pictures, where there is nothing else: readers may take each folder for a class
	RepeatedKeys   uint64 `json:"repeated_keys"`           // keys that several shards have
	RepeatedKey    string `json:"repeated_key,omitempty"`  // one of them
	LeftOut        int64  `json:"left_out"`                // tokens that fill no window, as far as shards say how many they have
	Bytes          int64  `json:"bytes"`                   // of all shards
	ReadBytes      int64  `json:"read_bytes"`              // read by this run
	ReusedShards   int    `json:"reused_shards"`           // taken from an earlier index, or from an interrupted run
	Rebound        bool   `json:"rebound"`                 // same generation, new binding
	Unchanged      bool   `json:"unchanged"`               // nothing to publish

	Part *PartReport `json:"part,omitempty"` // of a run that left scans, and published nothing
}

func (o Options) withDefaults() (Options, error) {
	if o.ChunkSize == 0 {
		o.ChunkSize = 8 << 20
	}
	for _, one := range either(o.Match) {
		if _, err := path.Match(one, ""); err != nil {
			return o, fmt.Errorf("match %q: %w", o.Match, err)
		}
	}
	if o.Name != "" && !layout.ValidIndexName(o.Name) {
		return o, fmt.Errorf("name %q: an index has a name of 1 to 64 small letters, digits, dots, dashes and underscores", o.Name)
	}
	if o.ChunkSize < 0 || o.ChunkSize > layout.MaxChunkSize {
		return o, fmt.Errorf("chunk size %d is not between 1 and %d", o.ChunkSize, layout.MaxChunkSize)
	}
	if o.Parallel <= 0 {
		o.Parallel = 4
	}
	d := &o.Defaults
	if d.Shuffle == "" {
		d.Shuffle = "slot"
	}
	if d.Window == 0 {
		d.Window = 128
	}
	if d.BatchSize == 0 {
		d.BatchSize = 256
	}
	if d.Tail == "" {
		d.Tail = "short"
	}
	return o, nil
}

// Run scans the shards under prefix and publishes their index.
func Run(ctx context.Context, store objstore.Store, prefix string, opt Options) (Report, error) {
	b, err := newBuilder(store, prefix, opt)
	if err != nil {
		return Report{}, fmt.Errorf("index %q: %w", prefix, err)
	}
	defer b.close()
	if err := b.run(ctx); err != nil {
		return b.report, fmt.Errorf("index %q: %w", prefix, layout.Advise(b.index.Prefix, opt.Name, err))
	}
	return b.report, nil
}

// builder is one run of Run.
type builder struct {
	store   objstore.Store // of the shards
	prefix  string
	index   Place // store and prefix, unless the index lies elsewhere
	opt     Options
	formats []format.Format // those that may look at the dataset
	format  format.Format   // the one that found it to be its own
	found   *format.Dataset

	pub       publisher
	old       *chunkindex.Index   // the current generation, if there is one that can be read
	lent      []*chunkindex.Index // of other indexes of the prefix, whose scans this run takes over
	named     bool                // the prefix has, or is about to have, an index with a name
	made      *chunkindex.Index   // the one of this run, before it is published
	rules     []splitRule         // what the dataset says of splits, where the options choose none
	config    string              // of the repository, that the objects belong to; empty: it has one, or the options choose none
	hidden    map[string]bool     // relative keys of objects that are left out
	unmatched string              // one of the objects that Match leaves out
	shards    []objstore.Object
	units     []unit
	scans     []chunkSource // one a unit
	writers   []*scanWriter // one a worker; nil: not needed yet
	report    Report

	keptBytes  int64 // how much is read before its scans are kept
	keptShards int
	whole      int64         // length up to which an earlier index is copied whole
	storing    chan struct{} // holds one while scans are written

	mu       sync.Mutex
	progress chunkindex.Progress
	kept     []string       // keys of objects in the store, of scans that were kept
	notes    []string       // keys of the notes of parts of this index
	begun    []StartedParts // what they say, the last one first
	gathered scanBatch
}

func newBuilder(store objstore.Store, prefix string, opt Options) (*builder, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	index := opt.Index
	if index.Store == nil {
		index = Place{store, prefix}
	}
	index.Store = indexStore{index.Store}
	return &builder{
		store: store, prefix: prefix, index: index, opt: opt, formats: formats(),
		writers: make([]*scanWriter, opt.Parallel), keptBytes: keptBytes, keptShards: keptShards, whole: chunkindex.WholeIndex, storing: make(chan struct{}, 1),
	}, nil
}

// close gives back the temporary files.
func (b *builder) close() {
	for _, x := range append(b.lent, b.old, b.made) {
		if x != nil {
			x.Close()
		}
	}
	for _, w := range b.writers {
		if w != nil {
			w.file.Close()
		}
	}
}

func (b *builder) run(ctx context.Context) error {
	if err := b.previous(ctx); err != nil {
		return err
	}
	if err := b.list(ctx); err != nil {
		return err
	}
	if b.old != nil && b.old.Format() == b.format.Name && b.old.Meta().Scanner > b.format.Rules() {
		return layout.Newer("scanner", b.old.Meta().Scanner)
	}
	if b.opt.SpareClassFolders && b.report.ClassFolders > 0 && b.pub.oldObj.ETag == "" {
		return ErrClassFolders
	}
	b.report.HadHidden, b.report.HadExample = b.hadHidden()
	todo, err := b.reuse(ctx, b.share())
	if err != nil {
		return err
	}
	if b.opt.Share.Parts > 0 {
		return b.leave(ctx, todo)
	}
	if !b.opt.SingleWriter && (len(todo) > 0 || b.pub.oldObj.ETag == "") {
		if err := probe(ctx, b.index); err != nil {
			return err
		}
	}
	if todo, err = b.takeKept(ctx, todo); err != nil {
		return err
	}
	if err := b.joinable(todo); err != nil {
		return err
	}
	if err := b.scanAll(ctx, todo); err != nil {
		return err
	}
	file, binding, err := b.assemble(ctx)
	if err != nil {
		return err
	}
	if b.found.HiddenMembers != nil {
		b.report.Members = b.found.HiddenMembers()
	}
	if b.found.Assumed != nil {
		b.report.Assumed = b.found.Assumed()
	}
	unchanged, err := b.pub.publish(ctx, file, binding)
	if err != nil {
		return err
	}
	b.report.Unchanged = unchanged
	b.report.Rebound = !unchanged && b.pub.old.Generation == file.generation
	if b.opt.Inspect != nil {
		b.opt.Inspect(b.made)
	}
	return b.removeKept(ctx)
}

// list finds the objects, in byte order of their keys, and the scans that an interrupted run left, and has the formats
// say which objects are shards.
func (b *builder) list(ctx context.Context) error {
	var objects []objstore.Object
	b.hidden = map[string]bool{}
	err := b.eachObject(ctx, func(o objstore.Object) error {
		key := strings.TrimPrefix(o.Key, b.prefix)
		switch {
		case layout.OwnObject(key) || strings.HasSuffix(o.Key, "/"): // a slash at the end marks a directory
		case !Matches(b.opt.Match, key):
			if !format.Hidden(key) {
				b.report.Unmatched++
				b.unmatched = cmp.Or(b.unmatched, key)
			}
		case !b.opt.Hidden && format.Hidden(key):
			if b.hidden[key] = true; len(b.hidden) == 1 {
				b.report.HiddenExample = key
			}
		default:
			objects = append(objects, o)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := b.listKept(ctx); err != nil {
		return err
	}
	l, err := b.choose(ctx, newListing(b.store, b.prefix, objects))
	if err != nil {
		return err
	}
	l = b.withoutStrays(l)
	if err := b.survey(ctx, l); err != nil {
		if several := b.mixture(l.keys); several != nil {
			err = fmt.Errorf("%w (%s with --split)", err, several.Error())
		}
		return err
	}
	if several := b.mixture(b.shardKeys); several != nil {
		return several
	}
	if err := cmp.Or(b.refusePartitions(), b.refuseCaches()); err != nil {
		return err
	}
	b.report.ClassFolders = classFolders(b.found)
	b.divide()
	b.scans = make([]chunkSource, len(b.units))
	b.report.Name, b.report.Shards, b.report.Hidden = b.opt.Name, len(b.shards), len(b.hidden)
	b.progress = chunkindex.Progress{Total: b.report.Bytes, Of: len(b.shards)}
	return nil
}

// previous opens the current generation. One that is damaged, or of an older version, is not used, and replaced; one
// that a newer program wrote, even if this one can read it, is left alone: the two would undo each other's work.
func (b *builder) previous(ctx context.Context) error {
	b.pub = publisher{store: b.index.Store, prefix: b.index.Prefix, name: b.opt.Name, single: b.opt.SingleWriter, data: b.opt.Data, links: b.opt.Links}
	p, obj, err := layout.ReadPointer(ctx, b.index.Store, b.index.Prefix, b.opt.Name)
	b.pub.oldObj = obj
	if err == nil && p.Data != b.opt.Data {
		return fmt.Errorf("%s belongs to %s: choose another place for this index, or remove that one first",
			layout.PointerObject(b.index.Prefix, b.opt.Name), cmp.Or(p.Data, "the shards beside it"))
	}
	if err != nil {
		if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, layout.ErrCorrupt) {
			return nil
		}
		return err
	}
	b.pub.old = p
	b.old, err = b.open(ctx, p)
	if err == nil && b.old.Meta().Cutter > cutterChanges {
		return layout.Newer("cutter", b.old.Meta().Cutter)
	}
	if err == nil {
		b.pub.index = b.old
		if inherit := b.opt.Inherit; inherit != nil {
			b.opt.Defaults, b.opt.ChunkSize = inherit(b.old.Defaults(), b.old.Meta().ChunkSize)
		}
		return nil
	}
	b.pub.old = layout.Pointer{} // whatever is there will be written anew
	if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, layout.ErrCorrupt) || errors.Is(err, layout.ErrOldVersion) {
		return nil
	}
	return err
}

// open opens the index that a pointer names.
func (b *builder) open(ctx context.Context, p layout.Pointer) (*chunkindex.Index, error) {
	return chunkindex.OpenPointer(ctx, b.index.Store, b.index.Prefix, p, b.opt.TempDir, b.whole)
}

// meta is what the index says of the whole dataset.
func (b *builder) meta() layout.Meta {
	return layout.Meta{
		Format: b.format.Name, Scanner: b.format.Rules(), Cutter: cutterChanges, ChunkSize: b.opt.ChunkSize, Defaults: b.opt.Defaults,
		Framing: b.found.Framing, Classes: b.classes(), Overlap: b.found.Overlap,
	}
}

// assemble writes the index file and the binding, and refuses a key that one shard has twice.
func (b *builder) assemble(ctx context.Context) (*indexFile, []byte, error) {
	shards, versions := make([]shardScan, len(b.shards)), make([]layout.ShardVersion, len(b.shards))
	for i, o := range b.shards {
		shards[i] = shardScan{key: b.key(i), size: o.Size}
		if o.Size == 0 {
			b.report.Empty++
		}
		versions[i] = layout.ShardVersion{ETag: o.ETag, ID: o.VersionID, Says: layout.SaysDigest(b.found.Shards[i].Says)}
	}
	for i, u := range b.units {
		shards[u.from].scan = b.scans[i]
		if b.found.LeftOut != nil { // a unit is one shard then
			b.report.LeftOut += b.found.LeftOut(u.from, b.scans[i].totals().Samples)
		}
	}
	if err := b.checkEmpty(); err != nil {
		return nil, nil, err
	}
	file, err := b.write(shards)
	if err != nil {
		return nil, nil, err
	}
	if b.report.RepeatedKeys, b.report.RepeatedKey, err = b.made.RepeatedKeys(ctx); err != nil {
		return nil, nil, err
	}
	b.report.Generation, b.report.Chunks, b.report.Samples = file.generation, b.made.Chunks(), b.made.Samples()
	binding, err := layout.EncodeBinding(file.generation, versions)
	return file, binding, err
}

// write writes the index file and opens it.
func (b *builder) write(shards []shardScan) (*indexFile, error) {
	file, err := writeIndex(b.opt.TempDir, b.meta(), shards)
	if err != nil {
		return nil, err
	}
	if b.made, err = chunkindex.OpenFile(file.file, file.size, file.generation); err != nil {
		file.file.Close()
		return nil, err
	}
	return file, nil
}

// checkEmpty refuses shards of which none has a sample: whoever trains on them would see nothing and hear nothing of it.
func (b *builder) checkEmpty() error {
	for _, s := range b.scans {
		if s.totals().Samples > 0 {
			return nil
		}
	}
	switch {
	case b.opt.AllowEmpty:
		return nil
	case b.report.LeftOut > 0:
		return fmt.Errorf("no samples: %d tokens in all, such as those of %s, fill no window: choose a shorter --sequence-length", b.report.LeftOut, b.key(0))
	}
	return fmt.Errorf("no samples in what is here of format %s, %d bytes in all, such as %s: nothing is published; write or copy the shards again, or index those that have samples",
		b.format.Name, b.report.Bytes, b.key(0))
}
