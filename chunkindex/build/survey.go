package build

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/files"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
)

// claim is what a format says of a dataset.
type claim struct {
	format format.Format
	found  *format.Dataset
}

// survey finds the format of a dataset, and its shards. A format that a user has not named gets a dataset only if no other
// one claims a part of it. Loose objects are what is left when nobody else claims anything.
func (b *builder) survey(ctx context.Context, l *listing) error {
	b.asBefore(l)
	hints := b.opt.Hints
	hints.Named, hints.Hidden = b.opt.Format != "", b.opt.Hidden
	hints.Classes = func(ctx context.Context) (map[string][]string, error) { return b.cardClasses(ctx, l) }
	if err := b.refuseTables(l); err != nil {
		return err
	}
	var claims []claim
	for _, f := range b.formats {
		if hints.Named && b.opt.Format != f.Name || !hints.Named && f.Last && len(claims) > 0 {
			continue
		}
		if f.Name == framing.Files && !hints.Named {
			if err := b.loose(ctx, l); err != nil {
				return err
			}
		}
		d, err := f.Survey(ctx, l, hints)
		if unknown, ok := errors.AsType[*files.UnknownError](err); ok {
			return b.refuse(ctx, l, unknown)
		}
		if err != nil {
			return fmt.Errorf("look for %s shards: %w%s", f.Name, err, cure(claims))
		}
		if d != nil && len(d.Shards) > 0 {
			claims = append(claims, claim{f, d})
		}
	}
	switch len(claims) {
	case 0:
		return b.nothing(ctx, l)
	case 1:
		b.format, b.found = claims[0].format, claims[0].found
	default:
		return several(claims)
	}
	if err := b.outnumbered(l); err != nil {
		return err
	}
	if err := b.checkHints(); err != nil {
		return err
	}
	if err := b.take(l); err != nil {
		return err
	}
	if err := b.passedOver(l); err != nil {
		return err
	}
	_, err := layout.EncodeMeta(b.meta()) // refused before anything is read
	return err
}

// nothing says what was looked for, in vain.
func (b *builder) nothing(ctx context.Context, l *listing) error {
	what := lookedFor(b.opt.Format)
	if len(what) == 0 {
		return fmt.Errorf("format %q is not known: want one of %s", b.opt.Format, strings.Join(FormatNames(), ", "))
	}
	among := ""
	if b.opt.Match != "" {
		among = fmt.Sprintf(" that match %q", b.opt.Match)
	}
	if len(b.hidden) > 0 {
		among += fmt.Sprintf(", and %d hidden ones (--hidden takes them too)", len(b.hidden))
	}
	if b.report.Links > 0 {
		among += fmt.Sprintf(", and %d links, such as %s, that lead out of the directory, to a directory or nowhere (--follow-links follows those that lead somewhere)", b.report.Links, b.report.Link)
	}
	if len(l.seen) == 0 && among == "" {
		return fmt.Errorf("no shards here: %s: %w", b.empty(ctx), objstore.ErrNotFound)
	}
	if len(l.seen) == 0 && b.unmatched != "" {
		return fmt.Errorf("no shards here: 0 objects%s; the pattern leaves out %d, such as %s: %w", among, b.report.Unmatched, b.unmatched, objstore.ErrNotFound)
	}
	return fmt.Errorf("no shards here: %d objects%s, and none is one; looked for %s: %w", len(l.seen), among, strings.Join(what, "; "), objstore.ErrNotFound)
}

// empty says of a prefix under which nothing lies what the user may have meant: one object is named, or the name is a slip of the pen.
func (b *builder) empty(ctx context.Context) string {
	above, wanted := path.Split(strings.TrimSuffix(b.prefix, "/"))
	if wanted == "" {
		return "nothing lies here"
	}
	if _, err := b.store.Stat(ctx, above+wanted); err == nil {
		return fmt.Sprintf("%s is one object: give the prefix that it lies under, %q, and --match %q for this object alone", above+wanted, above, wanted)
	}
	var names []string
	seen := 0
	_ = b.store.List(ctx, above, func(o objstore.Object) error { // after an error the names that came are told
		name, _, within := strings.Cut(strings.TrimPrefix(o.Key, above), "/")
		if within {
			name += "/"
		}
		if name != layout.StateDir && (len(names) == 0 || names[len(names)-1] != name) {
			names = append(names, name)
		}
		if seen++; seen == 10_000 { // of S3 these take ten requests
			return errors.New("enough")
		}
		return nil
	})
	at, _ := slices.BinarySearch(names, wanted)
	near := names[max(0, at-3):min(len(names), at+3)]
	if len(near) == 0 {
		return fmt.Sprintf("nothing lies under %q", b.prefix)
	}
	return fmt.Sprintf("nothing lies under %q; beside it lie %s", b.prefix, strings.Join(near, ", "))
}

// counts says how many shards each format claims.
func counts(claims []claim) string {
	var all []string
	for _, c := range claims {
		all = append(all, fmt.Sprintf("%s %d", c.format.Name, len(c.found.Shards)))
	}
	return strings.Join(all, ", ")
}

// cure says how to index what other formats claimed, where one of them stumbles.
func cure(claims []claim) string {
	if len(claims) == 0 {
		return ""
	}
	return fmt.Sprintf(" (shards of other formats lie here too: %s: choose the objects of one with --match)", counts(claims))
}

// checkHints refuses what was said of a dataset that its format has no use for.
func (b *builder) checkHints() error {
	for _, option := range b.opt.Hints.Given() {
		if slices.Contains(b.format.Takes, option) {
			continue
		}
		var of []string
		for _, f := range b.formats {
			if slices.Contains(f.Takes, option) {
				of = append(of, f.Name)
			}
		}
		instead := ""
		if option == format.Fields {
			instead = "; fields= in a request leaves parts out of its answer"
		}
		return fmt.Errorf("%s says nothing of %s shards, which lie here: it is for %s (--format)%s", option, b.format.Name, strings.Join(of, " and "), instead)
	}
	return nil
}

// take makes the objects that a survey found the shards of this run.
func (b *builder) take(l *listing) error {
	at := 0
	for _, s := range b.found.Shards {
		n, ok := slices.BinarySearchFunc(l.seen[at:], s.Key, func(o format.Object, key string) int { return strings.Compare(o.Key, key) })
		if !ok {
			return fmt.Errorf("shard %.200q: not among the objects, or not in their order", s.Key)
		}
		at += n
		o := l.objects[at]
		if err := layout.CheckShardKey(s.Key); err != nil {
			return fmt.Errorf("shard %.200q: %w", s.Key, err)
		}
		if o.ETag == "" {
			return fmt.Errorf("shard %s: the store gives no ETag, without which a change cannot be noticed", s.Key)
		}
		b.shards = append(b.shards, o)
		b.report.Bytes += o.Size
		at++
	}
	if b.found.Overlap < 0 || b.found.Overlap >= format.MaxSample {
		return errors.New("samples share more bytes than they can have")
	}
	b.report.Format = b.format.Name
	return nil
}

// passedOver counts the objects that the format does not take, and refuses those whose loss nobody asked for: all that hold data, where
// the format was named; and else those that are shards but for a compression that is not read.
func (b *builder) passedOver(l *listing) error {
	taken := make(map[string]bool, len(b.found.Beside))
	for _, key := range b.found.Beside {
		taken[key] = true
	}
	next := 0 // of the shards, in the same order
	for _, o := range l.seen {
		if next < len(b.found.Shards) && b.found.Shards[next].Key == o.Key {
			next++
			continue
		}
		if taken[o.Key] {
			continue
		}
		if b.report.Ignored++; b.report.Ignored == 1 {
			b.report.IgnoredExample = o.Key
		}
		c, known := containerNamed(o.Key)
		switch {
		case b.found.Told || format.Note(o.Key) || format.Marker(o):
		case b.opt.Format != "":
			return fmt.Errorf("object %s is no %s shard by its name: leave it out with --match, or name it as one", o.Key, b.format.Name)
		case known && c.packed:
			return fmt.Errorf("object %s: %w", o.Key, c.refusal())
		}
	}
	return nil
}

// leavesOut begins a pattern that names what is left out.
const leavesOut = "!"

// Matches says whether a pattern takes an object: one with a slash is held against the whole key, any other against what follows the last
// slash, both as path.Match has it. Of {a,b} either stands there. A ! before a pattern has it take all other objects.
func Matches(pattern, key string) bool {
	if pattern == "" {
		return true
	}
	if others, found := strings.CutPrefix(pattern, leavesOut); found {
		return !Matches(others, key)
	}
	if !strings.Contains(pattern, "/") {
		key = path.Base(key)
	}
	return slices.ContainsFunc(either(pattern), func(one string) bool {
		ok, err := path.Match(one, key)
		return ok && err == nil
	})
}

// either returns the patterns that a pattern with braces stands for. Braces without a comma stand for themselves, as in a shell.
func either(pattern string) []string {
	before, rest, open := strings.Cut(pattern, "{")
	inside, after, closed := strings.Cut(rest, "}")
	if !open || !closed || !strings.Contains(inside, ",") {
		return []string{pattern}
	}
	var all []string
	for one := range strings.SplitSeq(inside, ",") {
		all = append(all, either(before+one+after)...)
	}
	return all
}
