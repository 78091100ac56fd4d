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

// AllSplits is the split that means all objects, whatever splits they belong to.
const AllSplits = "all"

// Split is the shards of one part of a dataset, such as its training data.
type Split struct {
	Config  string `json:"config,omitempty"` // of a repository with several configurations
	Name    string `json:"name"`             // as the dataset's own description has it; without one train, val or test, by names
	Shards  int    `json:"shards"`           // how many it has
	Example string `json:"example"`
}

// SplitsError says that the objects belong to several splits or configurations, of which the caller has to choose one: with
// Options.Split and Config.
type SplitsError struct {
	Wanted string  // what the options choose and is not there; empty: they choose nothing
	Splits []Split // what can be chosen
}

// newSplitsError leaves out the configuration where all splits are of one.
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
		return fmt.Sprintf("no %s here: no name of an object, and no README.md, dataset_dict.json or .nv-meta/split.yaml, tells of splits: choose objects with --match", e.Wanted)
	}
	if e.Wanted != "" {
		return fmt.Sprintf("no %s here, but %s", e.Wanted, strings.Join(all, ", "))
	}
	return "there are several splits: " + strings.Join(all, ", ") + ": choose one"
}

// Label is what a split is called, its configuration first.
func (s Split) Label() string {
	if s.Config == "" {
		return s.Name
	}
	return s.Config + "/" + s.Name
}

// splitRule says which objects are a split's.
type splitRule struct {
	config, name string
	byDefault    bool // its configuration is the one that a reader gets who names none
	takes        func(key string) bool
}

// splitWord returns the split that a word of a name stands for, empty if it stands for none.
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

// splitOf returns the split that an object's key tells of, by its folders first. The names of loose objects themselves say
// nothing: a picture of a train is no training data.
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

// wordOf returns the split that the first such word in a name tells of. Words are runs of letters.
func wordOf(name string) string {
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return !unicode.IsLetter(r) }) {
		if split := splitWord(word); split != "" {
			return split
		}
	}
	return ""
}

// splitRules returns the splits of a dataset: those that list their shards, or else those of the metadata in README.md or of a dataset_dict.json, and
// of objects that these do not name, those that names tell of.
func splitRules(ctx context.Context, l *listing, listed []splitRule) (rules []splitRule, err error) {
	if rules = listed; rules == nil {
		rules, err = hubRules(ctx, l)
	}
	config, described := "", slices.Clone(rules)
	for _, r := range described {
		if r.config != described[0].config {
			return rules, nil // names tell nothing of configurations
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

// energonRules returns the splits of a dataset of Megatron Energon, whose shards' names tell nothing of them. One that cannot be read is an error:
// shards that are held out would be trained on.
func energonRules(ctx context.Context, l *listing) (rules []splitRule, err error) {
	for _, key := range hub.EnergonFiles() {
		text, err := l.beside(ctx, key, hub.MaxEnergon)
		if err != nil {
			return nil, err
		}
		splits, err := hub.ReadEnergon(text)
		if err != nil {
			return nil, fmt.Errorf("object %s: %w", key, err)
		}
		for _, s := range splits {
			rules = append(rules, splitRule{name: s.Name, takes: func(key string) bool { return s.Keys[key] }})
		}
		if text != nil {
			break
		}
	}
	return rules, nil
}

// hubRules returns the splits that a repository of Hugging Face's hub, or save_to_disk, describes.
func hubRules(ctx context.Context, l *listing) ([]splitRule, error) {
	var configs []hub.Config
	card, err := l.beside(ctx, "README.md", hub.MaxCard)
	if err == nil && card != nil {
		configs, err = hub.ReadCard(card)
	}
	if err != nil {
		return nil, err
	}
	if len(configs) == 0 {
		dict, err := l.beside(ctx, "dataset_dict.json", hub.MaxDict)
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

// cardClasses returns the names that README.md gives to the values of integer columns. A README that cannot be read gives none: it may be
// one that no library reads.
func (b *builder) cardClasses(ctx context.Context, l *listing) (map[string][]string, error) {
	card, err := l.beside(ctx, "README.md", hub.MaxCard)
	if err != nil {
		return nil, err
	}
	classes, err := hub.CardClasses(card, b.config)
	if err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	return classes, nil
}

// beside returns the first bytes of an object that describes the dataset, whether or not it is listed; nil: there is none.
func (l *listing) beside(ctx context.Context, key string, limit int64) ([]byte, error) {
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

// counted returns the splits that have some of the keys, with how many each has.
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

// choose returns the objects of the split that the options name. Where they name none it returns all, and survey finds out
// whether these are shards of several splits.
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
		b.rules = rules // a description that cannot be read is no description, unless the user goes by it
		return l, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	chosen, err := b.chosen(rules, l)
	if err != nil {
		return nil, err
	}
	b.config = chosen[0].config // of all: chosen takes the splits of one configuration
	takes := func(o objstore.Object) bool {
		key := strings.TrimPrefix(o.Key, b.prefix)
		return slices.ContainsFunc(chosen, func(r splitRule) bool { return r.takes(key) })
	}
	return newListing(b.store, b.prefix, slices.DeleteFunc(l.objects, func(o objstore.Object) bool { return !takes(o) })), nil
}

// refuseRepository refuses a repository in Hugging Face's cache, which has every file twice or more: as a blob, and in each snapshot.
func (l *listing) refuseRepository(ctx context.Context) error {
	snapshots := slices.ContainsFunc(l.seen, func(o format.Object) bool { return strings.HasPrefix(o.Key, "snapshots/") })
	blobs := slices.ContainsFunc(l.seen, func(o format.Object) bool { return strings.HasPrefix(o.Key, "blobs/") })
	if !snapshots || !blobs {
		return nil
	}
	ref, err := l.beside(ctx, "refs/main", 64)
	if err != nil || ref == nil {
		return err
	}
	return fmt.Errorf("this is a repository of Hugging Face's cache, with every file as a blob and in each snapshot: index the snapshot, which is snapshots/%s below it", strings.TrimSpace(string(ref)))
}

// chosen returns the rules that the options name.
func (b *builder) chosen(rules []splitRule, l *listing) ([]splitRule, error) {
	there := counted(rules, l.keys)
	rules = slices.DeleteFunc(slices.Clone(rules), func(r splitRule) bool {
		return !slices.ContainsFunc(there, func(s Split) bool { return s.Config == r.config && s.Name == r.name })
	})
	split := b.opt.Split
	if word := splitWord(split); word != "" && !slices.ContainsFunc(rules, func(r splitRule) bool { return r.name == split }) {
		if i := slices.IndexFunc(rules, func(r splitRule) bool { return splitWord(r.name) == word }); i >= 0 {
			split = rules[i].name // "validation" for what is called "val", and the other way round
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
		return nil, newSplitsError(b.wanted(), there)
	}
	if b.opt.Split == "" && len(chosen) > 1 {
		return nil, newSplitsError("", slices.DeleteFunc(there, func(s Split) bool { return s.Config != b.opt.Config }))
	}
	return chosen, nil
}

// wanted is what the options name, in words.
func (b *builder) wanted() string {
	switch {
	case b.opt.Config == "":
		return "split " + b.opt.Split
	case b.opt.Split == "" || b.opt.Split == AllSplits:
		return "configuration " + b.opt.Config
	}
	return "split " + b.opt.Split + " of configuration " + b.opt.Config
}

// mixture returns an error if the keys are those of several splits, unless the options say which are wanted.
func (b *builder) mixture(keys func(yield func(string) bool)) error {
	all := counted(b.rules, keys)
	if len(all) < 2 || !slices.ContainsFunc(all, func(s Split) bool { return s.Config != "" || !knownWord(s.Name) || s.Name == "train" }) {
		return nil // "val" beside "test" may be anything
	}
	return newSplitsError("", all)
}

// keys are those of all objects that can hold samples.
func (l *listing) keys(yield func(string) bool) {
	for _, o := range format.Data(l.seen) {
		if !yield(o.Key) {
			return
		}
	}
}

// shardKeys are those of all shards.
func (b *builder) shardKeys(yield func(string) bool) {
	for _, s := range b.found.Shards {
		if !yield(s.Key) {
			return
		}
	}
}

// knownWord says whether a split has one of the names that names of objects give.
func knownWord(split string) bool { return splitWord(split) == split }
