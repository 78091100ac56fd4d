package address

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/shuffle"
)

// A Group is a set of plan parameters that are parsed and omitted together. Groups are combined
// with |.
type Group uint8

// Groups of plan parameters.
const (
	Order    Group = 1 << iota // the order in which an epoch delivers samples
	Choice                     // the samples that an epoch delivers
	Batching                   // the division of an epoch into global batches
	Sharing                    // the sharing of a global batch among ranks
	Rank                       // the rank
	Showing                    // the form of samples in a body

	allGroups = Order | Choice | Batching | Sharing | Rank | Showing
)

// A Parameter is one row of the table of plan parameters. Parsing, canonical URLs, the limit on the
// number of parameters, command-line flags, the clients and the OpenAPI document are derived from
// it. A row has Words, or bounds, or a text value.
type Parameter struct {
	Name    string // name in URLs
	Group   Group
	Least   uint64   // minimum of a number
	Most    uint64   // maximum of a number
	Words   []string // allowed words
	Pattern string   // regular expression for a text
	Longest int      // maximum length of a text in bytes; 0: limited only by the URL
	Neutral string   // value that canonical URLs omit, so that adding the parameter changes no existing URL

	Help string // one line, for flags
	Doc  string // text for the OpenAPI document and the Python client; "": use Help

	read  func(q *Query, r *Parameter, p *Plan, d Dataset) // called after all rows above; it may use their values
	write func(p Plan) string                              // value as text; "": not applicable in this plan
}

// Parameters returns the table in the order in which parameters are parsed.
func Parameters() []Parameter { return slices.Clone(parameters) }

// NamesOf returns the names of the parameters in some groups.
func NamesOf(groups Group) []string {
	names := make([]string, 0, len(parameters)+8) // room for the caller's own names
	for i := range parameters {
		if parameters[i].Group&groups != 0 {
			names = append(names, parameters[i].Name)
		}
	}
	return names
}

// PlanNames returns the parameters that determine the batches.
func PlanNames() []string { return NamesOf(Order | Choice | Batching) }

// EpochNames returns the parameters of an epoch.
func EpochNames() []string { return NamesOf(allGroups) }

// BatchNames returns the parameters of a single batch.
func BatchNames() []string { return append(EpochNames(), skip.Name) }

// SamplesNames returns the parameters of samples by position.
func SamplesNames() []string { return append(NamesOf(Order|Choice|Showing), "at") }

const (
	digestPattern = "[0-9a-f]{64}"
	namePattern   = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
	placesPattern = "samples:[0-9,-]+"
	costPattern   = costPrefix + "(" + namePattern + "|" + digestPattern + "(," + digestPattern + ")*)"
	partPattern   = namePattern + "=[1-9][0-9]{0,9}"
	stepPattern   = "(" + partPattern + "(," + partPattern + ")*:" + namePattern + "(:" + namePattern + ")?|" + placesPattern + ")"
	subsetPattern = "((" + digestPattern + ":)?" + namePattern + "|" + stepPattern + ")(~" + stepPattern + "){0,3}"
)

//go:generate go test -count=1 -run TestParameters_OtherLanguagesHaveTheTable -update .

var parameters = []Parameter{
	{
		Name: "batch_size", Group: Batching, Least: 1, Most: maxBatchSize,
		Help:  "samples per global batch (default the dataset's)",
		read:  func(q *Query, r *Parameter, p *Plan, d Dataset) { p.BatchSize = q.number(r, d.Defaults.BatchSize) },
		write: func(p Plan) string { return decimal(p.BatchSize) },
	},
	{
		Name: "seed", Group: Order, Most: math.MaxUint64,
		Help:  "seed of the shuffle (default the dataset's)",
		Doc:   "Seed of the order. With shuffle=none every seed has the same order.",
		read:  func(q *Query, r *Parameter, p *Plan, d Dataset) { p.Params.Seed = q.number(r, d.Defaults.Seed) },
		write: func(p Plan) string { return decimal(p.Params.Seed) },
	},
	{
		Name: "shuffle", Group: Order, Words: []string{shuffle.None, shuffle.Window, shuffle.Slot, shuffle.Full},
		Help:  "shuffle algorithm (default the dataset's)",
		read:  func(q *Query, r *Parameter, p *Plan, d Dataset) { p.Params.Shuffle = q.word(r, d.Defaults.Shuffle) },
		write: func(p Plan) string { return p.Params.Shuffle },
	},
	{
		Name: "window", Group: Order, Least: 1, Most: maxWindow,
		Help: "chunks (shuffle window) or lanes (slot) mixed at a time (default the dataset's)",
		Doc:  "Chunks that shuffle=window mixes together, or lanes of shuffle=slot, at most 1048576. Refused with none and full.",
		read: readWindow,
		write: func(p Plan) string {
			if !shuffle.UsesWindow(p.Params.Shuffle) {
				return ""
			}
			return decimal(p.Params.Window)
		},
	},
	{
		Name: "strata", Group: Order, Most: shuffle.MaxStrata, Neutral: "0",
		Help:  "number of strata: sets of chunks with equal shares of a window (default none)",
		Doc:   "Strata that the chunks are dealt to, with shuffle=window: each row takes one chunk of each. A divisor of window; 0: none.",
		read:  readStrata,
		write: func(p Plan) string { return decimal(p.Params.Strata) },
	},
	{
		Name: "importance", Group: Choice, Pattern: digestPattern,
		Help:  "draw samples by the weights in this snapshot (default none)",
		Doc:   "Snapshot of weights that an epoch's samples are drawn by: 64 hexadecimal digits.",
		read:  func(q *Query, r *Parameter, p *Plan, _ Dataset) { p.Params.Importance = q.Digest(r.Name) },
		write: func(p Plan) string { return p.Params.Importance },
	},
	{
		Name: "tail", Group: Batching, Words: []string{string(shuffle.Short), string(shuffle.Drop), string(shuffle.Pad)},
		Help:  "handling of an incomplete last batch (default the dataset's)",
		Doc:   "Samples that fill no batch at the end: short is a smaller last batch, drop leaves them out, pad repeats others.",
		read:  func(q *Query, r *Parameter, p *Plan, d Dataset) { p.Tail = shuffle.Tail(q.word(r, d.Defaults.Tail)) },
		write: func(p Plan) string { return string(p.Tail) },
	},
	{
		Name: "bucket", Group: Batching, Least: 1, Most: shuffle.MaxBlock, Neutral: "1",
		Help: "batches in a block, within which each has samples of similar cost (default 1)",
		Doc: "Batches of a block. The samples of a block are sorted by the costs of balance, by default their lengths, so that a batch has " +
			"samples of similar cost. A block has at most 1048576 samples.",
		read: func(q *Query, r *Parameter, p *Plan, _ Dataset) {
			if p.Bucket = q.number(r, 1); p.Bucket > 1 && p.Bucket > shuffle.MaxBlock/p.BatchSize && !q.Failed("batch_size") {
				q.Fail(r.Name, "must be at most %d: a block has at most %d samples", max(1, shuffle.MaxBlock/p.BatchSize), shuffle.MaxBlock)
			}
		},
		write: func(p Plan) string { return decimal(max(p.Bucket, 1)) },
	},
	{
		Name: "world_size", Group: Sharing, Least: 1, Most: maxWorldSize,
		Help:  "ranks that share each batch (default 1)",
		read:  func(q *Query, r *Parameter, p *Plan, _ Dataset) { p.WorldSize = q.number(r, 1) },
		write: func(p Plan) string { return decimal(p.WorldSize) },
	},
	{
		Name: "rank", Group: Rank, Most: maxWorldSize - 1,
		Help: "rank whose share is read (default 0)",
		Doc:  "Number of the rank, from 0 and below world_size.",
		read: func(q *Query, r *Parameter, p *Plan, _ Dataset) {
			if p.Rank = q.number(r, 0); p.Rank >= p.WorldSize {
				q.Fail(r.Name, "must be below world_size")
			}
		},
		write: func(p Plan) string { return decimal(p.Rank) },
	},
	{
		Name: "balance", Group: Sharing, Pattern: balanceSamples + "|" + costBytes + "|" + costPattern, Neutral: balanceSamples,
		Help: "quantity of equal shares: samples, bytes or cost:NAME (default samples)",
		Doc: "samples: shares of equal numbers (default). bytes: shares of about equal size, by the lengths of the stored samples. " +
			"cost:NAME: shares of about equal cost, by the cost table with this name or digest.",
		read:  readBalance,
		write: func(p Plan) string { return p.Balance },
	},
	{
		Name: "micro", Group: Sharing, Least: 1, Most: maxMicro, Neutral: "1",
		Help: "micro-batches of about equal cost in each share (default 1)",
		Doc:  "Micro-batches that the samples of a share are divided among by the costs of balance. A share has them one after another.",
		read: func(q *Query, r *Parameter, p *Plan, _ Dataset) {
			if p.Micro = q.number(r, 1); p.Micro > 1 && !p.Balances() && !q.Failed("balance") {
				q.Fail(r.Name, "requires balance=bytes or balance=cost:NAME")
			}
		},
		write: func(p Plan) string { return decimal(max(p.Micro, 1)) },
	},
	{
		Name: "share", Group: Sharing, Words: []string{shareContiguous, string(shuffle.Locality)}, Neutral: shareContiguous,
		Help: "how a batch is divided among ranks (default contiguous)",
		Doc: "contiguous: a rank's samples follow each other in the batch (default); locality: a rank gets the samples of the lanes or strata " +
			"at home with its group, so that its gateway reads only their chunks.",
		read: func(q *Query, r *Parameter, p *Plan, _ Dataset) {
			if word := q.word(r, r.Neutral); word != r.Neutral {
				p.Sharing = shuffle.Sharing(word)
			}
		},
		write: func(p Plan) string { return cmp.Or(string(p.Sharing), shareContiguous) },
	},
	{
		Name: "homes", Group: Sharing, Least: 1, Most: maxHomes,
		Help: "for share=locality, gateways that serve the ranks (default the world size)",
		Doc:  "With share=locality, how many groups the ranks form, such as the number of gateways: at most world_size, which is the default.",
		read: readHomes,
		write: func(p Plan) string {
			if p.Homes == p.WorldSize {
				return ""
			}
			return decimal(p.Homes)
		},
	},
	{
		Name: "subset", Group: Choice, Pattern: subsetPattern, Longest: maxSubsetText,
		Help: "subset to read: NAME or DIGEST:NAME (default all samples)",
		Doc: "Subset to deliver: its name in the generation's default split; DIGEST:NAME of another split; a split by hash and one of its " +
			"parts, such as train=9,val=1:train, optionally with a colon and a salt; or samples: and numbers in stored order, such as " +
			"samples:0-999. A tilde and another split or numbers select among the subset's samples.",
		read: func(q *Query, r *Parameter, p *Plan, _ Dataset) {
			if q.Has(r.Name) {
				p.Params.Subset = q.subset(r.Name)
				p.refuseWeighted(q, r)
			}
		},
		write: func(p Plan) string { return p.Params.Subset },
	},
	{
		Name: "quarantine", Group: Choice, Pattern: digestPattern + "|" + placesPattern,
		Help: "list of bad samples to replace (default none)",
		Doc:  "Bad samples that healthy ones replace: the digest of a stored list, or samples: and numbers, such as samples:7,300-309.",
		read: func(q *Query, r *Parameter, p *Plan, _ Dataset) {
			if q.Has(r.Name) {
				p.Quarantine = q.quarantine(r.Name)
				p.refuseWeighted(q, r)
			}
		},
		write: func(p Plan) string { return p.Quarantine },
	},
	{
		Name: "generation", Group: Choice, Pattern: digestPattern + "(," + digestPattern + ")*|[0-9a-f]{32}",
		Help: "generation to require (default the current one)",
		Doc: "Generation of the index to read, or its first 32 digits; for a mixture that the URL defines, those of its sources in order, " +
			"separated by commas. All ranks of a job must use the same.",
		read: func(q *Query, r *Parameter, p *Plan, _ Dataset) {
			p.Pinned = q.Has(r.Name) && (p.Params.Subset == "" || SubsetNamesItsData(p.Params.Subset))
		},
		write: func(p Plan) string { return p.Generation },
	},
	{
		Name: "format", Group: Showing, Pattern: "[a-z][a-z0-9]*",
		Help:  "format of the batches (default the dataset's)",
		Doc:   "Form of the body, one of the dataset's. The default follows Accept, otherwise the dataset's own.",
		read:  readForm,
		write: func(p Plan) string { return p.View.Form.Name },
	},
	{
		Name: "fields", Group: Showing,
		Help:  "parts of samples to read (default all)",
		Doc:   "Parts of the samples to keep, in this order, separated by commas.",
		read:  readFields,
		write: func(p Plan) string { return p.View.FieldsParameter() },
	},
	{
		Name: "table", Group: Showing, Pattern: "keys|parts|keys,parts|parts,keys",
		Help: "columns of the table of format framed: keys, parts or both (default lengths only)",
		Doc:  "Columns of the framed form's table in addition to lengths: keys, parts or both, separated by commas.",
		read: func(q *Query, r *Parameter, p *Plan, _ Dataset) {
			p.View.Keys, p.View.Parts = q.table()
			if q.Has(r.Name) && !p.View.Form.Table {
				q.Fail(r.Name, "has no meaning for format %s", p.View.Form.Name)
			}
		},
		write: func(p Plan) string { return p.View.TableParameter() },
	},
}

// skip is a parameter of a single batch. The table does not contain it, because a plan has none.
var skip = Parameter{Name: "skip", Group: Rank, Most: maxBatchSize - 1, Neutral: "0", write: func(p Plan) string { return decimal(p.Skip) }}

// byName is the table with skip, in the order of canonical URLs.
var byName = slices.SortedFunc(slices.Values(append(Parameters(), skip)), func(a, b Parameter) int { return cmp.Compare(a.Name, b.Name) })

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// number returns the value of a row with bounds, or def if it is missing.
func (q *Query) number(r *Parameter, def uint64) uint64 {
	return q.Number(r.Name, def, r.Least, r.Most)
}

// word returns the value of a row with words, or def if it is missing.
func (q *Query) word(r *Parameter, def string) string { return q.Word(r.Name, def, r.Words...) }

// DecodePlan decodes the parameters of a query, with a dataset's defaults.
func DecodePlan(q *Query, d Dataset) Plan {
	p := Plan{Dataset: d.Name, Generation: d.Generation}
	p.decode(q, d, allGroups)
	return p
}

// DecodeOrder decodes the order of all samples of a dataset, with the given defaults.
func DecodeOrder(q *Query, d chunkindex.Defaults) shuffle.Params {
	var p Plan
	p.decode(q, Dataset{Defaults: d}, Order)
	return p.Params
}

// DecodeView decodes the view of a request without a plan.
func DecodeView(q *Query, d Dataset) View {
	var p Plan
	p.decode(q, d, Showing)
	return p.View
}

func (p *Plan) decode(q *Query, d Dataset, groups Group) {
	for i := range parameters {
		if r := &parameters[i]; r.Group&groups != 0 {
			r.read(q, r, p, d)
		}
	}
}

func readWindow(q *Query, r *Parameter, p *Plan, d Dataset) {
	most := r.Most
	if p.Params.Shuffle == shuffle.Slot {
		most = shuffle.MaxLanes
	}
	window := q.Number(r.Name, d.Defaults.Window, r.Least, most)
	if shuffle.UsesWindow(p.Params.Shuffle) {
		p.Params.Window = window
	} else if q.Has(r.Name) {
		q.Fail(r.Name, "has no meaning for shuffle %s", p.Params.Shuffle)
	}
}

func readStrata(q *Query, r *Parameter, p *Plan, _ Dataset) {
	p.Params.Strata = q.number(r, 0)
	if err := p.Params.Check(); err != nil && p.Params.Strata != 0 && !q.Failed("shuffle", "window", r.Name) {
		q.Fail(r.Name, "%s", reason(err))
	}
}

// readBalance reads the quantity of equal shares. Plans.Complete replaces the name of a cost table by
// its digest.
func readBalance(q *Query, r *Parameter, p *Plan, _ Dataset) {
	p.Balance = cmp.Or(q.unescaped(r.Name), r.Neutral)
	tables, ok := p.CostTables()
	ok = ok && (validPart(tables) || !slices.ContainsFunc(strings.Split(tables, ","), func(t string) bool { return !IsDigest(t) }))
	if !ok && p.Balance != balanceSamples && p.Balance != costBytes {
		q.Fail(r.Name, "must be samples, bytes, or cost: and the name of a cost table, of at most 64 letters, digits, dots, dashes and underscores, "+
			"or its digest; of a mixture, a digest for each source")
		p.Balance = r.Neutral
	}
}

// readHomes reports faults of sharing that the parameters alone determine. The number of lanes in a
// slot order depends on the dataset.
func readHomes(q *Query, r *Parameter, p *Plan, _ Dataset) {
	p.Homes = q.number(r, p.WorldSize)
	switch {
	case p.Sharing == shuffle.Contiguous:
		if q.Has(r.Name) {
			q.Fail(r.Name, "has no meaning without share=locality")
		}
	case p.Balances():
		q.Fail("share", "locality and balance=%s exclude each other", Bounded(p.Balance))
	case p.Homes > r.Most:
		q.Fail("share", "locality for more than %d ranks requires homes, at most %[1]d", r.Most)
	case p.Homes > p.WorldSize:
		if !q.Failed(r.Name, "world_size") {
			q.Fail(r.Name, "must be at most world_size")
		}
	case p.Params.Shuffle != shuffle.Slot && !q.Failed("shuffle", "window", "strata", "world_size"):
		params := p.Params
		params.Importance = ""
		plan, err := shuffle.NewPlan(params, []uint64{0})
		if err == nil {
			err = plan.CheckSharing(p.WorldSize, p.Homes)
		}
		q.failSharing(p, err)
	}
}

// failSharing reports a fault for homes if the request sets it, otherwise for share.
func (q *Query) failSharing(p *Plan, err error) {
	switch {
	case err == nil:
	case p.Homes != p.WorldSize:
		q.Fail("homes", "%s", reason(err))
	default:
		q.Fail("share", "%s", reason(err))
	}
}

// refuseWeighted rejects a choice of samples in combination with importance.
func (p *Plan) refuseWeighted(q *Query, r *Parameter) {
	if p.Params.Importance != "" {
		q.Fail(r.Name, "excludes importance: a snapshot has weights of all samples of the dataset")
	}
}

// readForm selects the first form if none is given. readFields corrects it if fields are given.
func readForm(q *Query, r *Parameter, p *Plan, d Dataset) {
	names := make([]string, len(d.Forms))
	for i, f := range d.Forms {
		names[i] = f.Name
	}
	p.View = View{Form: d.Forms[0], Chosen: q.Has(r.Name)}
	if name := q.Word(r.Name, "", names...); name != "" {
		p.View.Form = d.Forms[slices.Index(names, name)]
	}
}

func readFields(q *Query, r *Parameter, p *Plan, d Dataset) {
	v := &p.View
	v.Fields = q.fields()
	if !v.Chosen {
		v.Form = offers(d.Forms, v.Fields != nil)[0]
	}
	if v.Fields != nil && !v.Form.Fields {
		q.Fail(r.Name, "has no meaning for format %s", v.Form.Name)
	}
}

// Canonical returns the query string with every parameter, in byte order of the names. It omits
// parameters that do not apply to the plan, or have their neutral value.
func (p Plan) Canonical() string { return p.canonical(allGroups) }

// Identity returns the canonical order of a plan, independent of readers and sharing. Losses with
// the same identity are merged.
func (p Plan) Identity() string {
	text := p.canonical(Order | Choice | Batching)
	if p.Bucket > 1 {
		text += "&cost=" + p.Cost()
	}
	return text
}

// canonical returns the query string like Canonical, with only the parameters in some groups.
func (p Plan) canonical(groups Group) string {
	b := make([]byte, 0, 256)
	for r, value := range p.written {
		if r.Group&groups == 0 {
			continue
		}
		if len(b) > 0 {
			b = append(b, '&')
		}
		b = append(append(append(b, r.Name...), '='), value...)
	}
	return string(b)
}

// written yields the parameters of the canonical URL in order, with their values as text.
func (p Plan) written(yield func(r *Parameter, value string) bool) {
	for i := range byName {
		r := &byName[i]
		if value := r.write(p); value != "" && value != r.Neutral && !yield(r, value) {
			return
		}
	}
}

// Values returns the canonical parameters for JSON: numbers as numbers, except those that may
// exceed 2^53, which are strings.
func (p Plan) Values() map[string]any {
	values := map[string]any{}
	for r, value := range p.written {
		values[r.Name] = value
		if n, err := strconv.ParseUint(value, 10, 64); err == nil && r.isExact() {
			values[r.Name] = n
		}
	}
	return values
}

// isExact reports whether JSON parsers represent all values of the parameter exactly.
func (r *Parameter) isExact() bool { return 0 < r.Most && r.Most <= 1<<53 }
