package integration_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/objstore"
)

const (
	jobRanks = 8
	jobBatch = 16       // in samples: two for each rank
	jobChunk = "256KiB" // a chunk has a dozen samples or more; some samples are read individually
)

// jobLoad is a cluster of gateways that serves the datasets of a yard while they change, with the
// jobs that read from it.
type jobLoad struct {
	*yard
	fleet *harness.Fleet
	fault *atomic.Pointer[http.HandlerFunc] // store fault that the gateways currently meet
	think time.Duration                     // average computing time of a rank between two batches
	sleep time.Duration                     // pause of a job between epochs; the gateways close its generation
	rests time.Duration                     // time after which a gateway has closed everything unused
	disk  *harness.Disk                     // disk below the first gateway's disk cache
	hang  time.Duration                     // time that the disk hangs; twice the deadline of a request

	objects objstore.Store // the store of the datasets, without faults
	set     listed
	epochs  atomic.Int64 // number of epochs that jobs have begun

	mu      sync.Mutex           // guards the fields below
	absent  map[string]time.Time // last time that the file did not list a name; if it does not now, tomorrow
	seen    map[string]int       // numbers of responses to jobs, and of changes
	samples map[string]uint64    // number of samples in each indexed generation
	newest  map[string]string    // newest generation of each dataset
	late    []string             // requests that ended more than a second after their deadline
	wrong   int
}

// listed is the content of the datasets file, in addition to the flags.
type listed struct{ mails, again, mixture bool }

func (s listed) lines(y *yard) []string {
	lines := []string{"texts"}
	if s.mails {
		lines = append(lines, "mails")
	}
	if s.again {
		lines = append(lines, "  again: "+y.store.Dataset("photos"))
	}
	if s.mixture {
		lines = append(lines, "mixtures:", "  both: photos:1,texts:1")
	}
	return lines
}

func (l *jobLoad) count(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[what]++
}

func (l *jobLoad) fail(format string, args ...any) {
	l.mu.Lock()
	l.wrong++
	few := l.wrong <= 20
	l.mu.Unlock()
	if few {
		l.t.Errorf(format, args...)
	}
}

// listener counts the gateways' responses to a client.
type listener struct {
	load *jobLoad
	http.RoundTripper
}

// excused lists the errors that a job may receive: the store fails, memory is short, or the
// requested data does not exist at the moment.
var excused = []string{
	client.CodeStoreUnavailable, client.CodeStoreTimeout, client.CodeStoreDenied, client.CodeOverloaded, client.CodeNotFound, client.CodeGenerationGone,
}

func (s listener) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	deadline := s.load.hang / 2
	r.Header.Set("Millrace-Deadline-Ms", strconv.FormatInt(deadline.Milliseconds(), 10))
	begun := time.Now()
	resp, err := s.RoundTripper.RoundTrip(r)
	if took := time.Since(begun); took > deadline+time.Second {
		s.load.mu.Lock()
		s.load.late = append(s.load.late, fmt.Sprintf("%s: ended after %v (%v), want %v and 1s at most", r.URL, took, err, deadline))
		s.load.mu.Unlock()
	}
	switch {
	case err != nil:
		if r.Context().Err() == nil {
			s.load.count("requests without an answer")
			s.load.t.Logf("%s: %v", r.URL, err)
		}
		return nil, err
	case resp.StatusCode < http.StatusBadRequest:
		s.load.count("answers")
		return resp, nil
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	var p struct{ Code string }
	if err := json.Unmarshal(text, &p); err != nil || !slices.Contains(excused, p.Code) {
		s.load.fail("%s: got %d %s", r.URL, resp.StatusCode, text)
	}
	s.load.count("errors " + p.Code)
	return resp, nil
}

// rank returns the client of a rank, with its own connections. Every second rank prefers the other
// gateway.
func (l *jobLoad) rank(name string) (c *client.Client, end func()) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	c, err := client.New(client.Config{
		Gateways: l.fleet.URLs(), Dataset: name, HTTP: &http.Client{Transport: l.log.Through("rank of "+name, listener{l, transport})},
		Home: func(rank, _ uint64, gateways int) int { return int(rank) % gateways },
	})
	if err != nil {
		l.t.Error(err)
	}
	return c, transport.CloseIdleConnections
}

// job reads datasets one after another, for some epochs each, until ctx ends.
func (l *jobLoad) job(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		name := []string{"photos", "texts", "mails", "again"}[random.IntN(4)]
		err := l.train(ctx, name, random)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			l.count("jobs that ended well")
		case tellsAbsence(err) && l.mayLack(name):
			l.count("jobs whose dataset was removed")
		case errors.Is(err, errRemoved):
			l.count("jobs whose generation was removed")
		default:
			l.fail("a job that reads %s: %v", name, err)
		}
		pause(ctx, l.think)
	}
}

// tellsAbsence reports whether some gateway responded that the dataset is not served. The last
// error may come from another gateway, which could not reach the store.
func tellsAbsence(err error) bool {
	if err == nil {
		return false
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(several.Unwrap(), tellsAbsence)
	}
	refused, ok := err.(*client.Error)
	if ok && refused.Code == client.CodeNotFound {
		return true
	}
	return tellsAbsence(errors.Unwrap(err))
}

// mayLack reports whether a dataset may be unavailable: the file does not list it, or did not list
// it until recently. After a failure to open a dataset, a gateway retries half a minute later.
func (l *jobLoad) mayLack(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, ok := l.absent[name]
	return ok && time.Since(last) < time.Minute
}

// errRemoved means that the index of a job's generation is no longer in the store.
var errRemoved = errors.New("its index was removed")

// gone checks in the store whether a generation that a gateway reports as gone is gone.
func (l *jobLoad) gone(ctx context.Context, d client.Dataset, err error) error {
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Code != client.CodeGenerationGone {
		return err
	}
	_, found := l.objects.Stat(ctx, strings.Replace(d.Name, "again", "photos", 1)+"/.millrace/index/"+d.Generation)
	if errors.Is(found, objstore.ErrNotFound) {
		return errRemoved
	}
	return fmt.Errorf("in the store there is generation %.12s (%w): %w", d.Generation, found, err)
}

// train reads some epochs of the dataset's current generation. Some jobs pause between two epochs.
func (l *jobLoad) train(ctx context.Context, name string, random *rand.Rand) error {
	c, end := l.rank(name)
	d, err := c.Describe(ctx)
	end()
	if tellsAbsence(err) && l.mayLack(name) {
		l.count("jobs that did not begin, since their dataset was not served")
		return nil
	}
	if err != nil {
		return err
	}
	for n := range 1 + random.IntN(3) {
		if n > 0 && random.IntN(2) == 0 {
			l.count("jobs that rested")
			pause(ctx, l.sleep)
		}
		epoch := fmt.Sprintf("epoch %d of job %d", n, l.epochs.Add(1))
		ranks, each := errgroup.WithContext(ctx)
		for rank := range jobRanks {
			own := rand.New(rand.NewPCG(random.Uint64(), 1))
			ranks.Go(func() error {
				return l.read(each, d, client.Options{Epoch: uint64(n), Rank: uint64(rank), WorldSize: jobRanks}, epoch, own)
			})
		}
		if err := ranks.Wait(); err != nil {
			l.log.Abandon(epoch)
			return l.gone(ctx, d, err)
		}
		l.mu.Lock()
		samples := l.samples[d.Generation]
		l.mu.Unlock()
		if samples != d.Samples {
			l.fail("generation %.12s of %s: it has %d samples, and %d were indexed", d.Generation, name, d.Samples, samples)
		}
		l.log.Complete("job", epoch, samples)
		l.count("epochs")
	}
	return nil
}

// read reads the share of one rank. Now and then it stops the rank while requests are running, and
// starts it again.
func (l *jobLoad) read(ctx context.Context, d client.Dataset, opt client.Options, epoch string, random *rand.Rand) error {
	opt.BatchSize, opt.Generation, opt.Manifest, opt.Tail = jobBatch, d.Generation, true, "short"
	for batches := opt.From + 1; opt.From < batches; {
		c, end := l.rank(d.Name)
		for b, err := range c.Batches(ctx, opt) {
			if err == nil {
				err = l.right(d, opt, b)
			}
			if err != nil {
				end()
				return err
			}
			l.log.Took(fmt.Sprint("rank ", opt.Rank), epoch, b)
			l.count("batches")
			opt.From++
			batches = b.Batches
			if random.IntN(50) == 0 {
				l.count("ranks that were killed")
				break
			}
			pause(ctx, l.think/2+time.Duration(random.Int64N(int64(l.think))))
		}
		end()
	}
	return nil
}

// right compares a batch with its request, and its samples with the packed files.
func (l *jobLoad) right(d client.Dataset, opt client.Options, b *client.Batch) error {
	if b.Generation != d.Generation || b.Epoch != opt.Epoch || b.Number != opt.From || b.Padded != 0 {
		return fmt.Errorf("got batch %d of epoch %d of generation %.12s, want %d of %d of %.12s", b.Number, b.Epoch, b.Generation, opt.From, opt.Epoch, d.Generation)
	}
	for i := range b.Samples() {
		of := map[bool]string{true: later, false: strings.Replace(d.Name, "again", "photos", 1)}[strings.Contains(fmt.Sprint(b.Describe(i).Shard), later)]
		for archive := tar.NewReader(bytes.NewReader(b.Sample(i))); ; {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			data, err := io.ReadAll(archive)
			if want, ok := l.content[of][header.Name]; err != nil || !ok || string(data) != want {
				return fmt.Errorf("%s of %v: got %d bytes that were not packed under this name, %w", header.Name, b.Describe(i), len(data), err)
			}
		}
	}
	return nil
}

// startJobLoad packs datasets and starts a cluster of two gateways from the given program, or from
// Build's. The first gateway has a disk cache and the given memory.
func startJobLoad(t *testing.T, program, memory string, later int, think, hang time.Duration) *jobLoad {
	t.Helper()
	l := &jobLoad{
		disk: harness.NewDisk(t), hang: hang,
		yard: newYardIn(t, "minio", 20000, later), fault: &atomic.Pointer[http.HandlerFunc]{}, think: think,
		seen: map[string]int{}, samples: map[string]uint64{}, newest: map[string]string{}, absent: map[string]time.Time{},
	}
	l.objects = l.store.Objects(t)
	for _, name := range []string{"photos", "texts", "mails"} {
		l.index(name)
	}
	l.write()
	l.fleet = harness.NewFleet(t, harness.FleetConfig{
		Store: behind(t, l.store, l.fault), Dataset: "photos", Size: 2, Program: program,
		Args: []string{
			"--datasets", l.file, "--follow", "1s", "--allow", "read,report", "--cache-size", "16MiB", "--lame-duck", "0s", "--log-level", "warn",
		},
	})
	l.fleet.Start(t, 0, "MILLRACE_INDEX_DIR="+t.TempDir(), "--disk-cache", l.disk.Dir, "--disk-cache-size", "32MiB", "--cache-size", memory)
	l.fleet.Start(t, 1)
	l.fleet.Agree(t)
	return l
}

// write writes the datasets file.
func (l *jobLoad) write() {
	l.mu.Lock()
	for name, is := range map[string]bool{"mails": l.set.mails, "again": l.set.again} {
		if now := time.Now(); !is {
			l.absent[name] = now.Add(24 * time.Hour)
		} else if l.absent[name].After(now) {
			l.absent[name] = now
		}
	}
	l.mu.Unlock()
	l.names(l.set.lines(l.yard)...)
}

// index indexes a dataset and records its newest generation with the number of samples.
func (l *jobLoad) index(name string) {
	l.t.Helper()
	text := harness.MustRun(l.t, l.store, "index", l.store.Dataset(name), "--chunk-size", jobChunk, "--json")
	var r struct {
		Generation string
		Samples    uint64
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Samples == 0 {
		l.t.Fatalf("index %s: got %s, %v", name, text, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.samples[r.Generation], l.newest[name] = r.Samples, r.Generation
}

// fails makes the store fail with the given fault. The fault ends some time after the first request
// has met it: gateways with their chunks in memory may send no request to the store for a second.
func (l *jobLoad) fails(what string, lasts time.Duration, fault http.HandlerFunc) {
	var met sync.Once
	var counted http.HandlerFunc
	counted = func(w http.ResponseWriter, r *http.Request) {
		met.Do(func() { time.AfterFunc(lasts, func() { l.fault.CompareAndSwap(&counted, nil) }) })
		l.count("requests to the store that " + what)
		fault(w, r)
	}
	l.fault.Store(&counted)
}

func throttles(w http.ResponseWriter, r *http.Request) {
	answered(r)
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, `<Error><Code>SlowDown</Code></Error>`)
}

// hangs holds a request until its sender gives up, or for a few seconds.
func hangs(_ http.ResponseWriter, r *http.Request) {
	answered(r)
	pause(r.Context(), 6*time.Second)
	panic(http.ErrAbortHandler)
}

// hangDisk repeatedly makes the disk hang until ctx ends, each time until a system call has met it.
func (l *jobLoad) hangDisk(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		pause(ctx, time.Duration(random.Int64N(int64(l.hang))))
		l.disk.Hang()
		l.count("hangs of the disk")
		for before := l.disk.Hung(); ctx.Err() == nil; {
			if pause(ctx, l.hang); l.disk.Hung() > before {
				break
			}
		}
		l.disk.GoOn()
	}
}

// growth is the change that occurs twice as often as any other.
const growth = "a shard is added"

// changes returns the changes that a load makes, by name.
func (l *jobLoad) changes(random *rand.Rand) map[string]func() {
	one := func() *harness.Gateway { return l.fleet.Members[random.IntN(2)].Gateway }
	name := func() string { return []string{"photos", "texts", "mails"}[random.IntN(3)] }
	return map[string]func(){
		"a dataset comes or goes":     func() { l.set.mails = !l.set.mails; l.write() },
		"a second name comes or goes": func() { l.set.again = !l.set.again; l.write() },
		"a mixture comes or goes":     func() { l.set.mixture = !l.set.mixture; l.write() },
		"the file has faults for a moment": func() {
			l.names([][]string{{"texts", "  mails: ["}, {"texts", "  lost: " + l.store.Root + "/lost"}}[random.IntN(2)]...)
			time.Sleep(700 * time.Millisecond)
			l.names(l.set.lines(l.yard)...)
		},
		growth: func() {
			if len(l.spare) > 0 {
				to := name()
				l.add(to)
				l.index(to)
			}
		},
		"old indexes are removed": func() {
			harness.MustRun(l.t, l.store, "gc", l.store.Dataset(name()), "--yes", "--grace", "0s", "--keep", (l.sleep * 3 / 2).String())
		},
		"SIGHUP": func() { one().HangUp() },
		"POST /v1/reload": func() {
			ctx, cancel := context.WithTimeout(l.t.Context(), 5*time.Second)
			defer cancel()
			r, err := harness.Do(ctx, http.MethodPost, one().Admin+"/v1/reload")
			switch {
			case err != nil:
				l.count("reloads that took more than 5 s")
			case r.Status != http.StatusOK && r.Status != http.StatusConflict:
				l.fail("reload: got %d %s", r.Status, r.Body)
			default:
				l.count(fmt.Sprint("reloads that were answered ", r.Status))
			}
		},
		"the store throttles":  func() { l.fails("were throttled", 500*time.Millisecond, throttles) },
		"the store breaks off": func() { l.fails("were broken off", 300*time.Millisecond, breaksOff) },
		"the store denies":     func() { l.fails("were denied", 300*time.Millisecond, denies) },
		"the store hangs":      func() { l.fails("hung", 1500*time.Millisecond, hangs) },
	}
}

// load runs jobs for a while, with a change at each tick.
func (l *jobLoad) load(jobs int, lasts, every time.Duration, random *rand.Rand) {
	// Cancel instead of setting a deadline: a client with a deadline gives up if no time
	// remains for another attempt, which would look like a failed job.
	ctx, cancel := context.WithCancel(l.t.Context())
	defer cancel()
	time.AfterFunc(lasts, cancel)
	var all sync.WaitGroup
	for range jobs {
		own := rand.New(rand.NewPCG(random.Uint64(), 2))
		all.Go(func() { l.job(ctx, own) })
	}
	defer all.Wait()
	own := rand.New(rand.NewPCG(random.Uint64(), 4))
	all.Go(func() { l.hangDisk(ctx, own) })
	changes := l.changes(random)
	names := append(slices.Sorted(maps.Keys(changes)), growth)
	for tick := time.NewTicker(every); ; {
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
				return
			}
			changes[name]()
			l.count("changes: " + name)
		}
	}
}

// settle ends all faults and removes all datasets except two. It waits until each gateway serves
// the newest generations of these two and has closed everything else.
func (l *jobLoad) settle() {
	l.t.Helper()
	l.fault.Store(nil)
	l.set = listed{}
	l.write()
	for _, m := range l.fleet.Members {
		l.Gateway = m.Gateway
		l.until("a reload", time.Minute, func() bool { status, _ := l.reload(); return status == http.StatusOK })
		if got := l.list(); got != "photos texts" {
			l.t.Errorf("%s serves %s, want photos and texts", m.Name, got)
		}
		for _, name := range []string{"photos", "texts"} {
			if d := l.describe(name); d.Generation != l.newest[name] || d.Samples != l.samples[d.Generation] {
				l.t.Errorf("%s serves %+v of %s, want generation %s", m.Name, d, name, l.newest[name])
			}
		}
		l.until("all is closed", l.rests, func() bool { return l.Metric(l.t, "millrace_datasets_open", "") == 2 })
	}
}

// holds returns the smallest amounts that each gateway holds at any moment of the given time.
// Unused connections are closed during that time.
func (l *jobLoad) holds(lasts time.Duration) (least []holds) {
	l.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	for begun := time.Now(); time.Since(begun) < lasts; time.Sleep(lasts / 20) {
		for i, m := range l.fleet.Members {
			h := heldBy(l.t, m.Gateway)
			if len(least) <= i {
				least = append(least, h)
			}
			least[i] = holds{min(least[i].files, h.files), min(least[i].routines, h.routines), min(least[i].bytes, h.bytes)}
		}
	}
	return least
}

// hasty compiles a gateway that closes unused resources after seconds instead of a minute or two.
func hasty(t *testing.T) string {
	t.Helper()
	return harness.Planted(t, "..",
		harness.Edit{
			File:  "gateway/catalog/catalog.go",
			Text:  "rest      = time.Minute      // idle time after which a generation that is not current is closed\n\tsweeps    = 10 * time.Second",
			Other: "rest      = 3 * time.Second\n\tsweeps    = time.Second",
		},
		harness.Edit{File: "s3backend/transport.go", Text: "IdleConnTimeout:       30 * time.Second", Other: "IdleConnTimeout:       time.Second"},
		harness.Edit{File: "cluster/peer/client.go", Text: "clientIdle     = 90 * time.Second", Other: "clientIdle     = time.Second"},
	)
}

// TestJobsWhileAllChanges lets jobs of eight ranks read from two gateways. Each second a dataset, a
// generation, an index, the file or the store changes, and one disk hangs now and then. Every epoch
// delivers each sample of one generation once, with the packed bytes. Each request ends within a
// second of its deadline, and errors are only the store's. At the end the gateways hold no more
// than before.
func TestJobsWhileAllChanges(t *testing.T) {
	jobs, first, lasts, every, idle, think, later, spread := 8, 8*time.Second, 22*time.Second, 500*time.Millisecond, 3*time.Second, 200*time.Millisecond, 20, int64(64<<20)
	program, memory, sleep, rests, hang := "", "16MiB", 100*time.Second, 4*time.Minute, 30*time.Second
	if long() {
		jobs, first, lasts, every, idle, think, later, spread = 25, 3*time.Minute, 47*time.Minute, time.Second, 2*time.Minute, 2500*time.Millisecond, 600, 24<<20
	} else {
		program, memory, sleep, rests, hang = hasty(t), "8MiB", 6*time.Second, 30*time.Second, 6*time.Second
	}
	pace := harness.WatchPace(t)
	l := startJobLoad(t, program, memory, later, think, hang)
	l.rests, l.sleep = rests, sleep
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 3))
	l.load(jobs, first, every, random)
	l.settle()
	before := l.holds(idle)
	l.load(jobs, lasts, every, random)
	l.settle()
	after := l.holds(idle)
	for i, h := range after {
		if !h.within(before[i], spread) {
			t.Errorf("gateway %d: after %v %+v, after %v more %+v, want the same", i, first, before[i], lasts, h)
		}
		g := l.fleet.Members[i].Gateway
		for _, word := range []string{"panic", "goroutine "} {
			if strings.Contains(g.Log(), word) {
				t.Errorf("the log of gateway %d holds %q", i, word)
			}
		}
		t.Logf("figure: gateway %d held %+v after %v and %+v after %v more, and %d MiB at most", i, before[i], first, h, lasts, peakRSS(t, g.Pid())>>20)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if lost := l.seen["requests without an answer"]; lost > l.seen["answers"]/1000 { // a stalled machine loses some
		t.Errorf("%d requests were not answered", lost)
	}
	fault := ""
	if len(l.late) > 0 { // a stalled machine may be the cause
		fault = pace.Fault()
	}
	if harness.Judge(t, fault) && len(l.late) > 0 {
		t.Errorf("%d requests ended late, such as %s", len(l.late), l.late[0])
	}
	t.Logf("figure: %d requests that ended more than a second after their deadline", len(l.late))
	if runtime.GOOS == "linux" && l.disk.Hung() == 0 {
		t.Error("no call to the disk has hung")
	}
	for _, what := range []string{"epochs", "jobs that ended well", "ranks that were killed", "reloads that were answered 200", "requests to the store that were throttled"} {
		if l.seen[what] == 0 {
			t.Errorf("no %s", what)
		}
	}
	t.Logf("figure: %d calls to the disk that hung", l.disk.Hung())
	for _, what := range slices.Sorted(maps.Keys(l.seen)) {
		t.Logf("figure: %d %s", l.seen[what], what)
	}
}
