// Package occurrences finds the batches of a job that contained a sample, and the ranks that got
// it. It needs the URL of one of the job's batches, which names the plan, and the sample's key. It
// asks a gateway, or opens the index that the plan names. It reads no data.
package occurrences

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/inventory"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/reach"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/words"
)

// Question asks in which batches of some epochs a sample occurs. A URL names the plan.
type Question struct {
	URL        string // URL of a batch or an epoch, as in Content-Location; or GATEWAY/NAME for the default plan
	Key, Shard string
	Epochs     string // for example 3 or 0-9

	Retrying func(error) // see client.Config
}

// Answer lists the occurrences of the sample.
type Answer struct {
	Occurrences []plans.Occurrence `json:"occurrences"`
	Plan        plans.EpochInfo    `json:"-"` // of the first epoch, from an index
}

// Check returns the first fault of a question to an index (offline), or to the gateway of its URL.
func (q Question) Check(offline bool) error {
	_, values, ok := q.plan()
	_, _, isGateway := location.Served(q.URL, "")
	first, _, _ := strings.Cut(values.Get("generation"), ",") // those of the sources of a mixture
	switch {
	case !ok:
		return errors.New("must be GATEWAY/NAME or the URL of a batch or an epoch, such as a response's Content-Location")
	case values == nil && offline:
		return errors.New("--offline requires the URL of a batch or an epoch, which names the generation")
	case values != nil && !address.IsDigest(first):
		return errors.New("the URL has no generation: use the Content-Location of a response")
	case q.Key == "":
		return errors.New("--key KEY is required")
	case q.Epochs == "":
		return errors.New("--epochs N-N is required")
	case !offline && !isGateway:
		return errors.New("the URL has no gateway: add it, or --offline DATASET")
	}
	return nil
}

// Answer answers the question: from the indexes at locations, or from the gateway of the URL if
// there are none.
func (q Question) Answer(ctx context.Context, s *location.Stores, from []location.Location) (a Answer, err error) {
	if len(from) > 0 {
		return q.find(ctx, s, from)
	}
	gateway, _, _ := location.Served(q.URL, "")
	err = reach.With(ctx, client.Config{Gateways: []string{gateway}, Retrying: q.Retrying}, func(c *client.Client) (err error) {
		a, err = q.ask(ctx, c)
		return err
	})
	return a, err
}

// plan returns the dataset and the parameters that the URL names. GATEWAY/NAME has no parameters.
func (q Question) plan() (dataset string, values url.Values, ok bool) {
	dataset, query, ok := address.DatasetOf(q.URL)
	if !ok {
		_, dataset, ok = location.Served(q.URL, "")
		return dataset, nil, ok && !strings.ContainsAny(dataset, "/?")
	}
	values, err := url.ParseQuery(query)
	return dataset, values, err == nil
}

// query returns the dataset and the query of the URL.
func (q Question) query() (dataset string, ask url.Values) {
	dataset, values, _ := q.plan() // Check has already reported an invalid URL
	ask = url.Values{}
	maps.Copy(ask, values)
	for name := range ask {
		if !slices.Contains(plans.OccurrenceNames(), name) { // rank and form do not matter
			ask.Del(name)
		}
	}
	ask.Set("key", q.Key)
	if q.Shard != "" {
		ask.Set("shard", q.Shard)
	}
	ask.Set("epochs", q.Epochs)
	return dataset, ask
}

// ask sends the question to a gateway.
func (q Question) ask(ctx context.Context, c *client.Client) (a Answer, err error) {
	dataset, ask := q.query()
	if dataset == "" {
		if dataset, err = c.DatasetName(ctx); err != nil {
			return a, err
		}
	}
	err = c.JSON(ctx, "/v1/datasets/"+dataset+"/occurrences", ask, &a)
	return a, err
}

// find answers from the indexes of the generations that the URL names. Its errors have the same text
// as those of a gateway.
func (q Question) find(ctx context.Context, s *location.Stores, from []location.Location) (a Answer, err error) {
	name, values := q.query()
	all := plans.New(unlimitedMemory{})
	all.Allow(keptPlans)
	defer func() { err = errors.Join(err, all.Close()) }()
	d, done, err := open(ctx, s, from, all, name, strings.Split(values.Get("generation"), ","))
	defer done()
	if err != nil {
		return a, err
	}
	ask := address.ParseQuery(values.Encode(), plans.OccurrenceNames()...)
	sought := plans.DecodeOccurrenceQuery(ask, d.Address)
	if err := d.Address.Check(ask); err != nil {
		return a, err
	}
	n, err := inventory.FindSample(ctx, d.Index, q.Key, q.Shard)
	if err != nil {
		return a, err
	}
	var held plans.Holds
	defer held.Drop()
	if err := all.Complete(ctx, d, &sought.Plan); err != nil {
		return a, err
	}
	if a.Plan, err = all.Describe(ctx, &held, d, address.Batch{Plan: sought.Plan, Epoch: sought.In.First}); err != nil {
		return a, err
	}
	if a.Occurrences, err = all.Occurrences(ctx, &held, d, sought.Plan, n, sought.In); err != nil || !sought.Ranked {
		return a, err
	}
	return a, body.AddRanks(ctx, all, d, sought.Plan, a.Occurrences)
}

// open opens the dataset of a URL, at one location, or the sources of a mixture at the locations
// with their names. done closes the opened indexes, also after an error.
func open(ctx context.Context, s *location.Stores, from []location.Location, all *plans.Plans, name string, generations []string) (d *plans.Dataset, done func(), err error) {
	var opened []func()
	done = func() {
		for _, end := range opened {
			end()
		}
	}
	m, mixed := address.Mixture{Sources: []address.Source{{Dataset: name}}}, address.IsMixture(name)
	if mixed {
		if m, err = address.ParseMixture(name); err != nil {
			return nil, done, err
		}
	}
	var parts []*plans.Dataset
	for i, source := range m.Sources {
		at := slices.IndexFunc(from, func(l location.Location) bool { return !mixed || l.Name == source.Dataset })
		if at < 0 || len(generations) != len(m.Sources) {
			return nil, done, fmt.Errorf("the URL names a mixture: name the dataset of each source, with --offline %s=DATASET", source.Dataset)
		}
		d, end, err := openOne(ctx, s, from[at], source.Dataset, generations[i])
		if err != nil {
			return nil, done, err
		}
		parts, opened = append(parts, d), append(opened, end)
	}
	if mixed {
		d, err = all.Mix(ctx, m, parts, body.Forms)
		return d, done, err
	}
	return parts[0], done, nil
}

// openOne opens the dataset at a location.
func openOne(ctx context.Context, s *location.Stores, l location.Location, name, generation string) (*plans.Dataset, func(), error) {
	x, err := s.OpenIndex(ctx, l, chunkindex.OpenOptions{Generation: generation})
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, nil, fmt.Errorf("generation %.12s is not stored at %s: %w", generation, l, objstore.ErrNotFound)
	}
	if err != nil {
		return nil, nil, err
	}
	d := plans.NewDataset(name, x.Index, body.Forms(x.Index))
	d.Selection, err = x.Selections()
	if err == nil {
		d.Importance, err = importance.New(importance.Config{Reader: x.Home, Prefix: l.OfIndex().Prefix})
	}
	if err != nil {
		x.Close()
	}
	return d, x.Close, err
}

// keptPlans is the memory in bytes for plans that are kept from one epoch to the next, the same as
// a gateway's default.
const keptPlans = 64 << 20

// unlimitedMemory is the memory of a program that answers one question and so has no budget. It is
// also every reservation of that memory.
type unlimitedMemory struct{}

// Reserve grants every request.
func (unlimitedMemory) Reserve(context.Context, int64) (func(), error) { return func() {}, nil }

// Hold grants every request.
func (m unlimitedMemory) Hold(context.Context, int64) (plans.Reservation, error) { return m, nil }

// Shrink does nothing, since nothing was reserved.
func (unlimitedMemory) Shrink(int64) {}

// Release does nothing, since nothing was reserved.
func (unlimitedMemory) Release() {}

// Print writes the answer as text.
func (a Answer) Print(w io.Writer) {
	ranked := slices.ContainsFunc(a.Occurrences, func(o plans.Occurrence) bool { return o.Rank != nil })
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "epoch\tbatch\tposition"
	if ranked {
		head += "\trank"
	}
	if len(a.Occurrences) > 0 {
		fmt.Fprintln(t, head)
	}
	for _, o := range a.Occurrences {
		fmt.Fprintf(t, "%d\t%d\t%d", o.Epoch, o.Batch, o.Position)
		if o.Rank != nil {
			fmt.Fprint(t, "\t"+strconv.FormatUint(*o.Rank, 10))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	fmt.Fprintf(w, "the sample comes %s in these epochs\n", words.Count(len(a.Occurrences), "time", "times"))
}
