// Package load reads batches of a gateway as fast as they come, and measures rates and latencies.
package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/client"
)

// ErrUnreachable says that a gateway does not answer at all.
var ErrUnreachable = errors.New("no answer")

// Config of a load.
type Config struct {
	Gateway     string
	Dataset     string // "": the gateway's default one
	Options     client.Options
	Connections int           // readers side by side
	Duration    time.Duration // in which readers begin batches
	Patience    time.Duration // with batches that are under way at the end; 0: ReachTime
	HTTP        *http.Client  // nil: the client's own
	Retrying    func(error)   // as in client.Config
}

// Report is what a load measured.
type Report struct {
	Connections int     `json:"connections"`
	Batches     uint64  `json:"batches"`
	Samples     uint64  `json:"samples"`
	Bytes       uint64  `json:"bytes"`
	Errors      uint64  `json:"errors"`
	FirstError  string  `json:"first_error,omitempty"`
	Seconds     float64 `json:"seconds"`
	SamplesPS   float64 `json:"samples_per_s"`
	MBPS        float64 `json:"mb_per_s"`
	P50         float64 `json:"p50_ms"`
	P99         float64 `json:"p99_ms"`
	Max         float64 `json:"max_ms"`

	failure error // of the first batch that failed
}

// load is what the readers share.
type load struct {
	client  *client.Client
	opt     client.Options
	batches uint64
	start   time.Time
	next    atomic.Uint64

	mu    sync.Mutex // guards what follows
	rep   Report
	times []time.Duration
	last  time.Time // when the last batch was there
}

// ReachTime is how long a load, or a person's question, waits for a gateway's first sign of life, and for its last. A gateway that is not there is
// not worth the patience of a training job.
const ReachTime = 5 * time.Second

// Reach returns an error where the gateways of a client do not answer: at once if all refuse the connection, else after ReachTime.
func Reach(ctx context.Context, cfg client.Config) error {
	cfg.Deadline, cfg.AttemptTimeout, cfg.FailRefused = ReachTime, ReachTime, true
	start := time.Now()
	c, err := client.New(cfg)
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	var answer json.RawMessage
	err = c.JSON(ctx, "/v1/datasets", nil, &answer)
	var said *client.Error
	if err == nil || ctx.Err() != nil || errors.As(err, &said) {
		return err
	}
	var network *net.OpError
	if errors.As(err, &network) {
		err = network.Err // the caller names the gateway
	}
	if took := time.Since(start).Round(time.Second); took > 0 {
		return fmt.Errorf("%w in %s: %w", ErrUnreachable, took, err)
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// Run loads a gateway. A load without a single batch is an error; with some batches, Report.Failed tells of the others.
func Run(ctx context.Context, x Config) (Report, error) {
	if x.Patience == 0 {
		x.Patience = ReachTime
	}
	cfg := client.Config{Gateways: []string{x.Gateway}, Dataset: x.Dataset, HTTP: x.HTTP, Retrying: x.Retrying}
	if err := Reach(ctx, cfg); err != nil {
		return Report{}, err
	}
	c, err := client.New(cfg)
	if err != nil {
		return Report{}, err
	}
	defer c.CloseIdle()
	first, err := c.Batch(ctx, x.Options, 0)
	if err != nil {
		return Report{}, err
	}
	l := &load{client: c, opt: x.Options, batches: first.Batches}
	l.opt.Generation = first.Generation
	l.rep.Connections = x.Connections
	l.start = time.Now()
	// A batch that is under way at the end still counts: to cut it off would leave out the slowest. The batches have no
	// deadline, since a client that sees one coming gives up ahead of it, again and again.
	patient, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gone := fmt.Errorf("%w for %s after the load", ErrUnreachable, x.Patience)
	defer time.AfterFunc(x.Duration+x.Patience, func() { cancel(gone) }).Stop()
	var readers sync.WaitGroup
	for range x.Connections {
		readers.Go(func() { l.reader(patient, x.Duration) }) // readers count their errors
	}
	readers.Wait()
	if ctx.Err() != nil {
		return Report{}, context.Cause(ctx)
	}
	return l.report()
}

// reader takes the next batch of all until time is over.
func (l *load) reader(ctx context.Context, duration time.Duration) {
	for ctx.Err() == nil && time.Since(l.start) < duration {
		i := l.next.Add(1) - 1
		opt := l.opt
		opt.Epoch += i / l.batches
		start := time.Now()
		b, err := l.client.Batch(ctx, opt, i%l.batches)
		l.note(b, start, err)
	}
}

func (l *load) note(b *client.Batch, start time.Time, err error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if l.rep.Errors++; l.rep.failure == nil {
			l.rep.failure, l.rep.FirstError = err, err.Error()
		}
		return
	}
	l.rep.Batches++
	l.rep.Samples += uint64(b.Samples())
	l.rep.Bytes += uint64(len(b.Bytes()))
	l.times = append(l.times, now.Sub(start))
	l.last = now
}

// report turns what was noted into rates and latencies.
func (l *load) report() (Report, error) {
	if len(l.times) == 0 {
		return Report{}, l.rep.failure
	}
	r := &l.rep
	if r.Seconds = l.last.Sub(l.start).Seconds(); r.Seconds > 0 {
		r.SamplesPS = float64(r.Samples) / r.Seconds
		r.MBPS = float64(r.Bytes) / r.Seconds / 1e6
	}
	slices.Sort(l.times)
	at := func(q float64) float64 {
		i := min(int(q*float64(len(l.times))), len(l.times)-1)
		return float64(l.times[i].Microseconds()) / 1000
	}
	r.P50, r.P99, r.Max = at(0.50), at(0.99), at(1)
	return *r, nil
}

// Failed returns the error of the first batch that the load asked for and did not get, or nil.
func (r *Report) Failed() error { return r.failure }
