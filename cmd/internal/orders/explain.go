package orders

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/words"
)

// Explanation is a gateway's description of a plan, with the source of each sample of one batch.
type Explanation struct {
	Batch   *uint64         `json:"batch"` // nil: no batch was requested
	Plan    map[string]any  `json:"plan"`  // unchanged from the gateway, with numbers as json.Number
	Samples []client.Sample `json:"samples"`
}

// Explain requests the plan of an epoch, and the manifest of one of its batches unless batch is
// nil.
func Explain(ctx context.Context, c *client.Client, opt client.Options, batch *uint64) (*Explanation, error) {
	name, err := c.DatasetName(ctx)
	if err != nil {
		return nil, err
	}
	at := client.EpochPath(name, opt.Epoch)
	var answer json.RawMessage
	if err := c.JSON(ctx, at, opt.Query(), &answer); err != nil {
		return nil, err
	}
	e := &Explanation{Batch: batch}
	numbers := json.NewDecoder(bytes.NewReader(answer))
	numbers.UseNumber() // an epoch may exceed the precision of float64
	if err := numbers.Decode(&e.Plan); err != nil {
		return nil, fmt.Errorf("read %s: %w", at, err)
	}
	if batch != nil {
		err = c.JSON(ctx, fmt.Sprintf("%s/batches/%d/manifest", at, *batch), opt.Query(), &struct {
			Samples *[]client.Sample `json:"samples"`
		}{&e.Samples})
	}
	return e, err
}

// labels returns the first rows of an explanation in order: field and label. Other fields follow under their own names.
func labels() [][2]string {
	return [][2]string{
		{"dataset", "dataset"}, {"epoch", "epoch"}, {"samples", "samples"}, {"batches", "batches"}, {"bytes", "size"},
		{"parameters.shuffle", "shuffle"}, {"parameters.window", "window"}, {"parameters.seed", "seed"}, {"parameters.batch_size", "batch size"},
		{"chunk_reads", "chunks to read"}, {"first_batch_chunks", "chunks of batch 0"}, {"window_memory", "memory to mix"},
		{"expected_batch_variance", "variance by chunk"}, {"expected_batch_variance_10", "variance, 10 classes"}, {"expected_batch_variance_100", "variance, 100 classes"},
		{"links.batch", "batch 0"}, {"links.self", "this plan"},
	}
}

// Print writes the explanation for people. gateway completes links.
func (e *Explanation) Print(w io.Writer, gateway string) {
	rows := map[string]string{}
	collect(rows, "", gateway, e.Plan)
	delete(rows, "links.draws")
	delete(rows, "plan_digests") // for states of runs
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range labels() {
		if v, ok := rows[l[0]]; ok {
			fmt.Fprintf(t, "%s\t%s\n", l[1], v)
			delete(rows, l[0])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(t, "%s\t%s\n", strings.ReplaceAll(strings.TrimPrefix(k, "parameters."), "_", " "), rows[k])
	}
	t.Flush()
	if e.Batch != nil {
		e.printSamples(w)
	}
}

// printSamples prints the samples of the batch, after a summary of their shards.
func (e *Explanation) printSamples(w io.Writer) {
	samples, bytes := map[string]int{}, map[string]uint64{}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "position\tkey\tshard\toffset\tlength\tcrc32c")
	for _, s := range e.Samples {
		shard := words.Printable(fmt.Sprint(s.Shard))
		samples[shard]++
		bytes[shard] += uint64(s.Length)
		fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%d\t%08x\n", s.Position, words.Printable(s.Key), shard, s.Offset, s.Length, uint32(s.CRC32C))
	}
	fmt.Fprintf(w, "\nbatch %d: %s from %s\n", *e.Batch, words.Count(len(e.Samples), "sample", "samples"), words.Count(len(samples), "shard", "shards"))
	for _, shard := range slices.Sorted(maps.Keys(samples)) {
		fmt.Fprintf(w, "  %s: %s, %s\n", shard, words.Count(samples[shard], "sample", "samples"), humanize.IBytes(bytes[shard]))
	}
	fmt.Fprintln(w)
	t.Flush()
}

// collect adds the values of an object to rows. Of a nested object it adds the link in links.self.
func collect(rows map[string]string, above, gateway string, m map[string]any) {
	for k, v := range m {
		text := fmt.Sprint(v)
		switch x := v.(type) {
		case map[string]any:
			collect(rows, above+k+".", gateway, x)
			continue
		case json.Number:
			if n, whole := new(big.Int).SetString(x.String(), 10); whole && (k == "bytes" || k == "window_memory") {
				text = humanize.BigIBytes(n)
			} else if whole {
				text = humanize.BigComma(n)
			}
		case string:
			if strings.HasPrefix(x, "/") {
				text = gateway + x
			}
		}
		rows[above+k] = text
	}
}
