package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/mds"
	"github.com/millrace-data/millrace/chunkindex/webdataset"
)

// The forms that an answer may have beside the dataset's own one, as format= names them.
const (
	formMultipart = "multipart"
	formNDJSON    = "ndjson"
	formNPY       = "npy"
	formArrow     = "arrow"
	formFramed    = "framed"

	contentTar = "application/x-tar"
)

// formVersion is raised when the gateway writes other bytes around the samples than before: it is part of the ETag of every
// answer that is not in the dataset's own form.
const formVersion = 1

// form is one way to put samples into a body. It lays out pieces from what the index says, and reads nothing.
type form struct {
	name        string
	contentType string
	native      bool  // the dataset's own: the stored bytes, in its framing
	fields      bool  // it can leave parts of samples out
	table       bool  // it has a table that may tell more
	partText    int64 // bytes that it takes to place one part, about
	lay         func(ctx context.Context, a *answering, l *located) error
}

// answering is what a form is laid out for.
type answering struct {
	dataset *dataset
	view    view
	etag    string
}

// contentType is that of the body.
func (a *answering) contentType() string {
	if a.view.form.name == formMultipart {
		return a.view.form.contentType + "; boundary=" + boundaryOf(a.etag)
	}
	return a.view.form.contentType
}

// formsOf lists the forms of a dataset, its own first.
func formsOf(d Dataset) []*form {
	x := d.Index
	tar := &form{name: webdataset.Name, contentType: contentTar, fields: true, partText: 1 << 10, lay: layTar}
	own := tar
	if f := x.Framing(); f != nil && x.Native() != webdataset.Name {
		own = &form{name: x.Native(), contentType: f.ContentType(), lay: layNative}
	}
	own.native = true
	all := []*form{own}
	if own != tar {
		all = append(all, tar)
	}
	all = append(all, &form{name: formMultipart, contentType: "multipart/mixed", fields: true, partText: 512, lay: layMultipart})
	if own.name == "jsonl" {
		all = append(all, &form{name: formNDJSON, contentType: "application/x-ndjson", lay: layNative})
	}
	if _, isArray := x.Framing().(format.Array); isArray {
		all = append(all, &form{name: formNPY, contentType: "application/x-npy", lay: layNPY})
	}
	if own.name != mds.Name {
		all = append(all, &form{name: mds.Name, contentType: contentMDS, fields: true, partText: 64, lay: layMDS})
	}
	return append(all,
		&form{name: formArrow, contentType: "application/vnd.apache.arrow.stream", fields: true, partText: 128, lay: layArrow},
		&form{name: formFramed, contentType: "application/vnd.millrace.framed", fields: true, table: true, partText: 64, lay: layFramed})
}

// formNames lists the names of some forms.
func formNames(all []*form) []string {
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = f.name
	}
	return names
}

// formBytes is about what it takes to lay out the body of so many samples, beyond what their own form takes.
func (p planRequest) formBytes(samples uint64) int64 {
	if p.view.plain() {
		return 0
	}
	const perSample, bytesOfPart = 256, 20 // a part takes more than 16 bytes of an index, beside its name
	x := p.dataset.Index
	parts := 1 + x.Size()/max(1, int64(x.Samples()))/bytesOfPart
	return int64(samples) * (perSample + parts*p.view.form.partText)
}

// lay lays the samples of l out in the form that was asked for, and measures the body.
func (g *Gateway) lay(ctx context.Context, x *exchange, a *answering, l *located) error {
	defer x.log.spent(phaseLay, time.Now())
	l.pieces, l.text = l.pieces[:0], l.text[:0]
	if err := a.view.form.lay(ctx, a, l); err != nil {
		return err
	}
	if err := l.checkText(0); err != nil {
		return err
	}
	g.measure(l)
	return nil
}

// unframed is the answer for a batch that a form has no numbers for.
func unframed(err error) *problem {
	return &problem{Status: http.StatusBadRequest, Code: codeBatchTooLarge, Detail: err.Error(), Cause: err}
}

// layNative puts the stored samples into the dataset's own framing.
func layNative(_ context.Context, a *answering, l *located) error {
	before, after, err := a.dataset.Index.Framing().Frame(l.lengths)
	if err != nil {
		return unframed(err)
	}
	l.put(before...)
	l.whole()
	l.put(after...)
	return nil
}

// acceptable lists the content types of some forms, for whoever wants another one.
func acceptable(all []*form) string {
	var types []string
	for _, f := range all {
		if !slices.Contains(types, f.contentType) {
			types = append(types, f.contentType)
		}
	}
	return strings.Join(types, ", ")
}
