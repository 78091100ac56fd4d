package body

import (
	"context"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
)

// Names in format= of the forms in addition to the dataset's own.
const (
	formMultipart = "multipart"
	formNDJSON    = "ndjson"
	formNPY       = "npy"
	formArrow     = "arrow"
	formFramed    = "framed"
	formRows      = "rows"

	contentTar    = "application/x-tar"
	contentNDJSON = "application/x-ndjson"
	contentRows   = "application/vnd.millrace.rows"
)

// SharedType is the media type of a body in shared memory: a framed table whose samples are there,
// or nothing if all of an Arrow stream is.
const SharedType = "application/vnd.millrace.shared"

// Shares reports whether the body may be in shared memory.
func (a Answer) Shares() bool { return a.View.Form.Table || a.View.Form.Name == formArrow }

// Forms lists the forms of a dataset, its own first.
func Forms(x plans.Index) []address.Form {
	tar := address.Form{Name: framing.Tar, ContentType: contentTar, Fields: true}
	own := tar
	switch f := x.Framing(); {
	case f == nil || x.Native() == framing.Tar:
	case f.ContentType() == contentRows: // available for any file format of the rows
		own = address.Form{Name: formRows, ContentType: contentRows}
	default:
		own = address.Form{Name: x.Native(), ContentType: f.ContentType()}
	}
	own.Native = true
	all := []address.Form{own}
	if own.Name != tar.Name {
		all = append(all, tar)
	}
	all = append(all, address.Form{Name: formMultipart, ContentType: "multipart/mixed", Fields: true})
	if own.ContentType == contentNDJSON {
		all = append(all, address.Form{Name: formNDJSON, ContentType: contentNDJSON})
	}
	if _, isArray := x.Framing().(format.Array); isArray {
		all = append(all, address.Form{Name: formNPY, ContentType: "application/x-npy"})
	}
	if own.Name != framing.MDS {
		all = append(all, address.Form{Name: framing.MDS, ContentType: contentMDS, Fields: true})
	}
	return append(all,
		address.Form{Name: formArrow, ContentType: "application/vnd.apache.arrow.stream", Fields: true},
		address.Form{Name: formFramed, ContentType: "application/vnd.millrace.framed", Also: SharedType, Fields: true, Table: true})
}

// layout lays out bodies in a form. It reads only the index.
type layout struct {
	layOut  func(ctx context.Context, b *Body, a Answer) error
	perPart int64 // estimated memory to lay out one part, in bytes
}

// layoutOf returns the layout of a form.
func layoutOf(f address.Form) layout {
	switch {
	case f.Name == framing.Tar:
		return layout{layOutTar, 1 << 10}
	case f.Native || f.Name == formNDJSON:
		return layout{layOutNative, 0}
	case f.Name == formNPY:
		return layout{layOutNPY, 0}
	case f.Name == framing.MDS:
		return layout{layOutMDS, 64}
	case f.Name == formMultipart:
		return layout{layOutMultipart, 512}
	case f.Name == formArrow:
		return layout{layOutArrow, 128}
	}
	return layout{layOutFramed, 96}
}

// Answer describes the response that a body is laid out for.
type Answer struct {
	Dataset *plans.Dataset
	View    address.View
	ETag    string
}

// shows reports whether the form contains the keys and the parts of samples. fields lists the
// parts; nil: all parts.
func (a Answer) shows() (keys, parts bool, fields []string) {
	v := a.View
	switch {
	case layoutOf(v.Form).perPart == 0 || a.storedTar():
		return false, false, nil
	case v.Form.Name == formFramed:
		return v.Keys, v.Parts || v.Fields != nil, v.Fields
	}
	return true, true, v.Fields
}

// storedTar reports whether the body is a tar of samples that are stored as tar members.
func (a Answer) storedTar() bool {
	x := a.Dataset.Index
	return a.View.Form.Name == framing.Tar && a.View.Fields == nil && x.Framing() != nil && x.Native() == framing.Tar
}

// ContentType returns the media type of the body.
func (a Answer) ContentType() string {
	if a.View.Form.Name == formMultipart {
		return a.View.Form.ContentType + "; boundary=" + boundaryOf(a.ETag)
	}
	return a.View.Form.ContentType
}

// LayOut lays out the located samples in the form of the response, and measures the body.
func (b *Body) LayOut(ctx context.Context, a Answer) error {
	b.pieces, b.text, b.table = b.pieces[:0], b.text[:0], 0
	if err := layoutOf(a.View.Form).layOut(ctx, b, a); err != nil {
		return err
	}
	if err := b.checkText(0); err != nil {
		return err
	}
	b.measure()
	return nil
}

// unframed returns the refusal of a batch whose numbers exceed the limits of a form.
func unframed(err error) error { return address.Refuse(address.TooLarge, "%v", err).Because(err) }

// layOutNative lays out stored samples in the dataset's own framing.
func layOutNative(_ context.Context, b *Body, a Answer) error {
	before, after, err := a.Dataset.Index.Framing().Frame(b.lengths)
	if err != nil {
		return unframed(err)
	}
	b.put(before...)
	b.whole()
	b.put(after...)
	return nil
}
