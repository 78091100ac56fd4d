package address

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/shuffle"
)

// Batch is the address of one rank's share of a global batch.
type Batch struct {
	Plan
	Epoch  uint64 // number of the epoch, from 0
	Number uint64 // number of the batch in its epoch, from 0

	// At has the positions of a batch that the caller composes. nil: the batch is a share of the
	// epoch.
	At []uint64
}

// Batches returns the number of batches in the epoch, or 1 for a batch that the caller composes.
func (b Batch) Batches() uint64 {
	if b.At != nil {
		return 1
	}
	return b.Batching().Batches()
}

// CheckEnd rejects a batch or positions past the end of the epoch, and the omission of a whole
// batch.
func (b Batch) CheckEnd() error {
	for _, at := range b.At {
		if at >= b.Samples {
			return RefuseParameter("at", "%d is past the end: the epoch has %d samples, at positions from 0", at, b.Samples)
		}
	}
	n := b.Batches()
	if b.Number < n {
		if whole := b.WholeBatch(); b.Skip > 0 && b.Skip >= whole.Count {
			return RefuseParameter(skip.Name, "must be below %d, the samples in the batch", whole.Count)
		}
		return nil
	}
	r := Refuse(EndOfEpoch, "the epoch has %d batches, numbered from 0", n)
	r.Batches = &n
	return r
}

// Batching returns the division of an epoch into global batches.
func (p Plan) Batching() shuffle.Batching {
	return shuffle.Batching{Samples: p.Samples, BatchSize: p.BatchSize, Tail: p.Tail, Skip: p.Skip}
}

// Buckets returns the division of an epoch into blocks of batches. ok is false if there are none.
func (p Plan) Buckets() (b shuffle.Buckets, ok bool) {
	return shuffle.Buckets{Batches: p.Bucket, BatchSize: p.BatchSize, Samples: p.Samples}, p.Bucket > 1
}

// Cost returns the name of the costs of balance and bucket, as order digests have it: bytes, or the
// digests of the cost tables of all sources, separated by commas.
func (p Plan) Cost() string {
	if tables, ok := p.CostTables(); ok {
		return tables
	}
	return costBytes
}

// CostTables returns the name of a cost table in balance, or the digests of the tables of all
// sources, separated by commas. ok is false if costs are the lengths of the samples.
func (p Plan) CostTables() (tables string, ok bool) { return strings.CutPrefix(p.Balance, costPrefix) }

// SetCostTables sets the digests of the cost tables of all sources.
func (p *Plan) SetCostTables(digests []string) { p.Balance = costPrefix + strings.Join(digests, ",") }

// WholeBatch returns all positions of the global batch, including those that the request omits.
func (b Batch) WholeBatch() shuffle.Share {
	b.Skip = 0
	return b.Batching().Share(b.Number, 0, 1)
}

// Balances reports whether the samples of a global batch are divided by their costs.
func (p Plan) Balances() bool { return p.Balance != "" && p.Balance != balanceSamples }

// Follows reports whether shares follow homes. With one home the shares are contiguous.
func (p Plan) Follows() bool { return p.Sharing == shuffle.Locality && p.Homes > 1 }

// Scattered reports whether a rank's share is not a contiguous run of the global batch.
func (p Plan) Scattered() bool { return p.Balances() || p.Follows() }

// Division returns a text that identifies the division of the global batch by costs, which is the
// same for all ranks and any number of micro-batches.
func (b Batch) Division() string {
	b.Micro = 1
	return fmt.Sprintf("batch %d of epoch %d from %d by %s", b.Number, b.Epoch, b.Skip, b.canonical(Order|Choice|Batching|Sharing))
}

// Global returns the positions of the global batch that the request reads.
func (b Batch) Global() shuffle.Share { return b.Batching().Share(b.Number, 0, 1) }

// Share returns the rank's share of the global batch, and the positions that determine the share.
// For a scattered share these are the positions of the whole global batch; the share has no First,
// and its padding is known only after the samples are located. The number of samples in a balanced
// share depends on their costs; Share returns that of the whole batch, which bounds it. Positions
// from the caller count as a share without First.
func (b Batch) Share() (share, positions shuffle.Share) {
	if b.At != nil {
		share.Count = uint64(len(b.At))
		return share, share
	}
	share = b.Batching().Share(b.Number, b.Rank, b.WorldSize)
	if !b.Scattered() {
		return share, share
	}
	positions = b.Global()
	if b.Balances() {
		share.Count = positions.Count
	}
	return shuffle.Share{First: positions.First, Count: share.Count}, positions
}

// query returns the canonical query of a batch. For positions from the caller it omits batching and
// sharing, which do not affect them.
func (b Batch) query() string {
	if b.At == nil {
		return b.Canonical()
	}
	at := make([]string, len(b.At))
	for i, n := range b.At {
		at[i] = strconv.FormatUint(n, 10)
	}
	return "at=" + strings.Join(at, ",") + "&" + b.canonical(Order|Choice|Showing)
}

// EpochURL returns the canonical URL of an epoch.
func (p Plan) EpochURL(epoch uint64) string {
	return fmt.Sprintf("/v1/datasets/%s/epochs/%d?%s", p.Dataset, epoch, p.Canonical())
}

// A Resource is a resource of a batch.
type Resource string

// The resources of a batch.
const (
	Body     Resource = "batch"
	Manifest Resource = "manifest"
)

// URL returns the canonical URL of a resource of the given batch of this epoch. Only the batch
// itself may be incomplete.
func (b Batch) URL(r Resource, batch uint64) string {
	if batch != b.Number {
		b.Skip = 0
	}
	suffix := ""
	if r == Manifest {
		suffix = "/manifest"
	}
	if b.At != nil {
		return fmt.Sprintf("/v1/datasets/%s/epochs/%d/samples%s?%s", b.Dataset, b.Epoch, suffix, b.query())
	}
	return fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d%s?%s", b.Dataset, b.Epoch, batch, suffix, b.Canonical())
}

// BatchesURL returns the canonical URL of count consecutive batches.
func (b Batch) BatchesURL(from, count uint64) string {
	return fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches?%s&from=%d&count=%d", b.Dataset, b.Epoch, b.Canonical(), from, count)
}

// Sample identifies a sample by its key and, if several shards have the key, by the shard.
type Sample struct {
	Dataset    string
	Generation string
	Key        string
	Shard      string
	View       View
}

// URL returns the canonical URL of the sample.
func (s Sample) URL() string {
	u := "/v1/datasets/" + s.Dataset + "/sample?"
	if s.View.Fields != nil {
		u += "fields=" + s.View.FieldsParameter() + "&"
	}
	if !s.View.Plain() {
		u += "format=" + s.View.Form.Name + "&"
	}
	u += "generation=" + s.Generation + "&key=" + url.QueryEscape(s.Key)
	if s.Shard != "" {
		u += "&shard=" + url.QueryEscape(s.Shard)
	}
	if t := s.View.TableParameter(); t != "" {
		u += "&table=" + t
	}
	return u
}

const (
	// formVersion is part of the ETag of every response that is not in the dataset's own form.
	// It must be incremented when the bytes of a form change.
	formVersion = 1

	// DescriptionVersion is the version of the JSON that describes an epoch, a batch or a snapshot.
	// It must change with each field, so that two releases never use one ETag for different bytes.
	DescriptionVersion = 1
)

// ETag returns the strong ETag of the batch. It depends on the plan, never on the data.
func (b Batch) ETag() string { return b.etag(string(Body)) }

// BatchesETag returns the ETag of a response with count batches.
func (b Batch) BatchesETag(count uint64) string { return b.etag(fmt.Sprintf("batches %d", count)) }

// DescriptionETag returns the ETag of a description. what distinguishes descriptions of the same
// batch or epoch.
func (b Batch) DescriptionETag(what string) string {
	return b.etag(fmt.Sprintf("%s description %d", what, DescriptionVersion))
}

func (b Batch) etag(what string) string {
	if !b.View.Plain() {
		what = fmt.Sprintf("%s form %d", what, formVersion)
	}
	if IsMixture(b.Dataset) { // the generation identifies the sources, but not their shares
		what += " of " + b.Dataset
	}
	return quoted(fmt.Appendf(nil, "millrace %s\norder %d\n%d\n%d\n%s\n", what, shuffle.OrderVersion, b.Epoch, b.Number, b.query()))
}

// ETag returns the ETag of the sample. It depends on the generation, the sample's number and the
// form.
func (s Sample) ETag(number uint64) string {
	text := fmt.Appendf(nil, "millrace sample\n%s\n%d\n", s.Generation, number)
	if v := s.View; !v.Plain() {
		text = fmt.Appendf(text, "form %d %s\n%s\n%s\n", formVersion, v.Form.Name, v.FieldsParameter(), v.TableParameter())
	}
	return quoted(text)
}

// quoted returns the SHA-256 of a text as an entity tag.
func quoted(text []byte) string {
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}
