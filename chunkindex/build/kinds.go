package build

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/naming"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// Kind describes the objects of one kind, in a dataset with several kinds.
type Kind struct {
	Name    string `json:"name"` // the format that reads the objects; for loose objects image, sound, video or text; otherwise a description
	Objects int    `json:"objects"`
	Example string `json:"example"`
	Match   string `json:"match,omitempty"`   // pattern for Options.Match that selects only this kind; empty: none was found
	Refusal string `json:"refusal,omitempty"` // reason why these objects cannot be selected; empty: they can be selected
	Format  bool   `json:"format"`            // Name is the name of a format
}

// KindsError reports objects of several kinds. The caller must select one kind with Options.Match.
type KindsError struct {
	Kinds []Kind
	Pairs int      // number of names shared by objects of several kinds, such as image and label; 0: too few
	Pair  []string // the objects that share one such name
}

func (e *KindsError) Error() string {
	var choices, refusals []string
	for _, k := range e.Kinds {
		switch {
		case k.Refusal != "":
			refusals = append(refusals, "; "+k.Refusal)
		case k.Match == "":
			choices = append(choices, fmt.Sprintf("%d %s", k.Objects, k.Name))
		default:
			choices = append(choices, fmt.Sprintf("%d %s (%s)", k.Objects, k.Name, k.Match))
		}
	}
	return fmt.Sprintf("several kinds of objects found: %s: choose one kind with --match%s", strings.Join(choices, ", "), strings.Join(refusals, ""))
}

// kindSet maps the names of kinds to their objects.
type kindSet map[string]*kindOf

// kindOf holds the objects of one kind.
type kindOf struct {
	Kind
	keys []string
}

func (s kindSet) add(k Kind, key string) {
	of := s[k.Name]
	if of == nil {
		k.Example = key
		of = &kindOf{Kind: k}
		s[k.Name] = of
	}
	of.Objects++
	of.keys = append(of.keys, key)
}

// err returns a KindsError. It lists the kinds that can be selected first, and larger kinds before
// smaller ones.
func (s kindSet) err() error {
	e := &KindsError{}
	for name, k := range s {
		if k.Refusal == "" {
			k.Match = s.pattern(name)
		}
		e.Kinds = append(e.Kinds, k.Kind)
	}
	slices.SortFunc(e.Kinds, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(min(len(a.Refusal), 1), min(len(b.Refusal), 1)), cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Name, b.Name))
	})
	if pairs := s.pairs(); 2*len(pairs) >= e.Kinds[0].Objects {
		e.Pairs, e.Pair = len(pairs), pairs[slices.Min(slices.Collect(maps.Keys(pairs)))]
	}
	return e
}

// pairs returns loose objects of several kinds that share a name up to its first dot, by that name.
// It omits names with two objects of the same suffix: frame.0001.png and frame.0002.png may be no
// pair.
func (s kindSet) pairs() map[string][]string {
	objects, first, several := map[string][]string{}, map[string]string{}, map[string]bool{}
	for kind, k := range s {
		if k.Format {
			continue
		}
		for _, key := range k.keys {
			name, _ := naming.Member(key)
			objects[name] = append(objects[name], key)
			if one, known := first[name]; known && one != kind {
				several[name] = true
			}
			first[name] = kind
		}
	}
	maps.DeleteFunc(objects, func(name string, keys []string) bool {
		slices.Sort(keys)
		suffixes := map[string]bool{}
		for _, key := range keys {
			suffixes[path.Ext(key)] = true
		}
		return !several[name] || len(suffixes) < len(keys)
	})
	return objects
}

// maxSuffixes limits the suffixes in a suggested pattern, to keep it readable.
const maxSuffixes = 8

// pattern returns a pattern that selects exactly the objects of one kind, or "" if no such pattern
// exists.
func (s kindSet) pattern(name string) string {
	suffixes := map[string]bool{}
	for _, key := range s[name].keys {
		suffixes[suffixOf(key)] = true
	}
	if suffixes[""] || len(suffixes) > maxSuffixes {
		return ""
	}
	all := slices.Sorted(maps.Keys(suffixes))
	pattern := "*." + all[0]
	if len(all) > 1 {
		pattern = "*.{" + strings.Join(all, ",") + "}"
	}
	for other, k := range s {
		if other != name && slices.ContainsFunc(k.keys, func(key string) bool { return naming.Matches(pattern, key) }) {
			return ""
		}
	}
	return pattern
}

// suffixOf returns the suffix of a key, including the suffix before a compression suffix:
// "jsonl.gz". It returns "" if a pattern cannot consist of the suffix only.
func suffixOf(key string) string {
	suffix := strings.TrimPrefix(path.Ext(path.Base(key)), ".")
	if format.Plain(key) != key {
		if bare := strings.TrimSuffix(key, "."+suffix); path.Ext(path.Base(bare)) != "" {
			suffix = strings.TrimPrefix(path.Ext(path.Base(bare)), ".") + "." + suffix
		}
	}
	if strings.ContainsAny(suffix, `*?[]{},\`) {
		return ""
	}
	return suffix
}

// kindNamed returns the kind that the name of an unclaimed object indicates.
func kindNamed(key string) (Kind, bool) {
	c, known := containerNamed(key)
	switch kind := naming.Kind(key); {
	case known && c.cure != alone:
		return Kind{Name: c.name, Refusal: fmt.Sprintf("object %s: %v", key, c.refusal())}, true
	case kind != "":
		return Kind{Name: kind}, true
	case format.Ext(key) == ".parquet":
		return Kind{Name: framing.Parquet, Format: true}, true
	case !known:
		return Kind{}, false
	case format.Ext(key) == ".zip":
		return Kind{Name: framing.Zip, Format: true}, true
	}
	return Kind{Name: framing.CSV, Format: true}, true
}

// loose returns an error if objects of several kinds are present, no format claims any of them, and
// one kind can be selected.
func (b *builder) loose(ctx context.Context, l *listing) error {
	kinds, choice := kindSet{}, false
	for _, o := range format.Data(l.seen) {
		k, known := kindNamed(o.Key)
		if !known && kinds[""] == nil {
			refusal, err := b.unread(ctx, l, o.Key)
			if err != nil {
				return err
			}
			k.Refusal = refusal.Error()
		}
		kinds.add(k, o.Key)
		choice = choice || known && k.Refusal == ""
	}
	if len(kinds) < 2 || !choice {
		return nil
	}
	return kinds.err()
}

// several returns an error that asks the user to select one of the claiming formats.
func several(claims []claim) error {
	kinds := kindSet{}
	for _, c := range claims {
		kinds.claim(c)
	}
	return kinds.err()
}

// claim adds the objects of a claim.
func (s kindSet) claim(c claim) {
	for _, shard := range c.found.Shards {
		s.add(Kind{Name: c.format.Name, Format: true}, shard.Key)
	}
	s[c.format.Name].keys = append(s[c.format.Name].keys, c.found.Beside...)
}

// outnumbered returns an error if the only claiming format claims fewer objects than another kind
// has. The claimed shards may only describe the other objects, just as a metadata.jsonl describes
// images. A few images next to shards, such as those of a README, are ignored.
func (b *builder) outnumbered(l *listing) error {
	if b.opt.Format != "" || b.found.Told || b.found.Loose {
		return nil
	}
	mine, describes := map[string]bool{}, true
	for _, s := range b.found.Shards {
		mine[s.Key] = true
		stem, _, _ := strings.Cut(path.Base(s.Key), ".")
		describes = describes && strings.EqualFold(stem, "metadata")
	}
	for _, key := range b.found.Beside {
		mine[key] = true
	}
	rivals := kindSet{}
	for _, o := range format.Data(l.seen) {
		k, known := kindNamed(o.Key)
		if packed, _ := containerNamed(o.Key); mine[o.Key] || !known || k.Name == naming.Text || packed.packed {
			continue
		}
		rivals.add(k, o.Key)
	}
	maps.DeleteFunc(rivals, func(_ string, k *kindOf) bool {
		return k.Objects <= len(b.found.Shards) && (!describes || k.Format || k.Refusal != "")
	})
	if len(rivals) == 0 || rivals[b.format.Name] != nil {
		return nil
	}
	rivals.claim(claim{b.format, b.found})
	return rivals.err()
}
