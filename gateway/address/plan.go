package address

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/shuffle"
)

// Limits of parameters that are multiplied with each other: far above any real value, far below
// overflow.
const (
	maxBatchSize = 1 << 31
	maxWorldSize = 1 << 31
	maxWindow    = 1 << 31

	// maxHomes bounds the homes of share=locality, because the work to share a batch grows with
	// them.
	maxHomes = 1 << 16

	// MaxPositions bounds the positions in one URL. This number of the longest positions fills
	// a URL.
	MaxPositions = 1024

	// maxMicro bounds the micro-batches of a share.
	maxMicro = 1024

	// maxSubsetName bounds the name of a subset in bytes.
	maxSubsetName = 64
)

// Values of the parameter balance: the quantity that is equal in all shares of a global batch.
const (
	balanceSamples = "samples" // each rank gets a contiguous run of positions; neutral value, so URLs omit it
	costBytes      = "bytes"   // samples are divided among the ranks by length (docs/spec/order.md)
	costPrefix     = "cost:"   // they are divided by a cost table, whose name or digest follows
)

// shareContiguous is the neutral value of the parameter share, which URLs omit: each rank gets a
// contiguous run of the global batch. The other value is shuffle.Locality.
const shareContiguous = "contiguous"

// Dataset has the properties of a dataset that parsing a URL requires.
type Dataset struct {
	Name       string
	Generation string
	Defaults   chunkindex.Defaults // defaults of missing parameters
	Forms      []Form              // forms of its batches, its own first
}

// Plan is a resolved plan: every parameter has a value, from the URL or from the dataset's
// defaults.
type Plan struct {
	Dataset    string // name
	Generation string
	Params     shuffle.Params
	Quarantine string // digest of a list of bad samples, or the list itself; "": none
	Samples    uint64 // samples of an epoch, from the index, subset or mixture rather than the URL
	BatchSize  uint64 // size of the global batch
	Tail       shuffle.Tail
	Bucket     uint64 // number of global batches of a block, which is sorted by cost; 0 counts as 1
	Rank       uint64
	WorldSize  uint64
	Skip       uint64 // samples at the start of a single batch that are not read
	Balance    string
	Micro      uint64 // number of micro-batches of a share; 0 counts as 1
	Sharing    shuffle.Sharing
	Homes      uint64 // number of groups of ranks for share=locality
	View       View
	Pinned     bool // the URL determines all data: it has the generation, and the digest of a subset's split
}

// CheckSharing rejects share=locality if a plan has too few lanes for its homes.
func (p *Plan) CheckSharing(plan *shuffle.Plan) error {
	if p.Sharing == shuffle.Contiguous {
		return nil
	}
	q := &Query{}
	q.failSharing(p, plan.CheckSharing(p.WorldSize, p.Homes))
	return q.Err()
}

// reason returns the text of a shuffle error without its prefix.
func reason(err error) string {
	_, text, _ := strings.Cut(err.Error(), ": ")
	return text
}

// maxFields bounds the number of names in fields=.
const maxFields = 256

// Form is a body format for batches.
type Form struct {
	Name        string // value of format=
	ContentType string
	Also        string // another media type in Accept that selects this form; "": none
	Native      bool   // the dataset's own form: the stored bytes with their framing
	Fields      bool   // supports fields=
	Table       bool   // supports table=
}

// View is the presentation of samples in a response, from format=, fields= and table=.
type View struct {
	Form        Form
	Chosen      bool     // the URL sets the form, so Accept is ignored
	Fields      []string // parts to include, in this order; nil: all
	Keys, Parts bool     // columns of the table in addition to lengths
}

// Plain reports whether a body consists of stored samples in the dataset's own form.
func (v View) Plain() bool { return v.Form.Native && v.Fields == nil }

// offers returns the available forms; if the request sets fields=, only the forms that support it.
func offers(forms []Form, fields bool) []Form {
	if !fields {
		return forms
	}
	return slices.DeleteFunc(slices.Clone(forms), func(f Form) bool { return !f.Fields })
}

// FieldsParameter returns the value of fields=.
func (v View) FieldsParameter() string {
	names := make([]string, len(v.Fields))
	for i, name := range v.Fields {
		names[i] = url.QueryEscape(name)
	}
	return strings.Join(names, ",")
}

// TableParameter returns the value of table=.
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

// Negotiate selects the form that an Accept header prefers, unless the URL sets one. Of several
// preferred forms it selects the first; the dataset's own form precedes all others.
func (v *View) Negotiate(accept string, forms []Form) error {
	if v.Chosen || v.Keys || v.Parts || strings.Trim(accept, " \t,") == "" { // only one form has a table
		return nil
	}
	best := 0.0
	all := offers(forms, v.Fields != nil)
	var types []string
	for _, f := range all {
		q := Quality(accept, f.ContentType)
		if f.Also != "" && Names(accept, f.Also) {
			q = max(q, Quality(accept, f.Also))
		}
		if q > best {
			best, v.Form = q, f
		}
		if !slices.Contains(types, f.ContentType) {
			types = append(types, f.ContentType)
		}
	}
	if best == 0 {
		return Refuse(NotAcceptable, "available as %s", strings.Join(types, ", "))
	}
	return nil
}

// Names reports whether an Accept header contains and accepts a content type. It ignores ranges
// such as text/*.
func Names(accept, contentType string) bool {
	rank, q := quality(accept, contentType)
	return rank == exact && q > 0
}

// Quality returns the quality of a content type or coding in an Accept header, 0 to 1. The most
// specific matching range counts.
func Quality(accept, contentType string) float64 {
	_, q := quality(accept, contentType)
	return q
}

// exact is the rank of a range that is the content type itself.
const exact = 2

// quality returns the quality of a content type, and the rank of the range that it is from.
func quality(accept, contentType string) (best int, q float64) {
	major, _, _ := strings.Cut(contentType, "/")
	best = -1
	for media := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(media, ";")
		rank := slices.Index([]string{"*/*", major + "/*", contentType}, strings.ToLower(strings.TrimSpace(name)))
		switch {
		case rank > best:
			best, q = rank, qValue(params)
		case rank == best && rank >= 0:
			q = max(q, qValue(params))
		}
	}
	return best, q
}

// qValue returns the q= of media type parameters, or 1 if it is missing or invalid.
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
