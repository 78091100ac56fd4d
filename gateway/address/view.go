package address

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

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
