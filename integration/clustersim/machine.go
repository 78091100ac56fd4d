package clustersim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
)

// machine runs a gateway, one boot after another.
type machine struct {
	run     *run
	number  int
	id      string
	address string
	set     Gateway
	clock   time.Duration
	lies    lies
	view    view

	mu    sync.Mutex // guards the fields below
	proc  *process   // nil: the gateway is down
	quiet bool       // while the gateway is down, the machine sends nothing; otherwise it refuses connections
	boots int
}

// process is one boot of a gateway.
type process struct {
	machine *machine
	net     *network
	boot    string
	born    time.Time
	ctx     context.Context //nolint:containedctx // the life of the process
	end     context.CancelFunc
	dead    chan struct{} // closed when the process is killed

	mu      sync.Mutex // guards closing, reading, ranks and read
	closing bool
	reading map[int]int       // number of running local reads that need a chunk, by chunk
	ranks   map[uint64]bool   // ranks that have read here
	read    map[int]time.Time // time when the last read that needed a chunk ended
	work    sync.WaitGroup

	budget *budget.Budget
	path   *datapath.Path
	source *datapath.Source
	room   *member // its membership of the cluster
}

// now returns the running process, or nil.
func (m *machine) now() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proc
}

// silent reports whether the machine sends nothing at all while no process runs.
func (m *machine) silent() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.quiet
}

// settled reports whether a process runs that the other gateways already know.
func (m *machine) settled() bool {
	p := m.now()
	return p != nil && time.Since(p.born) > settle
}

// start boots the gateway if it is down.
func (m *machine) start(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc != nil || m.run.over() {
		return
	}
	m.boots++
	p := &process{
		machine: m, net: m.run.net, born: time.Now(), boot: fmt.Sprintf("%s-%d", m.id, m.boots), dead: make(chan struct{}), reading: map[int]int{}, ranks: map[uint64]bool{}, read: map[int]time.Time{},
	}
	p.ctx, p.end = context.WithCancel(ctx)
	p.assemble()
	m.proc, m.quiet = p, false
	p.spawn(func() { _ = p.path.Run(p.ctx) })
	p.spawn(func() { p.room.run(p.ctx) })
}

// kill ends the process immediately. If silently is set, its machine sends nothing to the peers
// afterwards.
func (m *machine) kill(silently bool) {
	if p := m.now(); p != nil && !m.run.over() {
		m.run.books.lose(m.number, p.path.Held())
	}
	m.leave(silently)
}

// leave ends the process without recording lost chunks.
func (m *machine) leave(silently bool) {
	m.mu.Lock()
	p := m.proc
	m.proc, m.quiet = nil, silently
	m.mu.Unlock()
	if p != nil {
		p.kill()
	}
}

// kill ends a process, and checks that nothing remains of it.
func (p *process) kill() {
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	close(p.dead)
	p.end()
	p.machine.run.work.Go(p.bury)
}

// bury waits until all work of the process has ended, and checks for leaks.
func (p *process) bury() {
	p.work.Wait()
	p.path.Close()
	s := p.path.Stats()
	if s.OpenLeases != 0 || s.BudgetInUse != 0 || s.BudgetPeak > s.BudgetTotal {
		p.machine.run.wrong("%s left over: %d leases, %d bytes of the budget in use; peak %d of %d", p.boot, s.OpenLeases, s.BudgetInUse, s.BudgetPeak, s.BudgetTotal)
	}
	p.machine.run.count(s)
}

// spawn starts work that the process waits for at its end. It returns false if the process is
// ending.
func (p *process) spawn(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return false
	}
	p.work.Go(f)
	return true
}

// handler returns the handler for peers.
func (p *process) handler() http.Handler { return p.room.server }

// serves reports whether a rank has read here.
func (p *process) serves(rank uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ranks[rank]
}

// want records that a local read of a rank needs chunks, until done is called.
func (p *process) want(rank uint64, chunks []int) (done func()) {
	add := func(n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ranks[rank] = true
		for _, c := range chunks {
			p.reading[c] += n
			p.read[c] = time.Now()
		}
	}
	add(1)
	p.machine.run.books.want(chunks)
	return func() { add(-1) }
}

// wanted reports whether a local read needs a chunk now, or needed it at the given time.
func (p *process) wanted(chunk int, at time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended, ok := p.read[chunk]
	return p.reading[chunk] > 0 || ok && !ended.Before(at)
}

// errDown means that the gateway is down.
var errDown = errors.New("the gateway is down")

// ask runs a client's request at the machine, and waits for the response like a client.
func (m *machine) ask(ctx context.Context, do func(ctx context.Context, p *process) error) error {
	p := m.now()
	if p == nil {
		if m.silent() {
			if err := objstore.Sleep(ctx, dialTime); err != nil {
				return err
			}
		}
		return errDown
	}
	if err := objstore.Sleep(ctx, m.run.history.Link.delay); err != nil {
		return err
	}
	if err := m.run.net.running(ctx, m.number); err != nil {
		return err
	}
	ended := make(chan error, 1)
	serving, stop := context.WithCancel(ctx)
	defer stop()
	forget := context.AfterFunc(p.ctx, stop) // end the request when the process ends
	started := p.spawn(func() {
		defer forget()
		ended <- do(serving, p)
	})
	if !started {
		forget()
		return errDown
	}
	select {
	case err := <-ended:
		if err := objstore.Sleep(ctx, m.run.history.Link.delay); err != nil {
			return err
		}
		if err := m.run.net.running(ctx, m.number); err != nil {
			return err
		}
		select {
		case <-p.dead:
			return syscall.ECONNRESET
		default:
			return err
		}
	case <-p.dead:
		return syscall.ECONNRESET
	case <-ctx.Done():
		return ctx.Err()
	}
}
