package address

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/millrace-data/millrace/shuffle"
)

const (
	// formVersion is raised when the gateway writes other bytes around the samples than before. It is part of the ETag
	// of every answer that is not in the dataset's own form.
	formVersion = 1

	// DescriptionVersion is that of the JSON that describes an epoch, a batch or a snapshot. It changes with each field,
	// so that two releases never have one ETag for different bytes.
	DescriptionVersion = 1
)

// ETag is the strong ETag of the batch. It follows from the plan, never from the data.
func (b Batch) ETag() string { return b.etag(string(Body)) }

// BatchesETag is the ETag of an answer with count batches.
func (b Batch) BatchesETag(count uint64) string { return b.etag(fmt.Sprintf("batches %d", count)) }

// DescriptionETag is the ETag of a description: what names it among those of the batch or the epoch.
func (b Batch) DescriptionETag(what string) string {
	return b.etag(fmt.Sprintf("%s description %d", what, DescriptionVersion))
}

func (b Batch) etag(what string) string {
	if !b.View.Plain() {
		what = fmt.Sprintf("%s form %d", what, formVersion)
	}
	return quoted(fmt.Appendf(nil, "millrace %s\norder %d\n%d\n%d\n%s\n", what, shuffle.OrderVersion, b.Epoch, b.Number, b.Canonical()))
}

// ETag follows from the generation, the number of the sample and the form.
func (s Sample) ETag(number uint64) string {
	text := fmt.Appendf(nil, "millrace sample\n%s\n%d\n", s.Generation, number)
	if v := s.View; !v.Plain() {
		text = fmt.Appendf(text, "form %d %s\n%s\n%s\n", formVersion, v.Form.Name, v.FieldsParameter(), v.TableParameter())
	}
	return quoted(text)
}

// quoted is the SHA-256 of a text as an entity tag.
func quoted(text []byte) string {
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}
