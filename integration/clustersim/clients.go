package clustersim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/integration/history"
	"github.com/millrace-data/millrace/shuffle"
)

// clients records the responses that the ranks of a run received, in a log of package history.
type clients struct {
	log  *history.Log
	data *Data

	mu     sync.Mutex // guards the fields below
	shares map[string][]uint64
	events []history.Event // without bodies
}

func newClients(d *Data) *clients {
	c := &clients{data: d, shares: map[string][]uint64{}}
	c.log = history.New(c)
	return c
}

// address returns the URL of a reader's request, and records the samples that the plan has for it.
func (c *clients) address(at shuffle.Cursor, samples []uint64) string {
	address := fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d?generation=%s&rank=%d&world_size=%d",
		c.data.Name, at.Epoch.Number(), at.First/at.BatchSize, c.data.Index.Generation(), at.Rank, at.WorldSize)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shares[address] = samples
	return address
}

// Batch implements history.Plan.
func (c *clients) Batch(address string) (body []byte, names []string, err error) {
	c.mu.Lock()
	samples, ok := c.shares[address]
	c.mu.Unlock()
	if !ok {
		return nil, nil, errors.New("no reader asked for it")
	}
	for _, n := range samples {
		body, names = append(body, c.data.sample(n)...), append(names, strconv.FormatUint(n, 10))
	}
	return body, names, nil
}

// Samples implements history.Plan.
func (c *clients) Samples() []string {
	all := make([]string, c.data.Index.Samples())
	for n := range all {
		all[n] = strconv.Itoa(n)
	}
	return all
}

// add adds an event to the log.
func (c *clients) add(e history.Event) {
	c.log.Add(e)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e.WithoutBody())
}

// answer returns the event of a gateway's response to a rank's request, which began at start.
func (r *run) answer(rank uint64, gateway int, address string, start time.Time, body *batch.Body, err error) history.Event {
	e := history.Event{Client: fmt.Sprintf("rank %d at gateway %d", rank, gateway), URL: address, Start: start, End: time.Now()}
	switch {
	case err == nil:
		var all []byte
		for _, s := range body.Segments {
			all = append(all, s...)
		}
		e.Outcome, e.Generation = history.Whole, r.history.Data.Index.Generation()
		return e.WithBody(all)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), kindOf(err) == "down", kindOf(err) == "reset":
		e.Outcome = history.Broken
	default:
		e.Outcome = history.Refused
	}
	e.Reason = kindOf(err)
	return e
}

// jobOf returns the name of an epoch's job in the log.
func jobOf(epoch uint64) string { return fmt.Sprint("epoch ", epoch) }
