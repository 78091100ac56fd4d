package main

import (
	"context"
	"fmt"
	"io"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/indexing"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/words"
)

// indexFlags are the flags of index. pack has them too, since it also makes an index.
type indexFlags struct {
	store    location.Stores
	opt      build.Options
	sequence uint64 // number of tokens

	name        string // name of the index
	indexURL    string
	followLinks bool
	part        string
	files       string   // list of the objects to index
	inherited   []string // flags whose values equal those of the earlier index
	changed     []string // flags whose values differ from those of the earlier index
}

func (x *indexFlags) define(f *cli.Flags) {
	f.Size(&x.opt.ChunkSize, "chunk-size", 8<<20, "target size of a chunk, the unit of reads and caching")
	f.Choice(&x.opt.Defaults.Shuffle, "shuffle", "slot", "default shuffle algorithm", "none", "window", "slot", "full")
	f.Between(&x.opt.Defaults.Window, "window", 1, maxDefault, 128, "default number of chunks (window) or lanes (slot) mixed at a time")
	f.Count(&x.opt.Defaults.Seed, "seed", 0, "default seed of the shuffle")
	f.Between(&x.opt.Defaults.BatchSize, "batch-size", 1, maxDefault, 256, "default number of samples per global batch")
	f.Choice(&x.opt.Defaults.Tail, "tail", "short", "default handling of an incomplete last batch", "short", "drop", "pad")
	f.Number(&x.opt.Parallel, "parallel", 1, min(4*runtime.GOMAXPROCS(0), 16), "shards to read concurrently")
	f.Set.Lookup("parallel").DefValue = "4 per processor, at most 16"
	f.Text(&x.part, "part", "", "`I/N|rest` do only part I of N, or with \"rest\" all missing parts, then publish")
	f.Flag(&x.opt.SingleWriter, "single-writer", "publish without conditional writes; unsafe with other writers")
	x.opt.Inherit = func(was chunkindex.Defaults, chunkSize int64) (chunkindex.Defaults, int64) {
		return x.inherit(f, was, chunkSize)
	}
}

// inherit returns the defaults of the earlier index, except for flags that the command line sets.
func (x *indexFlags) inherit(f *cli.Flags, was chunkindex.Defaults, chunkSize int64) (chunkindex.Defaults, int64) {
	x.inherited, x.changed = nil, nil
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	for _, flag := range [][2]string{
		{"batch-size", number(was.BatchSize)}, {"shuffle", was.Shuffle}, {"window", number(was.Window)}, {"seed", number(was.Seed)}, {"tail", was.Tail},
		{"chunk-size", words.Size(chunkSize)},
	} {
		name, before := flag[0], flag[1]
		value := f.Set.Lookup(name).Value
		switch now := value.String(); {
		case now == before:
		case f.Set.Changed(name):
			x.changed = append(x.changed, fmt.Sprintf("--%s %s instead of %s", name, now, before))
		default:
			_ = value.Set(before) // values in an index are valid
			x.inherited = append(x.inherited, fmt.Sprintf("--%s %s", name, before))
		}
	}
	return x.opt.Defaults, x.opt.ChunkSize
}

// sayInherited prints the defaults that are the same as in the earlier index, and those that
// differ.
func (x *indexFlags) sayInherited(a *app, l location.Location) {
	if len(x.inherited) > 0 {
		a.Say("millrace: %s: defaults of the earlier index: %s", l, strings.Join(x.inherited, " "))
	}
	if len(x.changed) > 0 {
		a.Say("millrace: %s: new defaults, so the generation changes: %s", l, strings.Join(x.changed, ", "))
	}
}

// defineFormat defines the flags that describe existing shards. pack makes its own shards.
func (x *indexFlags) defineFormat(f *cli.Flags) {
	f.Choice(&x.opt.Format, "format", "", "`FORMAT` format of the shards (default detected)", build.FormatNames()...)
	f.Text(&x.opt.Match, "match", "", matchUsage)
	f.Text(&x.files, "files", "", "`LIST` file with the keys or URLs to index, one per line, as of a snapshot")
	f.Text(&x.opt.Split, "split", "", "`SPLIT` index only this split, as DATASET#SPLIT; \"all\": one index of all splits")
	f.Text(&x.opt.Config, "hf-config", "", "`NAME` index one configuration of a Hugging Face repository")
	f.Flag(&x.opt.Hidden, "hidden", hiddenUsage)
	f.Size(&x.opt.Hints.RecordSize, "record-size", 0, "size of a record, for records without a header")
	f.Between(&x.sequence, "sequence-length", 1, maxDefault, 0, "input tokens per sample; a sample also has the next token as a target")
	f.Text(&x.opt.Hints.DType, "dtype", "", "`TYPE` NumPy type of tokens or record elements: <u2, <i4, |u1")
	f.Choice(&x.opt.Hints.Key, "sample-key", "", "zip: "+sampleKeyUsage, format.KeyGroup, format.KeyPath)
	f.Choice(&x.opt.Hints.Header, "header", "", "whether .csv and .tsv files begin with a header", format.HeaderPresent, format.HeaderAbsent)
	f.Texts(&x.opt.Hints.Fields, "fields", nil, "`NAME,...` index only these Parquet columns (default all)")
}

// definePlace defines the flags for settings that the dataset's address can also contain. pack does
// not need them, since it writes the shards itself.
func (x *indexFlags) definePlace(f *cli.Flags) {
	f.Text(&x.name, "name", "", "`NAME` name of the index, for DATASET#NAME (default unnamed)")
	f.Text(&x.indexURL, "index-url", "", "`URL` where to store the index (default beside the shards)")
	f.Flag(&x.followLinks, "follow-links", "follow links that lead out of the directory; unsafe if others write there")
}

// place parses the dataset's address and applies the flags of definePlace.
func (x *indexFlags) place(f *cli.Flags, arg string) location.Location {
	if folder, pattern := location.SplitPattern(arg); pattern != "" && x.opt.Match == "" {
		arg, x.opt.Match = folder, pattern
	}
	l := one(f, arg)
	if x.followLinks {
		if err := l.FollowLinks(); err != nil {
			f.Fault("--follow-links: %w", err)
		}
	}
	x.putName(f, &l)
	if x.indexURL != "" {
		l.PutBeside() // unless the address names another location
	}
	switch {
	case x.indexURL == "":
		x.opt.SpareClassFolders = true
	case l.Index != nil:
		f.Fault("--index-url %s: the dataset's address names %s already", location.HideSecrets(x.indexURL), l.Index)
	default:
		if err := l.PutIndex(x.indexURL); err != nil {
			f.Fault("--index-url %s: %w", location.HideSecrets(x.indexURL), err)
		}
	}
	return l
}

// putName sets the name of the index: from --name or the address, otherwise from the split.
func (x *indexFlags) putName(f *cli.Flags, l *location.Location) {
	if x.name != "" {
		if err := l.PutName(x.name); err != nil {
			f.Fault("--name %s: %w", x.name, err)
		}
	}
	if name := indexing.IndexName(x.opt.Config, x.opt.Split); l.IndexName == "" && name != "" {
		if err := l.PutName(name); err != nil {
			f.Fault("--split %s is not a valid name of an index: set one with --name", x.opt.Split)
		}
	}
}

const (
	matchUsage     = "`GLOB` only names that match, such as *.jpg or *.{jpg,png}; !bad.jpg: all other names"
	hiddenUsage    = "include hidden files: .*, __MACOSX/, Thumbs.db, desktop.ini"
	sampleKeyUsage = "one sample per name without extension (group) or per file (path)"
)

// maxDefault is the largest number in a URL. A larger default would have no canonical URL.
const maxDefault = 1 << 31

func (x *indexFlags) check(f *cli.Flags) {
	if x.opt.ChunkSize < 1 || x.opt.ChunkSize > 1<<30 {
		f.Fault("--chunk-size %s: must be from 1B to 1GiB", words.Size(x.opt.ChunkSize))
	}
	x.opt.Hints.SequenceLength = int64(x.sequence)
	if f.Set.Changed("fields") && len(x.opt.Hints.Fields) == 0 {
		f.Fault("--fields: must be names of columns") // an empty list would select all
	}
	checkMatch(f, x.opt.Match)
	x.checkPart(f)
}

// checkPart parses --part: 3/16, or rest.
func (x *indexFlags) checkPart(f *cli.Flags) {
	s := &x.opt.Share
	if s.Rest = x.part == "rest"; s.Rest || !f.Set.Changed("part") {
		return
	}
	part, parts, _ := strings.Cut(x.part, "/")
	i, err1 := strconv.ParseUint(part, 10, 31)
	n, err2 := strconv.ParseUint(parts, 10, 31)
	if err1 != nil || err2 != nil || i >= n {
		f.Fault("--part %q: must be I/N, such as 0/16 to 15/16, or the word rest", x.part)
		return
	}
	s.Part, s.Parts = int(i), int(n)
}

func checkMatch(f *cli.Flags, pattern string) {
	if _, err := path.Match(pattern, ""); err != nil {
		f.Fault("--match %q: %w", pattern, err)
	}
}

const indexManual = `Reads the shards of DATASET once and stores an index beside them; nothing is copied. Later runs
read only changes and keep the earlier plan parameters. An interrupted run resumes.

DATASET is s3://bucket/prefix, file:///dir or a directory; a pattern behind it, such as
train-{000..146}.tar, is that of --match. The address of a bucket can set its
service: ?endpoint=URL&region=NAME&profile=NAME&path_style=true&ca_file=FILE&bandwidth=SIZE
&max_conns=N. Shards may be compressed by gzip, zstd or xz. Formats are detected:
  %s
--name, --match, --split and --fields make one of several indexes, DATASET#NAME for other commands.
A GLOB with a slash matches the whole name, else the part after the last slash.

--part 3/16 shares the work between machines; the command without --part publishes when all parts
are done. The index of a read-only directory, or of class folders of images, is stored in
~/.cache/millrace; index prints the address for other commands.`

const indexExamples = `  millrace index s3://bucket/imagenet --batch-size 1024
  millrace index s3://bucket/c4 --match '*.jsonl.gz'
  millrace index s3://bucket/pairs --split train     # then s3://bucket/pairs#train
  millrace index s3://public/photos --index-url s3://mine/photos
  millrace index s3://bucket/laion --part 0/16       # and 1/16 to 15/16 on other machines, then
  millrace index s3://bucket/laion                   # publish the index of all parts`

func (a *app) index() *cobra.Command {
	return a.Build(cli.Command{
		Use: "index DATASET", Short: "Index existing shards in place",
		Long: fmt.Sprintf(indexManual, strings.Join(build.FormatHints(), "\n  ")), Example: indexExamples,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var x indexFlags
			var l location.Location
			x.define(f)
			x.defineFormat(f)
			x.definePlace(f)
			check := func(args []string) {
				x.check(f)
				if l = x.place(f, args[0]); x.files != "" {
					var err error
					if x.opt.Files, err = indexing.ReadFiles(x.files, l); err != nil {
						f.Fault("--files: %w", err)
					}
				}
			}
			return check, func(ctx context.Context, args []string) error {
				join := f.CommandLine("index", args, "part", "json")
				return x.store.With(ctx, l, false, func(ctx context.Context, st objstore.Store) error {
					rep, err := a.buildIndex(ctx, &x.store, st, &l, x.opt)
					if err != nil {
						return indexing.AskForParts(join, l, err)
					}
					x.sayInherited(a, l)
					named := struct {
						Address string `json:"address"` // address of the dataset for other commands
						build.Report
					}{l.Address(), rep}
					return a.Print(named, func(w io.Writer) { indexing.Print(w, l, rep); x.printJoin(w, join) })
				})
			}
		},
	})
}

// printJoin prints the command that joins the parts and publishes the index.
func (x *indexFlags) printJoin(w io.Writer, join string) {
	if x.opt.Share.Parts > 0 {
		fmt.Fprintf(w, "  when all %d parts are done: %s\n", x.opt.Share.Parts, join)
	}
}

// buildIndex indexes one location and displays the progress.
func (a *app) buildIndex(ctx context.Context, s *location.Stores, st objstore.Store, l *location.Location, opt build.Options) (build.Report, error) {
	b := a.NewBar("index")
	opt.Progress = b.Update
	rep, lines, err := indexing.Build(ctx, s, st, l, opt)
	b.End()
	for _, line := range lines {
		a.Say("%s", line)
	}
	return rep, err
}

type verifyReport struct {
	Generation string                `json:"generation"`
	Chunks     int                   `json:"chunks"`
	Samples    uint64                `json:"samples"`
	Bytes      int64                 `json:"bytes"`
	Seconds    float64               `json:"seconds"`
	Complete   bool                  `json:"complete"` // false: an error ended the check before everything was read
	Bad        []chunkindex.BadRange `json:"bad"`
	Rewritten  []chunkindex.BadRange `json:"rewritten"` // objects that are other versions with the same bytes
}

func (a *app) verify() *cobra.Command {
	return a.Build(cli.Command{
		Use: "verify DATASET", Short: "Check every chunk against its digest",
		Long: `Reads all chunks and compares them with the digests of the index. Each corrupt range is a line on
stdout, with exit code 3. Objects replaced by equal bytes are not corrupt: run 'millrace index'; the
exit code is 1.`,
		Example: "  millrace verify s3://bucket/imagenet\n  millrace verify ./shards --json",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var l location.Location
			var parallel int
			f.Number(&parallel, "parallel", 1, 8, "chunks to read concurrently")
			check := func(args []string) { l = one(f, args[0]) }
			return check, onDataset(&l, func(ctx context.Context, d location.Dataset) error { return a.runVerify(ctx, d, parallel) })
		},
	})
}

func (a *app) runVerify(ctx context.Context, d location.Dataset, parallel int) error {
	x, l := d.Index, d.Loc
	rep := verifyReport{Generation: x.Generation(), Chunks: x.Chunks(), Samples: x.Samples(), Bytes: x.Bytes(), Bad: []chunkindex.BadRange{}, Rewritten: []chunkindex.BadRange{}}
	start := time.Now()
	b := a.NewBar("verify")
	if err := x.Prove(ctx); err != nil {
		return fmt.Errorf("verify %s: the index is damaged: %w", l, err)
	}
	err := chunkindex.Verify(ctx, x, d.Store, l.Prefix, parallel, b.Update, func(r chunkindex.BadRange) {
		list, line := &rep.Bad, fmt.Sprintf("bad %s [%d,+%d) chunk %d: %s", words.Printable(r.Shard), r.Offset, r.Length, r.Chunk, r.Cause)
		if r.Cause == chunkindex.Rewritten {
			list, line = &rep.Rewritten, words.Printable(r.Shard)+": another version than the one indexed, with the same bytes"
		}
		*list = append(*list, r)
		if !a.JSON {
			fmt.Fprintln(a.Stdout, line)
		}
	})
	b.End()
	rep.Seconds, rep.Complete = time.Since(start).Seconds(), err == nil
	if err != nil && len(rep.Bad) == 0 {
		return err
	}
	done := "verified"
	if !rep.Complete {
		done = "verified a part of"
	}
	if err := a.Print(rep, func(w io.Writer) {
		fmt.Fprintf(w, "%s %s: %s, %s, %s, %.1f s\n", done, l, words.Count(rep.Chunks, "chunk", "chunks"), humanize.IBytes(uint64(rep.Bytes)),
			words.Count(len(rep.Bad), "bad range", "bad ranges"), rep.Seconds)
	}); err != nil {
		return err
	}
	return verdict(l, rep.Bad, rep.Rewritten, err)
}

// verdict returns the error of a verification. Bad ranges take precedence over an error that ended
// it, and changed bytes over changed versions.
func verdict(l location.Location, bad, rewritten []chunkindex.BadRange, err error) error {
	if len(bad) == 0 && (len(rewritten) == 0 || err != nil) {
		return err
	}
	first := slices.Concat(bad, rewritten)[0]
	said := fmt.Errorf("verify %s: %s", l, chunkindex.Explain(words.Printable(first.Shard), first.Cause, l.Address()))
	if len(bad) == 0 {
		return said
	}
	also := ""
	if err != nil {
		also = "; not everything was read: " + err.Error() // bad ranges determine the exit code
	}
	return fmt.Errorf("%w (%s: %w%s)", said, words.Count(len(bad), "bad range", "bad ranges"), errCorrupt, also)
}
