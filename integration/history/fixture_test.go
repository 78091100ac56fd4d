package history

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// toy is a dataset of a few samples. Each generation and epoch has its own order.
type toy struct {
	samples, batch int
	unmixed        bool // stored order in each epoch
}

func name(s int) string { return fmt.Sprintf("sample-%03d", s) }

func (d toy) Samples() (all []string) {
	for s := range d.samples {
		all = append(all, name(s))
	}
	return all
}

func (d toy) batches() int { return (d.samples + d.batch - 1) / d.batch }

func (d toy) url(generation string, epoch, batch, rank, world int) string {
	return register(fmt.Sprintf("/v1/datasets/toy/epochs/%d/batches/%d?generation=%s&rank=%d&world_size=%d", epoch, batch, generation, rank, world))
}

func (d toy) Batch(address string) (body []byte, samples []string, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, err
	}
	var n [4]int
	parts := strings.Split(u.Path, "/")
	if parts[1] != "v1" {
		return nil, nil, errors.ErrUnsupported
	}
	for i, text := range []string{parts[5], parts[7], u.Query().Get("rank"), u.Query().Get("world_size")} {
		if n[i], err = strconv.Atoi(text); err != nil {
			return nil, nil, err
		}
	}
	epoch, m, rank, world := n[0], n[1], n[2], n[3]
	order := rand.New(rand.NewPCG(uint64(epoch), 7)).Perm(d.samples)
	from, to := m*d.batch, min((m+1)*d.batch, d.samples)
	for i := from; i < to; i++ {
		if (i-from)*world/(to-from) != rank {
			continue
		}
		s := i
		if !d.unmixed {
			s = order[i]
		}
		samples = append(samples, name(s))
		body = append(body, bytes.Repeat(fmt.Appendf(nil, "%s of %s;", name(s), u.Query().Get("generation")), 2)...)
	}
	return body, samples, nil
}

// events makes a history, event by event, each a millisecond after the one before.
type events []Event

func (h *events) add(e Event) {
	e.Start = time.Unix(1000, int64(len(*h))*1e6)
	e.End = e.Start.Add(500 * time.Microsecond)
	*h = append(*h, e)
}

// good returns the correct response for a URL.
func (d toy) good(client, job, address string) Event {
	body, samples, err := d.Batch(address)
	if err != nil {
		panic(err)
	}
	_, generation := place(address)
	e := Event{Client: client, URL: address, Outcome: Whole, Generation: generation, ETag: "tag of " + address, Job: job}
	if job != "" {
		e.Samples = samples
	}
	return e.WithBody(body)
}

func failed(client, address string, how Outcome) Event {
	return Event{Client: client, URL: address, Outcome: how, Reason: "it failed"}
}

// part is a range of batches, from..until-1, of an epoch that a world of ranks reads.
type part struct{ from, until, world int }

// read adds the events of a job that reads an epoch in parts. If random is set, it inserts errors
// and repeated responses.
func (d toy) read(h *events, job, generation string, epoch int, random *rand.Rand, parts ...part) {
	for _, p := range parts {
		for m := p.from; m < p.until; m++ {
			for rank := range p.world {
				client, address := fmt.Sprintf("%s/%d", job, rank), d.url(generation, epoch, m, rank, p.world)
				for random != nil && random.IntN(3) == 0 {
					h.add([]Event{
						// a response that is not read
						failed(client, address, Refused), failed(client, address, Broken), d.good(client, "", address),
						{Client: client, URL: address, Outcome: Part, ETag: "tag of " + address},
					}[random.IntN(4)])
				}
				h.add(d.good(client, job, address))
			}
		}
	}
	h.add(Event{Client: job, URL: fmt.Sprintf("epoch %d", epoch), Outcome: Completed, Job: job, Total: d.samples})
}

// check adds a history to a new log, and returns its violations.
func (h events) check(plan Plan) error {
	l := New(plan)
	for _, e := range h {
		l.Add(e)
	}
	return l.Err()
}

// find returns the first matching event for a URL, and its index.
func (h events) find(address string, taken bool) int {
	for i, e := range h {
		if e.URL == address && e.Outcome == Whole && (e.Job != "") == taken {
			return i
		}
	}
	panic(cmp.Or(address, "no event"))
}
