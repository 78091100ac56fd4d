// Package build creates an index.
//
// Run lists the objects (build.go) and detects their format (survey.go, formats.go). It reuses the
// scans of unchanged shards (reuse.go) and scans the other shards (scan.go, loose.go) with their
// format's scanner (package format and its subpackages), after decompression (package codec). It
// cuts chunks (cut.go), stores each scan so that the next run can resume after a kill (keep.go,
// scanfile.go), writes the index file (write.go, hash.go) and publishes it (publish.go).
//
// The serving path does not import this package: it reads indexes with package chunkindex.
package build

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/naming"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/tempfile"
)

// Options configures Run. A zero field selects its default.
type Options struct {
	ChunkSize int64               // target length of a chunk; default: 8 MiB
	Defaults  chunkindex.Defaults // plan parameters stored in the index; default of zero fields: slot, 128, 0, 256, short
	Parallel  int                 // maximum number of shards scanned concurrently; default: 4
	// Inherit derives Defaults and ChunkSize from those of the existing index. nil: Run uses
	// Defaults and ChunkSize unchanged.
	Inherit      func(was chunkindex.Defaults, chunkSize int64) (chunkindex.Defaults, int64)
	SingleWriter bool // publish without conditional writes; the caller guarantees that it is the only writer
	Progress     func(chunkindex.Progress)
	Inspect      func(*chunkindex.Index) // called with the published index, which Run closes afterwards
	Classes      []string                // class folder names in byte order; nil: derived from the keys of images
	AllowEmpty   bool                    // publish a dataset that has no samples
	TempDir      string                  // directory for scans and the index in progress; empty: the system's default
	Format       string                  // name of the shards' format; empty: detected
	Name         string                  // index name, for a prefix with several; empty: the default index
	Match        string                  // pattern that selects objects by key (see docs/spec/formats.md); empty: all objects
	Files        map[string]bool         // keys of the objects to use, such as those of a table's snapshot; nil: all objects
	Split        string                  // name of the split whose objects to use; AllSplits: objects of all splits; empty: all objects, but an error if there are several splits
	Config       string                  // name of the configuration whose objects to use, for a repository with several
	Hidden       bool                    // include hidden objects such as .DS_Store
	Hints        format.Options
	Share        Share // the shards of this run, if several machines build the index together

	// Index is the location of the index; zero: the location of the shards. With another
	// location, the run writes nothing to the location of the shards.
	Index Place
	// Data is the address of the shards, for an index stored elsewhere. The pointer records it,
	// so that the index of one dataset never replaces the index of another.
	Data string
	// SpareClassFolders makes Run return ErrClassFolders instead of writing a first index into
	// a directory whose folders are image classes.
	SpareClassFolders bool
	// Links reports that the store follows links out of its directory. The pointer records it.
	// Readers then know, from Index.Links, that their store must follow such links too.
	Links bool
}

// Report describes the result of an index run.
type Report struct {
	Name           string `json:"name,omitempty"`   // name of the index; empty: the default index
	Split          string `json:"split,omitempty"`  // chosen split
	Config         string `json:"config,omitempty"` // chosen configuration
	Generation     string `json:"generation"`
	Format         string `json:"format"`
	Ignored        int    `json:"ignored"`                   // number of objects that are neither shards of the format nor describe shards
	IgnoredExample string `json:"ignored_example,omitempty"` // key of one such object
	Assumed        string `json:"assumed,omitempty"`         // assumptions that the run made, with the flag that overrides each
	Tokens         string `json:"tokens,omitempty"`          // for token files: description of a sample, filled in by the caller
	Hidden         int    `json:"hidden"`                    // number of skipped hidden objects, such as .DS_Store
	HiddenExample  string `json:"hidden_example,omitempty"`  // key of one such object
	HadHidden      int    `json:"had_hidden"`                // number of hidden objects that are samples or shards of the existing index
	HadExample     string `json:"had_hidden_example,omitempty"`
	Members        int64  `json:"hidden_members"`         // number of hidden members in the archives that this run read; they belong to no sample
	Outside        uint64 `json:"names_outside"`          // number of samples read by this run whose name leads out of a directory (see format.Outside)
	OutsideExample string `json:"name_outside,omitempty"` // one of these names
	Unlisted       int    `json:"unlisted,omitempty"`     // number of objects that Files does not contain
	Unmatched      int    `json:"unmatched,omitempty"`    // number of objects excluded by Match, except hidden objects
	Empty          int    `json:"empty_shards"`           // number of empty shards, such as those of failed uploads
	Shards         int    `json:"shards"`
	Chunks         int    `json:"chunks"`
	Samples        uint64 `json:"samples"`
	Links          int    `json:"links"`                   // skipped links
	Link           string `json:"link,omitempty"`          // path of one such link
	ClassFolders   int    `json:"class_folders,omitempty"` // number of image folders, which readers may treat as classes; 0: another layout
	RepeatedKeys   uint64 `json:"repeated_keys"`           // number of keys that occur in several shards
	RepeatedKey    string `json:"repeated_key,omitempty"`  // one such key
	LeftOut        int64  `json:"left_out"`                // number of tokens that fill no window, in shards that record their number of tokens
	Bytes          int64  `json:"bytes"`                   // total size of all shards
	ReadBytes      int64  `json:"read_bytes"`              // number of bytes read by this run
	ReusedShards   int    `json:"reused_shards"`           // number of shards reused from an existing index or from an interrupted run
	Rebound        bool   `json:"rebound"`                 // the run published the same generation with a new binding
	Unchanged      bool   `json:"unchanged"`               // there was nothing to publish

	Part *PartReport `json:"part,omitempty"` // set for a run that stored the scans of one part and published nothing
}

func (o Options) withDefaults() (Options, error) {
	o.ChunkSize = cmp.Or(o.ChunkSize, 8<<20)
	if _, err := path.Match(o.Match, ""); err != nil {
		return o, fmt.Errorf("match %q: %w", o.Match, err)
	}
	if o.Name != "" && !layout.ValidIndexName(o.Name) {
		return o, fmt.Errorf("index name %q: use 1 to 64 lower-case letters, digits, dots, dashes and underscores", o.Name)
	}
	if o.ChunkSize < 0 || o.ChunkSize > layout.MaxChunkSize {
		return o, fmt.Errorf("chunk size %d is not between 1 and %d", o.ChunkSize, layout.MaxChunkSize)
	}
	if o.Parallel <= 0 {
		o.Parallel = 4
	}
	d := &o.Defaults
	d.Shuffle, d.Tail = cmp.Or(d.Shuffle, "slot"), cmp.Or(d.Tail, "short")
	d.Window, d.BatchSize = cmp.Or(d.Window, 128), cmp.Or(d.BatchSize, 256)
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

// builder is the state of one Run.
type builder struct {
	store   objstore.Store // store of the shards
	prefix  string
	index   Place // location of the index
	opt     Options
	formats []format.Format // formats to try
	format  format.Format   // the detected format
	found   *format.Dataset

	pub       publisher
	old       *chunkindex.Index    // the current generation, if it exists and is readable
	whole     map[int]wholeSegment // segments of old that stay as they are, by their first unit
	lent      []*chunkindex.Index  // other indexes of the prefix from which this run reuses chunks
	named     bool                 // the prefix has a named index, or this run creates one
	made      *chunkindex.Index    // the new index, before it is published
	file      *os.File             // the new segments of made
	rules     []splitRule          // splits that the dataset defines, if the options select none
	config    string               // configuration of the selected objects; empty: the only one, or none selected
	hidden    map[string]bool      // relative keys of skipped hidden objects
	unmatched string               // an object excluded by Match
	shards    []objstore.Object
	units     []unit
	scans     []chunkSource // one source per unit
	writers   []*scanWriter // one writer per worker; nil: not created yet
	report    Report

	keptBytes  int64 // bytes to read before the pending scans are stored
	keptShards int
	download   int64         // size up to which an earlier index is downloaded whole
	storing    chan struct{} // semaphore of one: full while scans are being stored

	mu       sync.Mutex
	progress chunkindex.Progress
	kept     []string       // keys of stored objects of scans
	notes    []string       // keys of the parts notes of this index
	begun    []StartedParts // parsed notes, newest first
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
		writers: make([]*scanWriter, opt.Parallel), keptBytes: keptBytes, keptShards: keptShards, download: chunkindex.WholeIndex, storing: make(chan struct{}, 1),
	}, nil
}

// close closes the indexes and temporary files.
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
	if b.file != nil {
		b.file.Close()
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
	next, err := b.assemble(ctx)
	if err != nil {
		return err
	}
	if b.found.HiddenMembers != nil {
		b.report.Members = b.found.HiddenMembers()
	}
	if b.found.Assumed != nil {
		b.report.Assumed = b.found.Assumed()
	}
	unchanged, err := b.pub.publish(ctx, next)
	if err != nil {
		return err
	}
	b.report.Unchanged = unchanged
	b.report.Rebound = !unchanged && b.pub.old.Generation == b.made.Generation()
	if b.opt.Inspect != nil {
		b.opt.Inspect(b.made)
	}
	return b.removeKept(ctx)
}

// checkFiles returns an error if listed objects do not exist.
func (b *builder) checkFiles(objects []objstore.Object) error {
	missing := maps.Clone(b.opt.Files)
	for _, o := range objects {
		delete(missing, strings.TrimPrefix(o.Key, b.prefix))
	}
	if len(missing) == 0 || b.opt.Match != "" {
		return nil
	}
	return fmt.Errorf("%d of %d listed objects do not exist, such as %s: %w", len(missing), len(b.opt.Files), slices.Min(slices.Collect(maps.Keys(missing))), objstore.ErrNotFound)
}

// list lists the objects in byte order of their keys, and the scans that interrupted runs stored.
// Then it detects the format and its shards.
func (b *builder) list(ctx context.Context) error {
	var objects []objstore.Object
	b.hidden = map[string]bool{}
	err := b.eachObject(ctx, func(o objstore.Object) error {
		key := strings.TrimPrefix(o.Key, b.prefix)
		switch {
		case layout.OwnObject(key) || strings.HasSuffix(o.Key, "/"): // a trailing slash marks a directory
		case b.opt.Files != nil && !b.opt.Files[key]:
			b.report.Unlisted++
		case !naming.Matches(b.opt.Match, key):
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
	if err := b.checkFiles(objects); err != nil {
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
	if err := b.refusePartitions(); err != nil {
		return err
	}
	b.report.ClassFolders = classFolders(b.found)
	b.divide()
	b.scans = make([]chunkSource, len(b.units))
	b.report.Name, b.report.Shards, b.report.Hidden = b.opt.Name, len(b.shards), len(b.hidden)
	b.progress = chunkindex.Progress{Total: b.report.Bytes, Of: len(b.shards)}
	return nil
}

// previous opens the current generation. It ignores a damaged or outdated generation, which the run
// then replaces. A generation written by a newer program is an error even if it is readable,
// because the two programs would keep replacing each other's work.
func (b *builder) previous(ctx context.Context) error {
	b.pub = publisher{store: b.index.Store, prefix: b.index.Prefix, name: b.opt.Name, single: b.opt.SingleWriter, data: b.opt.Data, links: b.opt.Links}
	p, obj, err := layout.ReadPointer(ctx, b.index.Store, b.index.Prefix, b.opt.Name)
	b.pub.oldObj = obj
	if err == nil && p.Data != b.opt.Data {
		return fmt.Errorf("%s belongs to %s: choose another location for this index, or remove the existing one first",
			layout.PointerObject(b.index.Prefix, b.opt.Name), cmp.Or(p.Data, "the shards stored with it"))
	}
	if err != nil {
		if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, layout.ErrCorrupt) {
			return nil
		}
		return err
	}
	b.pub.old = p
	if b.old, err = b.open(ctx, p); err == nil {
		err = b.checkSegments(ctx)
	}
	if err == nil && b.old.Meta().Cutter > cutterChanges {
		return layout.Newer("cutter", b.old.Meta().Cutter)
	}
	if err == nil {
		b.pub.has = map[[sha256.Size]byte]bool{}
		for _, s := range b.old.Segments() {
			b.pub.has[s.Ref.Digest] = true
		}
		if inherit := b.opt.Inherit; inherit != nil {
			b.opt.Defaults, b.opt.ChunkSize = inherit(b.old.Defaults(), b.old.Meta().ChunkSize)
		}
		return nil
	}
	b.pub.old = layout.Pointer{} // forces a rewrite of the existing object
	if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, layout.ErrCorrupt) || errors.Is(err, layout.ErrOldVersion) {
		return nil
	}
	return err
}

// open opens the index that a pointer names.
func (b *builder) open(ctx context.Context, p layout.Pointer) (*chunkindex.Index, error) {
	return chunkindex.OpenPointer(ctx, b.index.Store, b.index.Prefix, p, b.opt.TempDir, b.download)
}

// checkSegments compares the lengths of the stored segments with the current generation. It discards
// an index of which a segment is missing or has another length.
func (b *builder) checkSegments(ctx context.Context) error {
	sizes := map[string]int64{}
	err := b.index.Store.List(ctx, b.index.Prefix+layout.SegmentDir, func(o objstore.Object) error {
		sizes[o.Key] = o.Size
		return nil
	})
	for _, s := range b.old.Segments() {
		if key := layout.SegmentObject(b.index.Prefix, s.Ref.Name()); err == nil && sizes[key] != s.Ref.Size {
			err = fmt.Errorf("%s has %d bytes instead of %d: %w", key, sizes[key], s.Ref.Size, layout.ErrCorrupt)
		}
	}
	if err != nil {
		b.old.Close()
		b.old = nil
	}
	return err
}

// meta returns the dataset's metadata for the index.
func (b *builder) meta() layout.Meta {
	return layout.Meta{
		Format: b.format.Name, Scanner: b.format.Rules(), Cutter: cutterChanges, ChunkSize: b.opt.ChunkSize, Defaults: b.opt.Defaults,
		Framing: b.found.Framing, Classes: b.classes(), Overlap: b.found.Overlap,
	}
}

// assemble makes the new index and encodes the binding. It fails if a shard has the same key twice.
func (b *builder) assemble(ctx context.Context) (next publication, err error) {
	versions := make([]layout.ShardVersion, len(b.shards))
	for i, o := range b.shards {
		if o.Size == 0 {
			b.report.Empty++
		}
		versions[i] = layout.ShardVersion{ETag: o.ETag, ID: o.VersionID, Says: layout.SaysDigest(b.found.Shards[i].Says)}
	}
	if b.found.LeftOut != nil { // here each unit is a single shard
		for i, u := range b.units {
			b.report.LeftOut += b.found.LeftOut(u.from, b.scans[i].totals().Samples)
		}
	}
	if err := b.checkEmpty(); err != nil {
		return next, err
	}
	if next.segments, err = b.segments(); err != nil {
		return next, err
	}
	if b.made, next.root, err = chunkindex.Assemble(b.meta(), next.segments); err != nil {
		return next, err
	}
	next.generation = b.made.Generation()
	if b.pub.old.Generation == next.generation {
		next.repeatedKeys, next.repeatedKey = b.pub.old.RepeatedKeys, b.pub.old.RepeatedKey
	} else if next.repeatedKeys, next.repeatedKey, err = b.made.RepeatedKeys(ctx); err != nil {
		return next, err
	}
	b.report.RepeatedKeys, b.report.RepeatedKey = next.repeatedKeys, next.repeatedKey
	b.report.Generation, b.report.Chunks, b.report.Samples = next.generation, b.made.Chunks(), b.made.Samples()
	next.binding, err = layout.EncodeBinding(next.generation, versions)
	return next, err
}

// segments divides the units into segments and writes those that differ from the current generation.
func (b *builder) segments() (all []chunkindex.Segment, err error) {
	if b.file, err = tempfile.File(b.opt.TempDir); err != nil {
		return nil, err
	}
	var made []layout.SegmentRef
	var at []int // positions of the new segments in all
	base := int64(0)
	for i := 0; i < len(b.units); {
		if s, ok := b.whole[i]; ok {
			all = append(all, b.old.Segments()[s.number])
			i = s.end
			continue
		}
		end := b.segmentEnd(i)
		ref, err := writeSegment(b.opt.TempDir, b.file, base, b.shardScans(i, end))
		if err != nil {
			return nil, err
		}
		made, at, all = append(made, ref), append(at, len(all)), append(all, chunkindex.Segment{})
		base += ref.Size
		i = end
	}
	written, err := chunkindex.OpenSegments(b.file, made)
	for i, s := range written {
		all[at[i]] = s
	}
	return all, err
}

// segmentEnd returns the end of the segment that begins with a unit.
func (b *builder) segmentEnd(unit int) int {
	for ; unit < len(b.units); unit++ {
		sum := b.scans[unit].totals()
		if layout.EndsSegment(b.key(b.units[unit].to-1), sum.Blocks()) {
			return unit + 1
		}
	}
	return unit
}

// shardScans returns the shards of the units [from, to) with their scans.
func (b *builder) shardScans(from, to int) []shardScan {
	var all []shardScan
	for i := from; i < to; i++ {
		scan := b.scans[i]
		for n := b.units[i].from; n < b.units[i].to; n++ {
			all = append(all, shardScan{key: b.key(n), size: b.shards[n].Size, scan: scan})
			scan = nil
		}
	}
	return all
}

// checkEmpty returns an error if no shard has samples. A training run on such a dataset would
// receive no data and report no error.
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
		return fmt.Errorf("no samples: the shards, such as %[2]s, have only %[1]d tokens, too few for one sample: choose a shorter --sequence-length", b.report.LeftOut, b.key(0))
	}
	return fmt.Errorf("the shards of format %s, %d bytes in total, such as %s, have no samples: no index was published; rewrite the shards, or index shards that have samples",
		b.format.Name, b.report.Bytes, b.key(0))
}
