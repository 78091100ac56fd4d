package gateway

import (
	"net/http"

	"github.com/millrace-data/millrace/chunkindex"
)

// lay lays the samples of l out in the dataset's own form, and measures the body.
func (g *Gateway) lay(x *chunkindex.Index, l *located) error {
	l.pieces, l.text = l.pieces[:0], l.text[:0]
	before, after, err := x.Framing().Frame(l.lengths)
	if err != nil {
		return &problem{Status: http.StatusBadRequest, Code: codeBatchTooLarge, Detail: err.Error()}
	}
	l.put(before...)
	l.whole()
	l.put(after...)
	g.measure(l)
	return nil
}
