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

// claim is the result of one format's survey of a dataset.
type claim struct {
	format format.Format
	found  *format.Dataset
}

// survey detects the format of a dataset and its shards. If the user names no format, exactly one
// format must claim objects. Loose objects are considered only if no other format claims any
// object.
func (b *builder) survey(ctx context.Context, l *listing) error {
	b.asBefore(l)
	hints := b.opt.Hints
	hints.Named, hints.Hidden = b.opt.Format != "", b.opt.Hidden
	hints.Classes = func(ctx context.Context) (map[string][]string, error) { return b.cardClasses(ctx, l) }
	if err := b.refuseTables(l); err != nil {
		return err
	}
	l, assumed, err := b.withoutInput(ctx, l)
	if err != nil {
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
	if assumed != "" {
		b.found.Assumed = func() string { return assumed }
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
	_, err = layout.EncodeMeta(b.meta()) // reports oversized metadata before any scan
	return err
}

// nothing returns the error for a dataset without shards. The error describes the shards that were
// looked for.
func (b *builder) nothing(ctx context.Context, l *listing) error {
	what := lookedFor(b.opt.Format)
	if len(what) == 0 {
		return fmt.Errorf("format %q is unknown: use one of %s", b.opt.Format, strings.Join(FormatNames(), ", "))
	}
	among := ""
	if b.opt.Match != "" {
		among = fmt.Sprintf(" that match %q", b.opt.Match)
	}
	if len(b.hidden) > 0 {
		among += fmt.Sprintf(", and %d hidden (include them with --hidden)", len(b.hidden))
	}
	if b.report.Links > 0 {
		among += fmt.Sprintf(", and %d links, such as %s, that lead out of the directory, to a directory or nowhere (--follow-links follows those that lead somewhere)", b.report.Links, b.report.Link)
	}
	if len(l.seen) == 0 && among == "" {
		return fmt.Errorf("no shards found: %s: %w", b.empty(ctx), objstore.ErrNotFound)
	}
	if len(l.seen) == 0 && b.unmatched != "" {
		return fmt.Errorf("no shards found: 0 objects%s; the pattern excludes %d, such as %s: %w", among, b.report.Unmatched, b.unmatched, objstore.ErrNotFound)
	}
	return fmt.Errorf("no shards found: %d objects%s, none of them a shard; looked for %s: %w", len(l.seen), among, strings.Join(what, "; "), objstore.ErrNotFound)
}

// empty explains why a prefix is empty: it may name a single object, or be misspelled.
func (b *builder) empty(ctx context.Context) string {
	above, wanted := path.Split(strings.TrimSuffix(b.prefix, "/"))
	if wanted == "" {
		return "the location is empty"
	}
	if _, err := b.store.Stat(ctx, above+wanted); err == nil {
		return fmt.Sprintf("%s is an object: use its prefix, %q, and --match %q to select only this object", above+wanted, above, wanted)
	}
	var names []string
	seen := 0
	_ = b.store.List(ctx, above, func(o objstore.Object) error { // after an error, use the names found so far
		name, _, within := strings.Cut(strings.TrimPrefix(o.Key, above), "/")
		if within {
			name += "/"
		}
		if name != layout.StateDir && (len(names) == 0 || names[len(names)-1] != name) {
			names = append(names, name)
		}
		if seen++; seen == 10_000 { // ten requests to S3
			return errors.New("enough")
		}
		return nil
	})
	at, _ := slices.BinarySearch(names, wanted)
	near := names[max(0, at-3):min(len(names), at+3)]
	if len(near) == 0 {
		return fmt.Sprintf("no objects under %q", b.prefix)
	}
	return fmt.Sprintf("no objects under %q; found nearby: %s", b.prefix, strings.Join(near, ", "))
}

// counts lists the number of shards that each format claims.
func counts(claims []claim) string {
	var all []string
	for _, c := range claims {
		all = append(all, fmt.Sprintf("%s %d", c.format.Name, len(c.found.Shards)))
	}
	return strings.Join(all, ", ")
}

// cure suggests how to index the objects of the other formats after one format has failed.
func cure(claims []claim) string {
	if len(claims) == 0 {
		return ""
	}
	return fmt.Sprintf(" (shards of other formats found too: %s: choose the objects of one format with --match)", counts(claims))
}

// checkHints returns an error for options that the detected format does not use.
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
			instead = "; to leave parts out of a response, use fields= in the request"
		}
		return fmt.Errorf("%s does not apply to %s shards: it is for %s (--format)%s", option, b.format.Name, strings.Join(of, " and "), instead)
	}
	return nil
}

// take uses the shards that the survey found as the shards of this run.
func (b *builder) take(l *listing) error {
	at := 0
	for _, s := range b.found.Shards {
		n, ok := slices.BinarySearchFunc(l.seen[at:], s.Key, func(o format.Object, key string) int { return strings.Compare(o.Key, key) })
		if !ok {
			return fmt.Errorf("shard %.200q: not one of the listed objects, or not in their order", s.Key)
		}
		at += n
		o := l.objects[at]
		if err := layout.CheckShardKey(s.Key); err != nil {
			return fmt.Errorf("shard %.200q: %w", s.Key, err)
		}
		if o.ETag == "" {
			return fmt.Errorf("shard %s: the store returned no ETag, which is required to detect changes", s.Key)
		}
		b.shards = append(b.shards, o)
		b.report.Bytes += o.Size
		at++
	}
	if b.found.Overlap < 0 || b.found.Overlap >= format.MaxSample {
		return errors.New("samples share more bytes with each other than the limit for one sample")
	}
	b.report.Format = b.format.Name
	return nil
}

// passedOver counts the objects that the format ignores. It returns an error for data that would be
// lost silently. If the user named the format, that is any ignored data; otherwise it is shards
// with an unsupported compression.
func (b *builder) passedOver(l *listing) error {
	taken := make(map[string]bool, len(b.found.Beside))
	for _, key := range b.found.Beside {
		taken[key] = true
	}
	next := 0 // next shard; both lists have the same order
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
			return fmt.Errorf("object %s does not have the name of a %s shard: exclude it with --match, or rename it", o.Key, b.format.Name)
		case known && c.packed:
			return fmt.Errorf("object %s: %w", o.Key, c.refusal())
		}
	}
	return nil
}
