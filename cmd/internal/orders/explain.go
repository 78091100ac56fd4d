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

// Explanation is a gateway's description of a plan, with the origin of the samples of one batch.
type Explanation struct {
	Batch   *uint64         `json:"batch"` // nil: of no batch
	Plan    map[string]any  `json:"plan"`  // as the gateway writes it, with numbers as json.Number
	Samples []client.Sample `json:"samples"`
}

// Explain asks for the plan of an epoch, and for the manifest of one of its batches unless batch is nil.
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
	numbers.UseNumber() // an epoch may be beyond what a float64 tells apart
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

// Print writes it for people. gateway goes before links, so that they can be opened as they are.
func (e *Explanation) Print(w io.Writer, gateway string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	printFields(t, "", gateway, e.Plan)
	t.Flush()
	if e.Batch == nil {
		return
	}
	fmt.Fprintf(w, "\nbatch %d: %s\n", *e.Batch, words.Count(len(e.Samples), "sample", "samples"))
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "position\tshard\toffset\tlength\tcrc32c\tkey")
	for _, s := range e.Samples {
		fmt.Fprintf(t, "%d\t%s\t%d\t%d\t%08x\t%s\n", s.Position, words.Printable(fmt.Sprint(s.Shard)), s.Offset, s.Length, uint32(s.CRC32C), words.Printable(s.Key))
	}
	t.Flush()
}

// printFields prints an object, its keys in order, one value a line: that of a nested object as links.self.
func printFields(w io.Writer, above, gateway string, m map[string]any) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		v := m[k]
		switch x := v.(type) {
		case map[string]any:
			printFields(w, above+k+".", gateway, x)
			continue
		case json.Number:
			if n, whole := new(big.Int).SetString(x.String(), 10); whole {
				v = humanize.BigComma(n)
			}
		case string:
			if strings.HasPrefix(x, "/") {
				v = gateway + x
			}
		}
		fmt.Fprintf(w, "%s%s\t%v\n", above, k, v)
	}
}
