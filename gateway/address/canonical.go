package address

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/shuffle"
)

// Canonical is the query string with every parameter written out, names in byte order. It leaves out a parameter that
// has no meaning for the shuffle. It also leaves out a parameter that was added after the first release where it has
// its neutral value, so that old URLs stay valid.
func (p Plan) Canonical() string {
	b := make([]byte, 0, 256)
	add := func(name, value string) {
		if len(b) > 0 {
			b = append(b, '&')
		}
		b = append(b, name...)
		b = append(b, '=')
		b = append(b, value...)
	}
	num := func(n uint64) string { return strconv.FormatUint(n, 10) }
	if p.Balance == BalanceBytes {
		add("balance", p.Balance)
	}
	add("batch_size", num(p.BatchSize))
	if p.View.Fields != nil {
		add("fields", p.View.FieldsParameter())
	}
	add("format", p.View.Form.Name)
	add("generation", p.Generation)
	if p.Homes != p.WorldSize {
		add("homes", num(p.Homes))
	}
	if p.Params.Importance != "" {
		add("importance", p.Params.Importance)
	}
	if p.Quarantine != "" {
		add("quarantine", p.Quarantine)
	}
	add("rank", num(p.Rank))
	add("seed", num(p.Params.Seed))
	add("shuffle", p.Params.Shuffle)
	if p.Split != shuffle.Contiguous {
		add("split", string(p.Split))
	}
	if p.Params.Strata != 0 {
		add("strata", num(p.Params.Strata))
	}
	if t := p.View.TableParameter(); t != "" {
		add("table", t)
	}
	if p.Params.Subset != "" {
		add("subset", p.Params.Subset)
	}
	add("tail", string(p.Tail))
	if UsesWindow(p.Params.Shuffle) {
		add("window", num(p.Params.Window))
	}
	add("world_size", num(p.WorldSize))
	return string(b)
}

// Identity names the order of a plan, whoever reads it and however it is shared out. Losses of one identity are
// folded together.
func (p Plan) Identity() string {
	var kept []string
	for part := range strings.SplitSeq(p.Canonical(), "&") {
		name, _, _ := strings.Cut(part, "=")
		if !slices.Contains([]string{"balance", "fields", "format", "homes", "rank", "split", "table", "world_size"}, name) {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "&")
}

// EpochURL is the canonical address of an epoch.
func (p Plan) EpochURL(epoch uint64) string {
	return fmt.Sprintf("/v1/datasets/%s/epochs/%d?%s", p.Dataset, epoch, p.Canonical())
}

// A Resource is something that a gateway has to say of a batch.
type Resource string

// The resources of a batch.
const (
	Body     Resource = "batch"
	Manifest Resource = "manifest"
)

// URL is the canonical address of a resource of a batch of this epoch.
func (b Batch) URL(r Resource, batch uint64) string {
	suffix := ""
	if r == Manifest {
		suffix = "/manifest"
	}
	return fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d%s?%s", b.Dataset, b.Epoch, batch, suffix, b.Canonical())
}

// BatchesURL is the canonical address of count batches from one on.
func (b Batch) BatchesURL(from, count uint64) string {
	return fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches?%s&from=%d&count=%d", b.Dataset, b.Epoch, b.Canonical(), from, count)
}

// Sample names one sample: by its key and, where several shards have the key, by the shard.
type Sample struct {
	Dataset    string
	Generation string
	Key        string
	Shard      string
	View       View
}

// URL is the canonical address of the sample.
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
