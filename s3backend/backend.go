package s3backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"golang.org/x/time/rate"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/tracing"
)

// Backend is a bucket as an objstore.Store.
type Backend struct {
	cfg       Config
	host      string
	options   minio.Options
	transport *http.Transport
	policy    retryPolicy
	endpoint  atomic.Pointer[endpoint]

	retries     *retryBudget
	breaker     breaker
	concurrency *concurrencyLimit
	bandwidth   *rate.Limiter // limits the bytes per second of reads; nil: unlimited
	hedges      hedger

	mu    sync.Mutex // guards stats
	stats Stats

	renewing  sync.Mutex // guards refreshed; held while credentials are fetched, so it guards nothing else
	refreshed time.Time  // time of the last forced refresh of the credentials
}

var _ objstore.Store = (*Backend)(nil)

// New returns the bucket as a store. It does not send any request yet.
func New(cfg Config) (*Backend, error) { return newBackend(cfg, defaultRetryPolicy()) }

func newBackend(cfg Config, policy retryPolicy) (*Backend, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("s3: %w", err)
	}
	host, secure, err := cfg.endpoint()
	if err != nil {
		return nil, fmt.Errorf("s3: %w", err)
	}
	tlsConfig, err := cfg.tlsConfig()
	if err != nil {
		return nil, fmt.Errorf("s3: %w", err)
	}
	lookup := minio.BucketLookupAuto
	if cfg.PathStyle {
		lookup = minio.BucketLookupPath
	}
	transport := newTransport(cfg.MaxConns, tlsConfig, policy)
	b := &Backend{
		cfg:  cfg,
		host: host,
		options: minio.Options{
			Creds:        cfg.credentials(transport, policy.header/2),
			Secure:       secure,
			Transport:    transport,
			BucketLookup: lookup,
			MaxRetries:   1, // this package does the retries
		},
		transport:   transport,
		policy:      policy,
		retries:     newRetryBudget(),
		hedges:      hedger{credit: tokenBucket{share: hedgeShare, most: hedgeBurst}},
		concurrency: newConcurrencyLimit(cfg.MaxConns),
		bandwidth:   newBandwidthLimit(cfg.Bandwidth),
		stats:       Stats{Errors: map[string]int64{}},
	}
	// The region until the store reports another one. The host name may contain it at AWS.
	if err := b.move(cmp.Or(cfg.Region, s3utils.GetRegionFromURL(url.URL{Host: host}), "us-east-1")); err != nil {
		return nil, fmt.Errorf("s3: %w", err)
	}
	return b, nil
}

// Close closes idle connections.
func (b *Backend) Close() error {
	b.transport.CloseIdleConnections()
	return nil
}

// Stats are the counters of a Backend's requests since New.
type Stats struct {
	Requests    int64            // requests sent, including retries
	Retries     int64            // requests sent because an earlier one failed
	Hedges      int64            // requests sent because an earlier one was late
	Errors      map[string]int64 // failed attempts by objstore.Kind
	Limit       int              // current limit on concurrent requests: reduced after a request to slow down
	BreakerOpen bool             // only probes are sent now
}

// Add adds the counters of another backend.
func (s *Stats) Add(o Stats) {
	s.Requests, s.Retries, s.Hedges = s.Requests+o.Requests, s.Retries+o.Retries, s.Hedges+o.Hedges
	if s.Errors == nil {
		s.Errors = map[string]int64{}
	}
	for kind, n := range o.Errors {
		s.Errors[kind] += n
	}
}

// Stats returns the counters.
func (b *Backend) Stats() Stats {
	b.mu.Lock()
	s := b.stats
	s.Errors = maps.Clone(s.Errors)
	b.mu.Unlock()
	s.Limit = b.concurrency.current()
	s.BreakerOpen = b.breaker.isOpen()
	return s
}

func (b *Backend) count(change func(*Stats)) {
	b.mu.Lock()
	change(&b.stats)
	b.mu.Unlock()
}

// attempt is one running request.
type attempt struct {
	watchdog *watchdog
	got      int64 // bytes of progress made
}

// run makes attempts until one succeeds or another one would be useless. first is the timeout of an
// attempt until do sets another one.
func (b *Backend) run(ctx context.Context, first time.Duration, do func(context.Context, *attempt) error) error {
	b.retries.earn()
	fruitless, refreshed, moved := 0, false, false
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		started := time.Now()
		got, err := b.once(ctx, first, n, do)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return interrupted(ctx, err)
		}
		f := classify(err)
		if f.fresh && !refreshed {
			if refreshed = true; b.refresh(started) {
				continue
			}
		}
		if f.region != "" && !moved && b.cfg.Region == "" {
			if moved = true; b.move(f.region) == nil {
				continue
			}
		}
		if err := b.another(ctx, f, &fruitless, got); err != nil {
			return err
		}
	}
}

// another returns nil after a pause if another attempt is worthwhile, and otherwise the error to
// report. fruitless counts consecutive attempts without progress. got is the number of bytes of
// progress that the last attempt made.
func (b *Backend) another(ctx context.Context, f *failure, fruitless *int, got int64) error {
	if *fruitless++; got >= b.policy.progress {
		*fruitless = 1
	}
	if !f.retry || *fruitless >= b.policy.attempts || !b.retries.spend() {
		return b.explain(f)
	}
	if !pause(ctx, b.policy.wait(*fruitless, errors.Is(f.kind, objstore.ErrThrottled))) {
		return interrupted(ctx, f)
	}
	return nil
}

// interrupted prepends the context's error to err if the context has ended.
func interrupted(ctx context.Context, err error) error {
	if cerr := ctx.Err(); cerr != nil {
		return fmt.Errorf("%w (%s)", cerr, err) //nolint:errorlint // the context's error is the one that counts
	}
	return err
}

// explain adds details to a failure that the store does not know. They say that the request had no
// signature, which endpoint was used, or that AWS was used because no endpoint was set.
func (b *Backend) explain(f *failure) *failure {
	unnamed := f.cause != nil && b.cfg.Endpoint == "" // a network fault while connecting to AWS
	if f.cause != nil && !unnamed {
		f.detail += ", at the endpoint " + b.cfg.Endpoint + " (AWS_ENDPOINT_URL, or endpoint= of the address)"
	}
	if f.code != "AccessDenied" && !unnamed {
		return f
	}
	if v, err := b.options.Creds.GetWithContext(nil); err == nil && v.SignerType.IsAnonymous() {
		f.detail += ", and no credentials were found in the environment or the shared credentials file"
	}
	if unnamed {
		f.detail = "no endpoint is set (AWS_ENDPOINT_URL, or endpoint= of the address), so AWS itself was asked: " + f.detail
	}
	return f
}

// pause waits for d. It returns false when ctx ends first, or immediately if the deadline of ctx is
// before the end of the pause.
func pause(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	return objstore.Sleep(ctx, d) == nil
}

// once makes attempt n, and reports its result to the breaker, the limiter, the counters and the
// trace.
func (b *Backend) once(ctx context.Context, first time.Duration, n int, do func(context.Context, *attempt) error) (got int64, err error) {
	ctx, span := tracing.Call(ctx, "store attempt")
	span.Number("millrace.store.attempt", int64(n))
	defer func() { span.Ended(err) }()
	if err := b.breaker.allow(); err != nil {
		return 0, err
	}
	if err := b.concurrency.acquire(ctx); err != nil {
		b.breaker.report(unclear)
		return 0, err
	}
	defer b.concurrency.release()
	b.count(func(s *Stats) {
		s.Requests++
		if n > 0 {
			s.Retries++
		}
	})
	actx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &attempt{watchdog: newWatchdog(cancel, first)}
	defer a.watchdog.rest()
	err = settle(ctx, actx, do(actx, a))
	b.report(err)
	return a.got, err
}

// settle returns the error of an attempt, depending on whether the caller, the watchdog or the
// store ended it.
func settle(caller, attempt context.Context, err error) error {
	if err == nil || caller.Err() != nil {
		return err
	}
	f := classify(err)
	if ended, ok := errors.AsType[*failure](context.Cause(attempt)); ok && !f.own {
		return ended
	}
	return f
}

func (b *Backend) report(err error) {
	if err == nil {
		b.breaker.report(healthy)
		b.concurrency.faster()
		return
	}
	kind := objstore.Kind(err)
	b.count(func(s *Stats) { s.Errors[kind]++ })
	switch {
	case kind == "canceled", errors.Is(err, objstore.ErrShort):
		b.breaker.report(unclear)
	case errors.Is(err, objstore.ErrThrottled):
		b.breaker.report(unclear)
		b.concurrency.slower()
	case errors.Is(err, objstore.ErrUnavailable), errors.Is(err, objstore.ErrTimeout):
		b.breaker.report(failed)
	default: // the store works, and rejected the request
		b.breaker.report(healthy)
	}
}

// refresh fetches new credentials after a request was rejected, once for all requests that were
// rejected together. It reports whether another attempt is worthwhile.
func (b *Backend) refresh(started time.Time) bool {
	b.renewing.Lock()
	defer b.renewing.Unlock()
	if !b.refreshed.Before(started) {
		return true
	}
	if !b.refreshed.IsZero() && time.Since(b.refreshed) < b.policy.refresh {
		return false
	}
	b.options.Creds.Expire()
	b.refreshed = time.Now() // set after the credentials have expired, since requests that start meanwhile already use the new ones
	return true
}
