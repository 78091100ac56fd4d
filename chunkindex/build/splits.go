package build

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/hub"
	"github.com/millrace-data/millrace/chunkindex/format/naming"
	"github.com/millrace-data/millrace/internal/objstore"
)

// AllSplits is the value of Options.Split that selects the objects of all splits.
const AllSplits = "all"

// Split describes the shards of one split of a dataset, such as its training data.
type Split struct {
	Config  string `json:"config,omitempty"` // configuration, in a repository with several
	Name    string `json:"name"`             // name from the dataset's own description; otherwise train, val or test, derived from names
	Shards  int    `json:"shards"`           // number of shards
	Example string `json:"example"`
}

// SplitsError reports that the objects belong to several splits or configurations. The caller must
// select one with Options.Split and Options.Config.
type SplitsError struct {
	Wanted string  // the selection that the options make but that does not exist; empty: they select nothing
	Splits []Split // the possible selections
}

// newSplitsError returns a SplitsError. It omits the configuration if all splits have the same one.
func newSplitsError(wanted string, all []Split) *SplitsError {
	if !slices.ContainsFunc(all, func(s Split) bool { return s.Config != all[0].Config }) {
		for i := range all {
			all[i].Config = ""
		}
	}
	return &SplitsError{wanted, all}
}

func (e *SplitsError) Error() string {
	var all []string
	for _, s := range e.Splits {
		all = append(all, s.Label())
	}
	if len(e.Splits) == 0 {
		return fmt.Sprintf("%s not found: no object name, README.md, dataset_dict.json or .nv-meta/split.yaml defines splits: choose objects with --match", e.Wanted)
	}
	if e.Wanted != "" {
		return fmt.Sprintf("%s not found: the dataset has %s", e.Wanted, strings.Join(all, ", "))
	}
	return "there are several splits: " + strings.Join(all, ", ") + ": choose one"
}

// Label returns the name of a split, prefixed by its configuration.
func (s Split) Label() string {
	if s.Config == "" {
		return s.Name
	}
	return s.Config + "/" + s.Name
}

// splitRule selects the objects of a split.
type splitRule struct {
	config, name string
	byDefault    bool // the split belongs to the default configuration
	takes        func(key string) bool
}

// splitWord returns the split that a word denotes, or "" if it denotes none.
func splitWord(word string) string {
	switch strings.ToLower(word) {
	case "train", "training":
		return "train"
	case "val", "valid", "validation", "dev", "eval":
		return "val"
	case "test", "testing":
		return "test"
	}
	return ""
}

// splitOf returns the split that a key indicates, first by its folders. It ignores the base names
// of loose objects, because a picture of a train is not training data.
func splitOf(key string) string {
	dir, base := path.Split(key)
	for element := range strings.SplitSeq(dir, "/") {
		if name := wordOf(element); name != "" {
			return name
		}
	}
	if naming.Alone(key) {
		return ""
	}
	return wordOf(base)
}

// wordOf returns the split denoted by the first word in a name that denotes a split. Words are runs
// of letters.
func wordOf(name string) string {
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return !unicode.IsLetter(r) }) {
		if split := splitWord(word); split != "" {
			return split
		}
	}
	return ""
}

// splitRules returns the splits of a dataset. If a list of shards exists, listed contains its
// splits. Otherwise README.md or dataset_dict.json define the splits. Objects that no description
// names are assigned to train, val or test by their keys.
func splitRules(ctx context.Context, l *listing, listed []splitRule) (rules []splitRule, err error) {
	if rules = listed; rules == nil {
		rules, err = hubRules(ctx, l)
	}
	config, described := "", slices.Clone(rules)
	for _, r := range described {
		if r.config != described[0].config {
			return rules, nil // names do not indicate configurations
		}
		config = r.config
	}
	for _, name := range []string{"train", "val", "test"} {
		if slices.ContainsFunc(described, func(r splitRule) bool { return splitWord(r.name) == name }) {
			continue
		}
		rules = append(rules, splitRule{config: config, name: name, takes: func(key string) bool {
			return splitOf(key) == name && !slices.ContainsFunc(described, func(r splitRule) bool { return r.takes(key) })
		}})
	}
	return rules, err
}

// energonRules returns the splits that a Megatron Energon dataset lists, because names do not
// indicate them there. An unreadable list is an error: ignoring it could move held-out shards into
// training.
func energonRules(ctx context.Context, l *listing) (rules []splitRule, err error) {
	for _, key := range hub.EnergonFiles() {
		text, err := l.description(ctx, key, hub.MaxEnergon)
		if err != nil {
			return nil, err
		}
		splits, err := hub.ReadEnergon(text)
		if err != nil {
			return nil, fmt.Errorf("object %s: %w", key, err)
		}
		for _, s := range splits {
			rules = append(rules, splitRule{name: s.Name, takes: s.Takes})
		}
		if text != nil {
			break
		}
	}
	return rules, nil
}

// hubRules returns the splits that a Hugging Face repository or save_to_disk describes.
func hubRules(ctx context.Context, l *listing) ([]splitRule, error) {
	var configs []hub.Config
	card, err := l.description(ctx, "README.md", hub.MaxCard)
	if err == nil && card != nil {
		configs, err = hub.ReadCard(card)
	}
	if err != nil {
		return nil, err
	}
	if len(configs) == 0 {
		dict, err := l.description(ctx, "dataset_dict.json", hub.MaxDict)
		if err != nil || dict == nil {
			return nil, err
		}
		splits, err := hub.ReadDict(dict)
		if err != nil {
			return nil, err
		}
		configs = []hub.Config{{Splits: splits}}
	}
	var rules []splitRule
	for _, c := range configs {
		for _, s := range c.Splits {
			rules = append(rules, splitRule{c.Name, s.Name, c.Default, s.Takes})
		}
	}
	return rules, nil
}

// cardClasses returns the names that README.md assigns to the values of integer columns. An
// unreadable README.md assigns none, because it may not be intended for programs.
func (b *builder) cardClasses(ctx context.Context, l *listing) (map[string][]string, error) {
	card, err := l.description(ctx, "README.md", hub.MaxCard)
	if err != nil {
		return nil, err
	}
	classes, err := hub.CardClasses(card, b.config)
	if err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	return classes, nil
}

// description returns the first bytes of an object that describes the dataset, even if the listing
// does not contain it. It returns nil if the object does not exist.
func (l *listing) description(ctx context.Context, key string, limit int64) ([]byte, error) {
	obj, err := l.store.Stat(ctx, l.prefix+key)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(obj.Size, limit))
	if len(b) > 0 {
		err = l.store.ReadRange(ctx, obj.Ref(), 0, b)
	}
	return b, err
}

// counted returns the splits that contain at least one of the keys, each with its number of keys.
func counted(rules []splitRule, keys func(yield func(string) bool)) []Split {
	all := make([]Split, len(rules))
	for i, r := range rules {
		all[i].Config, all[i].Name = r.config, r.name
	}
	for key := range keys {
		for i, r := range rules {
			if !r.takes(key) {
				continue
			}
			if all[i].Shards++; all[i].Shards == 1 {
				all[i].Example = key
			}
		}
	}
	return slices.DeleteFunc(all, func(s Split) bool { return s.Shards == 0 })
}

// choose returns the objects of the split that the options name, or all objects if they name none.
// If they name none, survey later checks whether the shards belong to several splits.
func (b *builder) choose(ctx context.Context, l *listing) (*listing, error) {
	if err := l.refuseRepository(ctx); err != nil {
		return nil, err
	}
	b.report.Split, b.report.Config = b.opt.Split, b.opt.Config
	if b.opt.Split == AllSplits && b.opt.Config == "" {
		return l, nil
	}
	listed, err := energonRules(ctx, l)
	if err != nil {
		return nil, err
	}
	rules, err := splitRules(ctx, l, listed)
	if b.opt.Split == "" && b.opt.Config == "" {
		b.rules = rules // ignores an unreadable description, unless the user selects by it
		return l, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	chosen, err := b.chosen(rules, l)
	if err != nil {
		return nil, err
	}
	b.config = chosen[0].config // all selected splits have the same configuration
	takes := func(o objstore.Object) bool {
		key := strings.TrimPrefix(o.Key, b.prefix)
		return slices.ContainsFunc(chosen, func(r splitRule) bool { return r.takes(key) })
	}
	return newListing(b.store, b.prefix, slices.DeleteFunc(l.objects, func(o objstore.Object) bool { return !takes(o) })), nil
}

// refuseRepository returns an error for a repository in Hugging Face's cache. Such a directory
// contains every file as a blob and again in each snapshot.
func (l *listing) refuseRepository(ctx context.Context) error {
	snapshots := slices.ContainsFunc(l.seen, func(o format.Object) bool { return strings.HasPrefix(o.Key, "snapshots/") })
	blobs := slices.ContainsFunc(l.seen, func(o format.Object) bool { return strings.HasPrefix(o.Key, "blobs/") })
	if !snapshots || !blobs {
		return nil
	}
	ref, err := l.description(ctx, "refs/main", 64)
	if err != nil || ref == nil {
		return err
	}
	return fmt.Errorf("this is a repository in the cache of Hugging Face, which has every file as a blob and again in each snapshot: index the snapshot, in the subdirectory snapshots/%s", strings.TrimSpace(string(ref)))
}

// chosen returns the rules that the options select.
func (b *builder) chosen(rules []splitRule, l *listing) ([]splitRule, error) {
	there := counted(rules, l.keys)
	rules = slices.DeleteFunc(slices.Clone(rules), func(r splitRule) bool {
		return !slices.ContainsFunc(there, func(s Split) bool { return s.Config == r.config && s.Name == r.name })
	})
	split := b.opt.Split
	if word := splitWord(split); word != "" && !slices.ContainsFunc(rules, func(r splitRule) bool { return r.name == split }) {
		if i := slices.IndexFunc(rules, func(r splitRule) bool { return splitWord(r.name) == word }); i >= 0 {
			split = rules[i].name // treats "validation" and "val" as equal
		}
	}
	configs := map[string]bool{}
	hasDefault := false
	for _, r := range rules {
		configs[r.config] = true
		hasDefault = hasDefault || r.byDefault
	}
	var chosen []splitRule
	for _, r := range rules {
		ofConfig := r.config == b.opt.Config || b.opt.Config == "" && (len(configs) == 1 || hasDefault && r.byDefault)
		ofSplit := b.opt.Split == "" || b.opt.Split == AllSplits || r.name == split
		if ofConfig && ofSplit {
			chosen = append(chosen, r)
		}
	}
	if len(chosen) == 0 {
		return nil, newSplitsError(b.choiceText(), there)
	}
	if b.opt.Split == "" && len(chosen) > 1 {
		return nil, newSplitsError("", slices.DeleteFunc(there, func(s Split) bool { return s.Config != b.opt.Config }))
	}
	return chosen, nil
}

// choiceText describes the selection of the options for an error message.
func (b *builder) choiceText() string {
	switch {
	case b.opt.Config == "":
		return "split " + b.opt.Split
	case b.opt.Split == "" || b.opt.Split == AllSplits:
		return "configuration " + b.opt.Config
	}
	return "split " + b.opt.Split + " of configuration " + b.opt.Config
}

// mixture returns an error if the keys belong to several splits and the options select none.
func (b *builder) mixture(keys func(yield func(string) bool)) error {
	all := counted(b.rules, keys)
	if len(all) < 2 || !slices.ContainsFunc(all, func(s Split) bool { return s.Config != "" || !knownWord(s.Name) || s.Name == "train" }) {
		return nil // without "train", "val" and "test" are not necessarily splits of one dataset
	}
	return newSplitsError("", all)
}

// keys yields the keys of all objects that can hold samples.
func (l *listing) keys(yield func(string) bool) {
	for _, o := range format.Data(l.seen) {
		if !yield(o.Key) {
			return
		}
	}
}

// shardKeys yields the keys of all shards.
func (b *builder) shardKeys(yield func(string) bool) {
	for _, s := range b.found.Shards {
		if !yield(s.Key) {
			return
		}
	}
}

// knownWord reports whether a split has a canonical name: train, val or test.
func knownWord(split string) bool { return splitWord(split) == split }
