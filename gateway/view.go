package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxFields bounds the names in fields=.
const maxFields = 256

// view is how an answer shows its samples: what format=, fields= and table= say.
type view struct {
	form        *form
	chosen      bool     // the URL names the form, whatever Accept says
	fields      []string // the parts that are wanted, in this order; nil: all
	keys, parts bool     // what a table tells beside lengths
}

// plain says whether a body is no more than stored samples in the dataset's own form.
func (v view) plain() bool { return v.form.native && v.fields == nil }

// decodeView reads how a dataset is to be shown.
func decodeView(q *query, d *dataset) view {
	v := view{form: d.forms[0], chosen: q.has("format")}
	if name := q.word("format", "", formNames(d.forms)...); name != "" {
		v.form = d.form(name)
	}
	v.fields = q.fields()
	if !v.chosen {
		v.form = d.offers(v.fields != nil)[0]
	}
	if v.fields != nil && !v.form.fields {
		q.fail("fields", "has no meaning for format %s", v.form.name)
	}
	v.keys, v.parts = q.table()
	if q.has("table") && !v.form.table {
		q.fail("table", "has no meaning for format %s", v.form.name)
	}
	return v
}

// form returns the form of this name, nil for one that the dataset does not have.
func (d *dataset) form(name string) *form {
	for _, f := range d.forms {
		if f.name == name {
			return f
		}
	}
	return nil
}

// offers lists the forms of a dataset: with fields those that can leave parts out.
func (d *dataset) offers(fields bool) []*form {
	if !fields {
		return d.forms
	}
	return slices.DeleteFunc(slices.Clone(d.forms), func(f *form) bool { return !f.fields })
}

// fields reads a list of names, in the order in which they are wanted. A name that has a comma cannot be among them.
func (q *query) fields() []string {
	if !q.has("fields") {
		return nil
	}
	text, err := url.QueryUnescape(q.values["fields"]) // many a client escapes commas
	if err != nil {
		q.fail("fields", "bad escape")
		return nil
	}
	parts := strings.Split(text, ",")
	if len(parts) > maxFields {
		q.fail("fields", "more than %d names", maxFields)
		return nil
	}
	names := make([]string, 0, len(parts))
	for _, name := range parts {
		switch {
		case name == "":
			q.fail("fields", "an empty name")
		case slices.Contains(names, name):
			q.fail("fields", "%s is given more than once", bounded(name))
		default:
			names = append(names, name)
		}
	}
	return names
}

// table reads what a table is to tell.
func (q *query) table() (keys, parts bool) {
	if !q.has("table") {
		return false, false
	}
	text, err := url.QueryUnescape(q.values["table"])
	if err != nil {
		q.fail("table", "bad escape")
		return false, false
	}
	for word := range strings.SplitSeq(text, ",") {
		switch {
		case word == "keys" && !keys:
			keys = true
		case word == "parts" && !parts:
			parts = true
		default:
			q.fail("table", "must be keys, parts, or both, each once")
			return keys, parts
		}
	}
	return keys, parts
}

// fieldsParameter writes the names as fields= takes them.
func (v view) fieldsParameter() string {
	names := make([]string, len(v.fields))
	for i, name := range v.fields {
		names[i] = url.QueryEscape(name)
	}
	return strings.Join(names, ",")
}

// tableParameter writes what a table tells as table= takes it.
func (v view) tableParameter() string {
	switch {
	case v.keys && v.parts:
		return "keys,parts"
	case v.keys:
		return "keys"
	case v.parts:
		return "parts"
	}
	return ""
}

// negotiate chooses the form that an Accept header likes best, where the URL names none. Of two that it likes alike the first is
// taken: the dataset's own before all others.
func (p *planRequest) negotiate(r *http.Request) error {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if p.view.chosen || strings.Trim(accept, " \t,") == "" {
		return nil
	}
	best := 0.0
	offers := p.dataset.offers(p.view.fields != nil)
	if p.view.keys || p.view.parts {
		return nil // only one form has a table
	}
	for _, f := range offers {
		if q := quality(accept, f.contentType); q > best {
			best, p.view.form = q, f
		}
	}
	if best == 0 {
		return &problem{Status: http.StatusNotAcceptable, Code: codeNotAcceptable, Detail: "this is served as " + acceptable(offers)}
	}
	return nil
}

// quality is how much an Accept header likes a content type: what the most specific range says that covers it.
func quality(accept, contentType string) float64 {
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
			best, q = rank, weight(params)
		}
	}
	return q
}

// weight reads q= of media type parameters: 1 where there is none, or none that can be read.
func weight(params string) float64 {
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
