package address

import (
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/shuffle"
)

// Bounds of parameters that are multiplied with each other: far above any use, far below overflow.
const (
	maxBatchSize = 1 << 31
	maxWorldSize = 1 << 31
	MaxWindow    = 1 << 31
	MaxStrata    = 1 << 16

	// maxHomes bounds the homes of split=locality: the work to share out a batch grows with them.
	maxHomes = 1 << 16

	// maxSubsetName bounds the name of a subset, in bytes.
	maxSubsetName = 64
)

// The values of the parameter balance: what the shares of a global batch are equal in.
const (
	BalanceSamples = "samples" // each rank takes a contiguous run of positions; neutral, so no URL holds it
	BalanceBytes   = "bytes"   // the samples are dealt to the ranks by length (docs/order.md)
)

// splitContiguous is the neutral value of the parameter split, which no URL holds: each rank takes a contiguous run
// of the global batch. The other value is shuffle.Locality.
const splitContiguous = "contiguous"

// validName bounds the names of datasets and subsets to what a path carries without escapes.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// ValidName reports whether a dataset may have this name.
func ValidName(name string) bool { return validName.MatchString(name) }

// PlanNames are the parameters that fix the batches.
func PlanNames() []string {
	return []string{"batch_size", "seed", "shuffle", "window", "strata", "tail", "importance", "subset", "quarantine", "generation"}
}

// BatchNames are the parameters of a batch and of an epoch.
func BatchNames() []string {
	return append(PlanNames(), "rank", "world_size", "balance", "split", "homes", "format", "fields", "table")
}

// Dataset is what a URL is read against.
type Dataset struct {
	Name       string
	Generation string
	Defaults   chunkindex.Defaults // of parameters that are left out
	Forms      []Form              // that its batches may have, its own first
}

// Plan is a resolved plan: every parameter has a value, from the URL or from the dataset's defaults.
type Plan struct {
	Dataset    string // name
	Generation string
	Params     shuffle.Params
	Quarantine string // digest of a list of bad samples; "": none
	Samples    uint64 // of an epoch; the index, the subset or the mixture says how many, not the URL
	BatchSize  uint64 // of the global batch
	Tail       shuffle.Tail
	Rank       uint64
	WorldSize  uint64
	Balance    string
	Split      shuffle.Split
	Homes      uint64 // of split=locality: as many as groups of ranks
	View       View
	Pinned     bool // the URL fixes all data: it names the generation, and the split of a subset by its digest
}

// DecodePlan resolves the parameters of a query against a dataset's defaults.
func DecodePlan(q *Query, d Dataset) Plan {
	def := d.Defaults
	p := Plan{Dataset: d.Name, Generation: d.Generation}
	p.BatchSize = q.Number("batch_size", def.BatchSize, 1, maxBatchSize)
	p.decodeOrder(q, def)
	p.Tail = shuffle.Tail(q.Word("tail", def.Tail, string(shuffle.Short), string(shuffle.Drop), string(shuffle.Pad)))
	p.WorldSize = q.Number("world_size", 1, 1, maxWorldSize)
	p.Rank = q.Number("rank", 0, 0, math.MaxUint64)
	if p.Rank >= p.WorldSize {
		q.Fail("rank", "must be below world_size")
	}
	p.decodeSplit(q)
	p.decodeSelection(q)
	p.View = decodeView(q, d.Forms)
	p.Pinned = q.Has("generation") && (p.Params.Subset == "" || strings.Contains(p.Params.Subset, ":"))
	return p
}

// decodeOrder reads the parameters of the order.
func (p *Plan) decodeOrder(q *Query, def chunkindex.Defaults) {
	p.Params.Seed = q.Number("seed", def.Seed, 0, math.MaxUint64)
	p.Params.Shuffle = q.Word("shuffle", def.Shuffle, shuffle.None, shuffle.Window, shuffle.Slot, shuffle.Full)
	mostWindow := uint64(MaxWindow)
	if p.Params.Shuffle == shuffle.Slot {
		mostWindow = shuffle.MaxLanes
	}
	window := q.Number("window", def.Window, 1, mostWindow)
	if UsesWindow(p.Params.Shuffle) {
		p.Params.Window = window
	} else if q.Has("window") {
		q.Fail("window", "has no meaning for shuffle %s", p.Params.Shuffle)
	}
	p.Params.Strata = q.Number("strata", 0, 0, MaxStrata)
	if p.Params.Strata != 0 && !q.Failed("shuffle", "window", "strata") {
		if _, err := shuffle.NewPlan(p.Params, []uint64{0}); err != nil {
			q.Fail("strata", "%s", reason(err))
		}
	}
	p.Params.Importance = q.Digest("importance")
}

// UsesWindow reports whether a shuffle has a window: none and full have none.
func UsesWindow(name string) bool { return name == shuffle.Window || name == shuffle.Slot }

// decodeSplit reads how the ranks share a global batch. It finds the faults that parameters alone can show; how
// many lanes a slot order has, the dataset decides.
func (p *Plan) decodeSplit(q *Query) {
	p.Balance = q.Word("balance", BalanceSamples, BalanceSamples, BalanceBytes)
	if q.Word("split", splitContiguous, splitContiguous, string(shuffle.Locality)) != splitContiguous {
		p.Split = shuffle.Locality
	}
	p.Homes = q.Number("homes", p.WorldSize, 1, maxHomes)
	switch {
	case p.Split == shuffle.Contiguous:
		if q.Has("homes") {
			q.Fail("homes", "has no meaning without split=locality")
		}
	case p.Balance == BalanceBytes:
		q.Fail("split", "locality and balance=bytes exclude each other")
	case p.Homes > maxHomes:
		q.Fail("split", "locality for more than %d ranks takes homes, at most as many", maxHomes)
	case p.Homes > p.WorldSize:
		if !q.Failed("homes", "world_size") {
			q.Fail("homes", "must be at most world_size")
		}
	case p.Params.Shuffle != shuffle.Slot && !q.Failed("shuffle", "window", "strata", "world_size"):
		params := p.Params
		params.Importance = ""
		plan, err := shuffle.NewPlan(params, []uint64{0})
		if err == nil {
			err = plan.CheckSplit(p.WorldSize, p.Homes)
		}
		q.failSplit(p, err)
	}
}

// failSplit names the parameter to blame: homes where the request gives their number, else split.
func (q *Query) failSplit(p *Plan, err error) {
	switch {
	case err == nil:
	case p.Homes != p.WorldSize:
		q.Fail("homes", "%s", reason(err))
	default:
		q.Fail("split", "%s", reason(err))
	}
}

// CheckSplit refuses split=locality where a plan has too few lanes for its homes.
func (p *Plan) CheckSplit(plan *shuffle.Plan) error {
	if p.Split == shuffle.Contiguous {
		return nil
	}
	q := &Query{}
	q.failSplit(p, plan.CheckSplit(p.WorldSize, p.Homes))
	return q.Err()
}

// reason returns an error of shuffle without the name of what was tried.
func reason(err error) string {
	_, text, _ := strings.Cut(err.Error(), ": ")
	return text
}

// decodeSelection reads which samples of the dataset a plan delivers.
func (p *Plan) decodeSelection(q *Query) {
	p.Quarantine = q.Digest("quarantine")
	// Programs that build a query may escape the colon.
	if s := strings.NewReplacer("%3A", ":", "%3a", ":").Replace(q.Value("subset")); s != "" {
		digest, name, whole := strings.Cut(s, ":")
		if !whole {
			digest, name = "", s
		}
		switch {
		case whole && !IsDigest(digest):
			q.Fail("subset", "must be a name, or 64 hexadecimal digits in lower case, a colon and a name")
		case !whole && IsDigest(name):
			q.Fail("subset", "a digest wants a colon and a name after it")
		case len(name) > maxSubsetName || !ValidName(name):
			q.Fail("subset", "a name has letters, digits, dot, dash and underscore, at most %d", maxSubsetName)
		default:
			p.Params.Subset = s
		}
	}
	if p.Params.Importance == "" {
		return
	}
	for _, name := range []string{"subset", "quarantine"} {
		if q.Has(name) {
			q.Fail(name, "excludes importance: a snapshot weighs all samples of the dataset")
		}
	}
}

// Check ends the decoding of a query: one refusal for all its faults, or for a generation that is not served.
func (d Dataset) Check(q *Query) error {
	s := q.Value("generation")
	other := s != "" && s != d.Generation
	if other && !IsDigest(s) {
		q.Fail("generation", notADigest)
	}
	if err := q.Err(); err != nil {
		return err
	}
	if other {
		return Refuse(NotFound, "generation %s of dataset %s is not served: the one that is, is %s", s, d.Name, d.Generation)
	}
	return nil
}

// maxFields bounds the names in fields=.
const maxFields = 256

// Form is one way to put the samples of a batch into a body.
type Form struct {
	Name        string // as format= names it
	ContentType string
	Native      bool // the dataset's own: the stored bytes, in its framing
	Fields      bool // parts of samples can be left out
	Table       bool // a table may tell keys and parts
}

// View is how an answer shows its samples: what format=, fields= and table= say.
type View struct {
	Form        Form
	Chosen      bool     // the URL names the form, so Accept does not count
	Fields      []string // the parts that are wanted, in this order; nil: all
	Keys, Parts bool     // what a table tells beside lengths
}

// Plain reports whether a body is made of stored samples in the dataset's own form.
func (v View) Plain() bool { return v.Form.Native && v.Fields == nil }

// decodeView reads how the samples are to be shown.
func decodeView(q *Query, forms []Form) View {
	v := View{Form: forms[0], Chosen: q.Has("format")}
	names := make([]string, len(forms))
	for i, f := range forms {
		names[i] = f.Name
	}
	if name := q.Word("format", "", names...); name != "" {
		v.Form = forms[slices.Index(names, name)]
	}
	v.Fields = q.fields()
	if !v.Chosen {
		v.Form = offers(forms, v.Fields != nil)[0]
	}
	if v.Fields != nil && !v.Form.Fields {
		q.Fail("fields", "has no meaning for format %s", v.Form.Name)
	}
	v.Keys, v.Parts = q.table()
	if q.Has("table") && !v.Form.Table {
		q.Fail("table", "has no meaning for format %s", v.Form.Name)
	}
	return v
}

// DecodeView reads the view of a request that names no plan.
func DecodeView(q *Query, d Dataset) View { return decodeView(q, d.Forms) }

// offers returns the forms to choose from: with fields, those that can leave parts out.
func offers(forms []Form, fields bool) []Form {
	if !fields {
		return forms
	}
	return slices.DeleteFunc(slices.Clone(forms), func(f Form) bool { return !f.Fields })
}

// fields reads a list of part names, in the order in which they are wanted. A name with a comma cannot be among them.
func (q *Query) fields() []string {
	if !q.Has("fields") {
		return nil
	}
	text := q.unescaped("fields") // many clients escape commas
	if q.Failed("fields") {
		return nil
	}
	parts := strings.Split(text, ",")
	if len(parts) > maxFields {
		q.Fail("fields", "more than %d names", maxFields)
		return nil
	}
	names := make([]string, 0, len(parts))
	for _, name := range parts {
		switch {
		case name == "":
			q.Fail("fields", "an empty name")
		case slices.Contains(names, name):
			q.Fail("fields", "%s is given more than once", Bounded(name))
		default:
			names = append(names, name)
		}
	}
	return names
}

// table reads what a table is to tell.
func (q *Query) table() (keys, parts bool) {
	if !q.Has("table") {
		return false, false
	}
	text := q.unescaped("table")
	if q.Failed("table") {
		return false, false
	}
	for word := range strings.SplitSeq(text, ",") {
		switch {
		case word == "keys" && !keys:
			keys = true
		case word == "parts" && !parts:
			parts = true
		default:
			q.Fail("table", "must be keys, parts, or both, each once")
			return keys, parts
		}
	}
	return keys, parts
}

// FieldsParameter writes the part names as fields= takes them.
func (v View) FieldsParameter() string {
	names := make([]string, len(v.Fields))
	for i, name := range v.Fields {
		names[i] = url.QueryEscape(name)
	}
	return strings.Join(names, ",")
}

// TableParameter writes what a table tells as table= takes it.
func (v View) TableParameter() string {
	switch {
	case v.Keys && v.Parts:
		return "keys,parts"
	case v.Keys:
		return "keys"
	case v.Parts:
		return "parts"
	}
	return ""
}

// Negotiate chooses the form that an Accept header likes best, where the URL names none. Of two forms that are liked
// equally it takes the first: the dataset's own before all others.
func (v *View) Negotiate(accept string, forms []Form) error {
	if v.Chosen || v.Keys || v.Parts || strings.Trim(accept, " \t,") == "" { // one form alone has a table
		return nil
	}
	best := 0.0
	all := offers(forms, v.Fields != nil)
	var types []string
	for _, f := range all {
		if q := Quality(accept, f.ContentType); q > best {
			best, v.Form = q, f
		}
		if !slices.Contains(types, f.ContentType) {
			types = append(types, f.ContentType)
		}
	}
	if best == 0 {
		return Refuse(NotAcceptable, "this is served as %s", strings.Join(types, ", "))
	}
	return nil
}

// Quality returns how much an Accept header likes a content type, 0 to 1: the most specific range that covers it counts.
func Quality(accept, contentType string) float64 {
	major, _, _ := strings.Cut(contentType, "/")
	best, q := -1, 0.0
	for media := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(media, ";")
		rank := -1
		switch strings.ToLower(strings.TrimSpace(name)) {
		case contentType:
			rank = 2
		case major + "/*":
			rank = 1
		case "*/*":
			rank = 0
		}
		if rank > best {
			best, q = rank, qValue(params)
		}
	}
	return q
}

// qValue reads q= of media type parameters: 1 where there is none, or none that can be read.
func qValue(params string) float64 {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 1
		}
		return q
	}
	return 1
}
