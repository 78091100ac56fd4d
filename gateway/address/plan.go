package address

import (
	"net/url"
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
	maxWindow    = 1 << 31

	// maxHomes bounds the homes of share=locality: the work to share out a batch grows with them.
	maxHomes = 1 << 16

	// MaxPositions bounds the samples that one URL names by their positions. With the longest numbers they fill a URL.
	MaxPositions = 1024

	// maxSubsetName bounds the name of a subset, in bytes.
	maxSubsetName = 64
)

// The values of the parameter balance: what the shares of a global batch are equal in.
const (
	BalanceSamples = "samples" // each rank takes a contiguous run of positions; neutral, so no URL holds it
	BalanceBytes   = "bytes"   // the samples are dealt to the ranks by length (docs/spec/order.md)
)

// shareContiguous is the neutral value of the parameter share, which no URL holds: each rank takes a contiguous run
// of the global batch. The other value is shuffle.Locality.
const shareContiguous = "contiguous"

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
	Quarantine string // digest of a list of bad samples, or the list itself; "": none
	Samples    uint64 // of an epoch; the index, the subset or the mixture says how many, not the URL
	BatchSize  uint64 // of the global batch
	Tail       shuffle.Tail
	Rank       uint64
	WorldSize  uint64
	Balance    string
	Sharing    shuffle.Sharing
	Homes      uint64 // of share=locality: as many as groups of ranks
	View       View
	Pinned     bool // the URL fixes all data: it names the generation, and the split of a subset by its digest
}

// CheckSharing refuses share=locality where a plan has too few lanes for its homes.
func (p *Plan) CheckSharing(plan *shuffle.Plan) error {
	if p.Sharing == shuffle.Contiguous {
		return nil
	}
	q := &Query{}
	q.failSharing(p, plan.CheckSharing(p.WorldSize, p.Homes))
	return q.Err()
}

// reason returns an error of shuffle without the name of what was tried.
func reason(err error) string {
	_, text, _ := strings.Cut(err.Error(), ": ")
	return text
}

// maxFields bounds the names in fields=.
const maxFields = 256

// Form is one way to put the samples of a batch into a body.
type Form struct {
	Name        string // as format= names it
	ContentType string
	Also        string // another media type that stands for this form in Accept; "": none
	Native      bool   // the dataset's own: the stored bytes, in its framing
	Fields      bool   // parts of samples can be left out
	Table       bool   // a table may tell keys and parts
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

// offers returns the forms to choose from: with fields, those that can leave parts out.
func offers(forms []Form, fields bool) []Form {
	if !fields {
		return forms
	}
	return slices.DeleteFunc(slices.Clone(forms), func(f Form) bool { return !f.Fields })
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
		return Refuse(NotAcceptable, "this is served as %s", strings.Join(types, ", "))
	}
	return nil
}

// Names reports whether an Accept header names a content type itself, not by a range, and takes it.
func Names(accept, contentType string) bool {
	for media := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(media, ";")
		if strings.EqualFold(strings.TrimSpace(name), contentType) && qValue(params) > 0 {
			return true
		}
	}
	return false
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
