// Package indexing makes the index of a location, and describes the index with warnings and advice.
package indexing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/files"
	"github.com/millrace-data/millrace/chunkindex/format/tokens"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/rows"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/orders"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/words"
	"github.com/millrace-data/millrace/shuffle"
)

// Build indexes the shards of a location in the store st. If the index must not be stored with the
// shards of a directory, Build stores it in the user's cache and changes l accordingly. The lines
// are warnings for people.
func Build(ctx context.Context, s *location.Stores, st objstore.Store, l *location.Location, opt build.Options) (rep build.Report, lines []string, err error) {
	apart, possible, homeless := l.Apart()
	opt.SpareClassFolders = opt.SpareClassFolders && (possible || homeless != nil)
	opt.Links, opt.Name = l.Links, l.IndexName
	opt.Share.Options = scanOptions(opt)
	var uneven, each, text string
	opt.Inspect = func(x *chunkindex.Index) {
		d := x.Defaults()
		if plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: d.Shuffle, Window: d.Window}, x.First()); err == nil {
			uneven = orders.Uneven(plan, d.BatchSize, x)
		}
		if x.Shards() == 1 && path.Ext(x.Shard(0).Key) == ".txt" {
			text = x.Shard(0).Key
		}
		each = location.Dataset{Loc: *l, Store: st, Index: x}.Tokens(ctx)
	}
	if l.Index != nil {
		at, done, err := s.Open(*l.Index, true)
		if err != nil {
			return rep, nil, err
		}
		defer done()
		opt.Index, opt.Data = build.Place{Store: at, Prefix: l.Index.Prefix}, l.Shards()
	}
	if rep, err = build.Run(ctx, st, l.Prefix, opt); err == nil {
		rep.Tokens = each
		lines := warnings(*l, opt.Match, rep, uneven)
		if text != "" && rep.Format == framing.Files {
			lines = append(lines, fmt.Sprintf("millrace: %s: %s is one sample, with all its lines: for one sample per line, write JSON Lines: jq -cR '{text: .}' FILE.txt > FILE.jsonl", l, words.Printable(text)))
		}
		return rep, lines, nil
	}
	for _, why := range []error{build.ErrReadOnly, build.ErrClassFolders} {
		if possible && errors.Is(err, why) && opt.Share.Parts > 0 {
			return rep, nil, fmt.Errorf("index %s: %w: set --index-url to a location that all machines can write", l, why)
		}
		if possible && errors.Is(err, why) {
			said := fmt.Sprintf("millrace: %s: %v: it is put into %s, where your commands find it; --index-url puts it elsewhere, or beside the shards", l, why, apart.Index.Dir)
			*l = apart
			rep, lines, err := Build(ctx, s, st, l, opt)
			if errors.Is(err, objstore.ErrDenied) || errors.Is(err, objstore.ErrNotFound) { // the shards exist, so the error is about the index's directory
				err = &cli.Refusal{
					Advice: cli.Advice{Message: err.Error(), Cure: elsewhere},
					Cause:  fmt.Errorf("%w: %w", build.ErrReadOnly, err),
				}
			}
			return rep, append([]string{said}, lines...), err
		}
	}
	err = location.Cause(*l, err)
	if homeless != nil && (errors.Is(err, build.ErrReadOnly) || errors.Is(err, build.ErrClassFolders)) {
		err = fmt.Errorf("%w, and the user's cache directory cannot store the index: %w", err, homeless)
	}
	return rep, nil, explain(*l, opt, fmt.Errorf("index %s: %w", l, err))
}

// elsewhere is the advice for a user whose shards' location and cache are both read-only.
const elsewhere = "set --index-url or XDG_CACHE_HOME to a location that is writable"

// explain adds advice to a fault, or the commands to choose from.
func explain(l location.Location, opt build.Options, err error) error {
	if errors.Is(err, build.ErrReadOnly) || errors.Is(err, build.ErrClassFolders) {
		return &cli.Refusal{Advice: cli.Advice{Message: err.Error(), Cure: elsewhere}, Cause: err}
	}
	if several, ok := errors.AsType[*build.SplitsError](err); ok {
		return askForSplit(l, several, given(opt, "split", "hf-config"))
	}
	if kinds, ok := errors.AsType[*build.KindsError](err); ok {
		return askForKind(l, kinds, given(opt, "match", "format"))
	}
	if choose, ok := errors.AsType[*format.ChoiceError](err); ok {
		return askForWay(l, choose, opt)
	}
	if unknown, ok := errors.AsType[*files.UnknownError](err); ok && tokens.Named(unknown.Key) {
		return &cli.Refusal{Advice: cli.Advice{
			Message: fmt.Sprintf("index %s: the format of %s cannot be detected from its content", l, words.Printable(unknown.Key)),
			Choices: []cli.Choice{tokensChoice(l, given(opt))},
			Cure:    "otherwise set --record-size for records, exclude such objects with --match, or make each a sample with --format files",
		}, Cause: unknown}
	}
	if columns, ok := errors.AsType[*rows.ChoiceError](err); ok {
		return &cli.Refusal{Advice: cli.Advice{Message: err.Error(), Fields: columns.Columns}, Cause: err}
	}
	if ofData(err) {
		return &cli.Refusal{Advice: cli.Advice{Message: err.Error()}, Cause: err}
	}
	return err
}

// ofData reports whether an error is a fault of the objects' contents or of the options. Other
// errors come from a store, a file system or an earlier index.
func ofData(err error) bool {
	others := append(objstore.Vocabulary(), context.Canceled, context.DeadlineExceeded, chunkindex.ErrCorrupt, chunkindex.ErrVersion)
	if slices.ContainsFunc(others, func(other error) bool { return errors.Is(err, other) }) {
		return false
	}
	_, parts := errors.AsType[*build.PartsError](err)
	_, file := errors.AsType[*fs.PathError](err)
	return !parts && !file
}

// warnings returns a line for each likely mistake in an index, with the cure.
func warnings(l location.Location, match string, r build.Report, uneven string) (lines []string) {
	warn := func(applies bool, format string, args ...any) {
		if applies {
			lines = append(lines, fmt.Sprintf("millrace: "+format, args...))
		}
	}
	if uneven != "" {
		lines = append(lines, uneven)
	}
	warn(r.HadHidden > 0, "left out %s of the previous index, such as %s, because of hidden names: '--hidden' includes them", words.Count(uint64(r.HadHidden), "object", "objects"), words.Printable(r.HadExample))
	warn(r.Unmatched > 0, "%s: left out %s that --match does not select", l, words.Count(r.Unmatched, "object", "objects"))
	warn(r.Unmatched == 0 && strings.HasPrefix(match, "!"), "%s: --match '%s' excludes nothing: a pattern with a slash applies to the key below the address, any other to the name after the last slash", l, match)
	cure := ": --follow-links follows those that lead somewhere"
	if l.Links {
		cure = ", or leads back to where it lies"
	}
	warn(r.Links > 0, "%s: skipped %s, such as %s, that lead out of the directory, to a directory or nowhere%s",
		l, words.Count(r.Links, "link", "links"), words.Printable(r.Link), cure)
	warn(r.Outside > 0, "%s: %s names that are absolute or contain '..', such as %s: batches pass them on as they are stored, so extract them only with a filter, such as tarfile's filter='data'",
		l, words.Count(r.Outside, "sample has", "samples have"), words.Printable(r.OutsideExample))
	warn(r.ClassFolders > 0 && l.Bucket == "" && l.Index == nil, "%s: %s of pictures: torchvision's ImageFolder treats .millrace as one more class, and fails: remove %s and index again, which stores the index elsewhere",
		l, words.Count(r.ClassFolders, "folder", "folders"), filepath.Join(l.Dir, ".millrace"))
	source := ""
	if l.Bucket != "" {
		source = " of a local copy"
	}
	warn(r.Format == framing.Files && r.Samples > 1, "%s has one object per sample: 'millrace pack'%s makes reading much faster", l, source)
	return lines
}

// note writes a line that only some reports have.
func note(w io.Writer, applies bool, format string, args ...any) {
	if applies {
		fmt.Fprintf(w, format, args...)
	}
}

// Print writes a description of the index as text.
func Print(w io.Writer, l location.Location, r build.Report) {
	if r.Part != nil {
		printPart(w, l, r)
		return
	}
	fmt.Fprintf(w, "indexed %s\n", l)
	fmt.Fprintf(w, "  generation %s\n", r.Generation)
	fmt.Fprintf(w, "  %s in %s of %s, %s\n", words.Count(r.Samples, "sample", "samples"), words.Count(r.Chunks, "chunk", "chunks"),
		words.Count(r.Shards, r.Format+" shard", r.Format+" shards"), humanize.IBytes(uint64(r.Bytes)))
	note(w, r.LeftOut > 0, "  left out %s at the ends of shards, too few for a sample\n", words.Count(uint64(r.LeftOut), "token", "tokens"))
	note(w, r.Tokens != "", "  each sample is %s\n", r.Tokens)
	note(w, r.Assumed != "", "  %s\n", words.Printable(r.Assumed))
	note(w, r.RepeatedKeys > 0, "  %s in more than one shard, such as %s: to look one up, name the shard too\n",
		words.Count(r.RepeatedKeys, "key", "keys"), words.Printable(r.RepeatedKey))
	note(w, r.Ignored > 0, "  ignored %s, such as %s: no shards of this format\n", words.Count(r.Ignored, "object", "objects"), words.Printable(r.IgnoredExample))
	note(w, r.Hidden > 0, "  left out %s, such as %s: --hidden includes them\n", words.Count(r.Hidden, "hidden object", "hidden objects"), words.Printable(r.HiddenExample))
	note(w, r.Members > 0, "  left out %s of the shards that were read: --hidden includes them\n", words.Count(uint64(r.Members), "hidden member", "hidden members"))
	note(w, r.Empty > 0, "  %s no bytes: an upload may have failed\n", words.Count(r.Empty, "shard has", "shards have"))
	printPlace(w, l)
	fmt.Fprintf(w, "  read %s, reused %s\n", humanize.IBytes(uint64(r.ReadBytes)), words.Count(r.ReusedShards, "shard", "shards"))
	switch {
	case r.Unchanged:
		fmt.Fprintln(w, "  nothing has changed")
	case r.Rebound:
		fmt.Fprintln(w, "  same data at a new location or time: the generation stays the same")
	}
}

// printPlace prints the location of the index, and the address for other commands if it differs.
func printPlace(w io.Writer, l location.Location) {
	if address := l.Address(); address != l.Shards() {
		fmt.Fprintf(w, "  its address for other commands is %s\n", address)
	}
}
