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

// indexFlags are those of index, and of pack, which indexes afterwards.
type indexFlags struct {
	store    location.Stores
	opt      build.Options
	sequence uint64 // length, in tokens

	name        string // of the index
	indexURL    string
	followLinks bool
	part        string
	inherited   []string // flags as in the earlier index
	changed     []string // flags that differ from the earlier index
}

func (x *indexFlags) define(f *cli.Flags) {
	f.Size(&x.opt.ChunkSize, "chunk-size", 8<<20, "target size of a chunk, the unit of fetching and caching")
	f.Choice(&x.opt.Defaults.Shuffle, "shuffle", "slot", "how the dataset is mixed where a URL does not say", "none", "window", "slot", "full")
	f.Count(&x.opt.Defaults.Window, "window", 128, "chunks (window) or lanes (slot) in memory together where a URL does not say")
	f.Count(&x.opt.Defaults.Seed, "seed", 0, "seed of the order where a URL does not say")
	f.Count(&x.opt.Defaults.BatchSize, "batch-size", 256, "samples of a global batch where a URL does not say")
	f.Choice(&x.opt.Defaults.Tail, "tail", "short", "handling of an incomplete last batch where a URL does not say", "short", "drop", "pad")
	f.Number(&x.opt.Parallel, "parallel", min(4*runtime.GOMAXPROCS(0), 16), "shards read side by side")
	f.Set.Lookup("parallel").DefValue = "4 per processor, at most 16"
	f.Text(&x.part, "part", "", "do part `I/N` of the work, 0/N to N-1/N, and publish nothing; rest: publish, and do here what parts have left undone")
	f.Flag(&x.opt.SingleWriter, "single-writer", "publish without conditional writes: you promise that nobody else writes")
	x.opt.Inherit = func(was chunkindex.Defaults, chunkSize int64) (chunkindex.Defaults, int64) {
		return x.inherit(f, was, chunkSize)
	}
}

// inherit returns the defaults of the earlier index, except those that the command line sets.
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
		case f.Given(name):
			x.changed = append(x.changed, fmt.Sprintf("--%s %s instead of %s", name, now, before))
		default:
			_ = value.Set(before) // a value of an index is valid
			x.inherited = append(x.inherited, fmt.Sprintf("--%s %s", name, before))
		}
	}
	return x.opt.Defaults, x.opt.ChunkSize
}

// sayInherited prints what the index has of the earlier one, and what differs.
func (x *indexFlags) sayInherited(a *app, l location.Location) {
	if len(x.inherited) > 0 {
		a.Say("millrace: %s: as in the earlier index: %s", l, strings.Join(x.inherited, " "))
	}
	if len(x.changed) > 0 {
		a.Say("millrace: %s: other defaults than the earlier index, so the generation changes: %s", l, strings.Join(x.changed, ", "))
	}
}

// defineFormat defines what says of shards what their bytes do not. pack has none of it: it makes its shards itself.
func (x *indexFlags) defineFormat(f *cli.Flags) {
	f.Choice(&x.opt.Format, "format", "", "format of the shards, if looking at them does not tell", build.FormatNames()...)
	f.Text(&x.opt.Match, "match", "", matchUsage)
	f.Text(&x.opt.Split, "split", "", "only the objects of this `SPLIT`, in an index of its name; all: those of all splits, in one index")
	f.Text(&x.opt.Config, "config", "", "only the objects of this configuration `NAME`, of a repository with several")
	f.Flag(&x.opt.Hidden, "hidden", hiddenUsage)
	f.Size(&x.opt.Hints.RecordSize, "record-size", 0, "size of a record, of records without a header")
	f.Count(&x.sequence, "sequence-length", 0, "tokens of a sample, which is a window of so many and the one after them")
	f.Text(&x.opt.Hints.DType, "dtype", "", "`TYPE` of a token, or of a record's elements, as NumPy writes it: <u2, <i4, |u1")
	f.Choice(&x.opt.Hints.Key, "key", "", "what makes a sample of a zip archive: members whose names differ in the extension alone, or each", format.KeyGroup, format.KeyPath)
	f.Choice(&x.opt.Hints.Header, "header", "", "whether the first record of each .csv or .tsv is a header; absent: it is a sample", format.HeaderPresent, format.HeaderAbsent)
	f.List(&x.opt.Hints.Fields, "fields", "only these columns, of Parquet files: no byte of others is read; `NAMES` with commas between them, image.bytes of a struct")
}

// definePlace defines what the address of the dataset can say too. pack has none of it: it writes the shards itself.
func (x *indexFlags) definePlace(f *cli.Flags) {
	f.Text(&x.name, "name", "", "`NAME` of the index, of several that a dataset may have; other commands take it as DATASET#NAME")
	f.Text(&x.indexURL, "index-url", "", "put the index at `URL`, and write nothing beside the shards (default beside them)")
	f.Flag(&x.followLinks, "follow-links", "follow links that lead out of the directory: whoever can make links there chooses what is read")
}

// place parses the dataset's address and adds what the flags say of its place.
func (x *indexFlags) place(f *cli.Flags, arg string) location.Location {
	l := one(f, arg)
	if x.followLinks {
		if err := l.FollowLinks(); err != nil {
			f.Fault("--follow-links: %w", err)
		}
	}
	x.putName(f, &l)
	if x.indexURL != "" {
		l.PutBeside() // unless the address says otherwise
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

// putName says which index of the dataset is made: the one that --name or the address names, else that of the split.
func (x *indexFlags) putName(f *cli.Flags, l *location.Location) {
	if x.name != "" {
		if err := l.PutName(x.name); err != nil {
			f.Fault("--name %s: %w", x.name, err)
		}
	}
	if name := indexing.IndexName(x.opt.Config, x.opt.Split); l.IndexName == "" && name != "" {
		if err := l.PutName(name); err != nil {
			f.Fault("--split %s: no name of an index can be made of it: give one with --name", x.opt.Split)
		}
	}
}

const matchUsage = "only what matches `GLOB`, *.jpg or *.{jpg,png}, or all but that (!broken.jpg): the whole name below the dataset or source if GLOB has a slash, else what follows the last slash"

const hiddenUsage = "take what is hidden too: names that begin with a dot, __MACOSX/, Thumbs.db, desktop.ini"

// maxDefault is the largest number that a URL may name: a default beyond it would have no canonical URL.
const maxDefault = 1 << 31

func (x *indexFlags) check(f *cli.Flags) {
	if x.opt.ChunkSize < 1 || x.opt.ChunkSize > 1<<30 {
		f.Fault("--chunk-size %s: want 1B to 1GiB", words.Size(x.opt.ChunkSize))
	}
	if w := x.opt.Defaults.Window; w < 1 || w > maxDefault {
		f.Fault("--window %d: want 1 to %d", w, maxDefault)
	}
	if b := x.opt.Defaults.BatchSize; b < 1 || b > maxDefault {
		f.Fault("--batch-size %d: want 1 to %d", b, maxDefault)
	}
	if x.sequence > maxDefault || x.sequence == 0 && f.Set.Changed("sequence-length") {
		f.Fault("--sequence-length %d: want 1 to %d", x.sequence, maxDefault)
	}
	x.opt.Hints.SequenceLength = int64(min(x.sequence, maxDefault))
	x.checkFields(f)
	checkMatch(f, x.opt.Match)
	x.checkPart(f)
	if x.opt.Parallel == 0 {
		f.Fault("--parallel 0: want at least 1")
	}
}

// checkPart reads --part: 3/16, or rest.
func (x *indexFlags) checkPart(f *cli.Flags) {
	s := &x.opt.Share
	if s.Rest = x.part == "rest"; s.Rest || !f.Given("part") {
		return
	}
	part, parts, _ := strings.Cut(x.part, "/")
	i, err1 := strconv.ParseUint(part, 10, 31)
	n, err2 := strconv.ParseUint(parts, 10, 31)
	if err1 != nil || err2 != nil || i >= n {
		f.Fault("--part %q: want a part and how many there are, of 0/16 to 15/16, or rest", x.part)
		return
	}
	s.Part, s.Parts = int(i), int(n)
}

func checkMatch(f *cli.Flags, pattern string) {
	if _, err := path.Match(pattern, ""); err != nil {
		f.Fault("--match %q: %w", pattern, err)
	}
}

// checkFields refuses --fields without a name: it would mean all columns.
func (x *indexFlags) checkFields(f *cli.Flags) {
	if f.Set.Changed("fields") && len(x.opt.Hints.Fields) == 0 {
		f.Fault("--fields: want the names of columns")
	}
}

// formats lists what index looks for, a format a line.
func formats() string {
	return "  " + strings.Join(build.FormatHints(), "\n  ")
}

const indexManual = `Reads the shards under DATASET once and publishes an index of them beside them.
Nothing is copied. A second run reads only what has changed, and keeps the earlier values of
--batch-size, --shuffle, --window, --seed, --tail and --chunk-size unless it sets them. One after
a kill reads what the first had not read, the shards that it was reading, and about 64 MiB, or
1,000 shards, that it had read just before.

The format is found out by looking for
%s
Shards may be compressed by gzip, zstd or xz. Where objects of several kinds lie together,
the error has a command for each kind. --format takes every object as one of its shards, but what
describes data (README, LICENSE) and empty markers (_SUCCESS), or says which one it cannot take.

DATASET is s3://bucket/prefix, file:///dir or a directory. The address of a bucket may say how its
service is reached, ?endpoint=URL&region=NAME&profile=NAME&path_style=true&ca_file=FILE
&bandwidth=SIZE&max_conns=N; AWS_ENDPOINT_URL_S3, AWS_REGION and AWS_CA_BUNDLE are the defaults.
The plan parameters given here are stored in the index and are what a URL without parameters means.

A dataset may have several indexes, each of the shards that its --match takes. --name names one,
and all other commands take DATASET#NAME then. A shard that two indexes share is read once.
--fields makes an index whose samples have some columns of Parquet files: a gateway reads these from
the store, and keeps nothing else. A second run without it takes all columns again.
--split train takes the shards of that split, and names the index so. Splits are those that
README.md (the metadata of Hugging Face's hub) or dataset_dict.json describe, else those that names
tell of: train, val, test. Where shards of several splits lie, one has to be chosen, or all.

Several machines share the work: --part 3/16 scans shards 3, 19, 35 and so on, and leaves what it
found beside the index. A part that was killed goes on when it is run again. Two machines that do
the same part harm nothing. When all 16 are done, the command without --part reads no shard, and
publishes the index that one machine would have made, byte for byte. If shards are missing it fails
and says of which parts; --part rest scans them here. Loose objects are shared by runs of some
16,000.

The index lies beside the shards unless --index-url says where: nothing is written beside them
then. That of a directory that takes no writes, or of class folders of pictures, which
torchvision's ImageFolder reads too, is put into ~/.cache/millrace, where this user's commands find
it. index prints the address that all commands take for such a dataset: DATASET,index=URL.`

const indexExamples = `  millrace index s3://bucket/imagenet                # tar shards, .tar.gz, .tgz, .tar.zst
  millrace index ./shards --chunk-size 64MiB --batch-size 1024
  millrace index s3://bucket/mds-dataset             # index.json says it all: mds, litdata
  millrace index s3://bucket/tfrecords --format tfrecord
  millrace index s3://bucket/c4 --match '*.jsonl.gz' # JSON Lines among other things
  millrace index ./cifar-10-batches-bin              # CIFAR; .npy files likewise
  millrace index ./raw --record-size 3073            # records of one size
  millrace index ./corpus --sequence-length 2048     # Megatron's .bin and .idx
  millrace index ./flat --format tokens --sequence-length 1024 --dtype '<u2'
  millrace index ./pairs --match '*.tsv' --header absent
  millrace index ./photos --format files --match '*.jpg'
  millrace index s3://bucket/pairs --split train     # then s3://bucket/pairs#train
  millrace index s3://bucket/pairs --name train --match 'train-*'
  millrace index s3://bucket/pairs --name captions --fields caption,image.path
  millrace index s3://public/photos --index-url s3://mine/photos
  millrace index s3://bucket/laion --part 0/16       # and 1/16 to 15/16 on other machines, then
  millrace index s3://bucket/laion                   # the index of what all parts found
  millrace index 's3://texts/c4?endpoint=https://minio.example:9000&profile=team-b'
  millrace index ~/.cache/huggingface/hub/datasets--me--pairs/snapshots/0a1b2c --split train \
    --index-url ./pairs`

func (a *app) index() *cobra.Command {
	return a.Build(cli.Command{
		Use: "index DATASET", Short: "Index shards that are there already, in place",
		Long: fmt.Sprintf(indexManual, formats()), Example: indexExamples,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var x indexFlags
			var l location.Location
			x.define(f)
			x.defineFormat(f)
			x.definePlace(f)
			f.Output(a.App)
			check := func(args []string) { x.check(f); l = x.place(f, args[0]) }
			return check, func(ctx context.Context, args []string) error {
				join := f.CommandLine("index", args, "part", "json")
				return x.store.With(ctx, l, false, func(ctx context.Context, st objstore.Store) error {
					rep, err := a.buildIndex(ctx, &x.store, st, &l, x.opt)
					if err != nil {
						return indexing.AskForParts(join, l, err)
					}
					x.sayInherited(a, l)
					named := struct {
						Address string `json:"address"` // of the dataset, for other commands
						build.Report
					}{l.Address(), rep}
					return a.Print(named, func(w io.Writer) { indexing.Print(w, l, rep); x.printJoin(w, join) })
				})
			}
		},
	})
}

// printJoin says after a part what publishes.
func (x *indexFlags) printJoin(w io.Writer, join string) {
	if x.opt.Share.Parts > 0 {
		fmt.Fprintf(w, "  when all %d parts are done: %s\n", x.opt.Share.Parts, join)
	}
}

// buildIndex indexes one location with a progress bar.
func (a *app) buildIndex(ctx context.Context, s *location.Stores, st objstore.Store, l *location.Location, opt build.Options) (build.Report, error) {
	b := a.NewBar(ctx, "index")
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
	Complete   bool                  `json:"complete"` // else an error ended it before everything was read
	Bad        []chunkindex.BadRange `json:"bad"`
	Rewritten  []chunkindex.BadRange `json:"rewritten"` // other versions of whole objects, with the same bytes
}

func (a *app) verify() *cobra.Command {
	return a.Build(cli.Command{
		Use: "verify DATASET", Short: "Compare every chunk with its digest",
		Long: `Reads everything again and compares it with the digests in the index. Each range that
does not match is one line on stdout; if there is one the exit code is 3. Objects that were
copied with the same bytes are no corruption: 'millrace index' is the cure, the exit code 1.`,
		Example: "  millrace verify s3://bucket/imagenet\n  millrace verify ./shards --json",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var s location.Stores
			var l location.Location
			var parallel int
			f.Number(&parallel, "parallel", 8, "chunks read side by side")
			f.Output(a.App)
			check := func(args []string) {
				l = one(f, args[0])
				if parallel == 0 {
					f.Fault("--parallel 0: want at least 1")
				}
			}
			return check, func(ctx context.Context, _ []string) error {
				return a.runVerify(ctx, &s, l, parallel)
			}
		},
	})
}

func (a *app) runVerify(ctx context.Context, s *location.Stores, l location.Location, parallel int) error {
	d, err := s.OpenIndex(ctx, l, chunkindex.OpenOptions{})
	if err != nil {
		return err
	}
	defer d.Close()
	x := d.Index
	rep := verifyReport{Generation: x.Generation(), Chunks: x.Chunks(), Samples: x.Samples(), Bytes: x.Bytes(), Bad: []chunkindex.BadRange{}, Rewritten: []chunkindex.BadRange{}}
	start := time.Now()
	b := a.NewBar(ctx, "verify")
	err = chunkindex.Verify(ctx, x, d.Store, l.Prefix, parallel, b.Update, func(r chunkindex.BadRange) {
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

// verdict is what a verification ends with: what was found counts for more than what ended the search for more, and other bytes
// for more than other dates.
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
		also = "; not everything was read: " + err.Error() // the exit code says what was found
	}
	return fmt.Errorf("%w (%s: %w%s)", said, words.Count(len(bad), "bad range", "bad ranges"), errCorrupt, also)
}
