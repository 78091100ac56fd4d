// Package budget counts the bytes a process may hold, in one place: whatever grows
// reserves first. It knows nothing of what the bytes are for.
//
// A reservation is all or nothing, so nobody holds a part of what it needs while it waits
// for the rest. What a cache holds for later yields to whoever needs bytes now: the
// budget asks it through the hook of SetReclaim before it lets anybody wait.
//
// Of those that wait, the newest is served first, because it is the likeliest to be
// still wanted when it is done; but whoever has waited for half of the limit goes
// before everybody else and lets no newcomer pass, so that a large reservation is not
// overtaken by small ones until it gives up.
package budget

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrTooLarge says that a reservation could never be met; ErrOverloaded that it could not be met in time.
var (
	ErrTooLarge   = errors.New("larger than the memory budget")
	ErrOverloaded = errors.New("memory budget exhausted")
)

// DefaultWait bounds the wait for a reservation where New is given none.
const DefaultWait = 2 * time.Second

// Budget is a number of bytes shared by everything that grows. It is safe for concurrent use.
type Budget struct {
	total   int64
	maxWait time.Duration

	mu      sync.Mutex // guards what follows; never held while reclaim runs
	inUse   int64
	peak    int64
	refused int64     // waits that were given up
	waiters []*waiter // in order of arrival
	reclaim func(n int64) int64
	idle    func() int64
	freed   func()
}

type waiter struct {
	since time.Time
	wake  chan struct{} // holds one token: try again
}

// New returns a budget of total bytes. A reservation waits at most maxWait, 0 means DefaultWait.
func New(total int64, maxWait time.Duration) *Budget {
	if maxWait <= 0 {
		maxWait = DefaultWait
	}
	return &Budget{total: max(total, 0), maxWait: maxWait}
}

// SetReclaim names the function that gives bytes back when somebody needs n of them: it
// releases reservations of its own and returns how many bytes they were. idle says how many it
// could give back now. Both are called without locks, from the goroutine that needs the
// bytes or asks for the sum, perhaps from several at once.
func (b *Budget) SetReclaim(reclaim func(n int64) int64, idle func() int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reclaim, b.idle = reclaim, idle
}

// SetFreed names the function that is called when bytes were given back, or may be reclaimed now, and no reservation
// waits for them: for work ahead, which never waits. It is called under the budget's lock, from any goroutine, so it must
// be quick and must not call the budget.
func (b *Budget) SetFreed(freed func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.freed = freed
}

// Total returns all the bytes there are.
func (b *Budget) Total() int64 { return b.total }

// InUse returns the bytes reserved now.
func (b *Budget) InUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inUse
}

// Pinned returns the bytes reserved now that reclaiming would not give back: a budget that a cache has filled is not
// short of memory. It is a snapshot; while bytes change hands it may be off by those.
func (b *Budget) Pinned() int64 {
	b.mu.Lock()
	inUse, idle := b.inUse, b.idle
	b.mu.Unlock()
	if idle == nil {
		return inUse
	}
	return max(inUse-idle(), 0)
}

// Peak returns the most bytes that were ever reserved at once.
func (b *Budget) Peak() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peak
}

// Refused returns how many waits were given up since no memory came free in time.
func (b *Budget) Refused() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

// Waiting returns how many reservations wait. Whoever only works ahead holds off while there are any.
func (b *Budget) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiters)
}

// Reserve takes n bytes at once, all or nothing, waiting for others to release theirs.
// It fails with ErrTooLarge at once when n is more than the total, with ErrOverloaded
// after the longest wait, or with the context's cause.
func (b *Budget) Reserve(ctx context.Context, n int64) (*Reservation, error) {
	return b.ReserveOr(ctx, n, func() bool { return false })
}

// ReserveOr is Reserve for a caller that may find what it needs elsewhere, such as memory that is
// reserved already and free: whenever it is the caller's turn, have is asked first. Where that
// reports true, there is no reservation. It is called without locks.
func (b *Budget) ReserveOr(ctx context.Context, n int64, have func() bool) (*Reservation, error) {
	if n < 0 || n > b.total {
		return nil, fmt.Errorf("reserve %d bytes of %d: %w", n, b.total, ErrTooLarge)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if !b.starving(nil) {
		if have() {
			return nil, nil
		}
		if b.take(n, true) {
			return &Reservation{budget: b, n: n}, nil
		}
	}
	return b.wait(ctx, n, have)
}

// TryReserve takes n bytes if they are free now and nobody waits. It asks nobody to give bytes back.
func (b *Budget) TryReserve(n int64) (*Reservation, bool) {
	if n < 0 {
		return nil, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiters) > 0 || !b.grant(n) {
		return nil, false
	}
	return &Reservation{budget: b, n: n}, true
}

// ReserveNow is TryReserve for a caller that may have others give bytes back.
func (b *Budget) ReserveNow(n int64) (*Reservation, bool) {
	if n < 0 || n > b.total || b.Waiting() > 0 || !b.take(n, true) {
		return nil, false
	}
	return &Reservation{budget: b, n: n}, true
}

// TrySwap takes n bytes if they are free now, though others may wait: for a caller that gives back more than n bytes as
// soon as it has them, so that those who wait gain by it.
func (b *Budget) TrySwap(n int64) (*Reservation, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n < 0 || !b.grant(n) {
		return nil, false
	}
	return &Reservation{budget: b, n: n}, true
}

// Nudge lets those that wait try again: something that reclaim gives back has become free to go.
func (b *Budget) Nudge() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wakeFirst()
}

// wait queues up until a try succeeds, the context ends or the longest wait is over.
func (b *Budget) wait(ctx context.Context, n int64, have func() bool) (*Reservation, error) {
	timer := time.NewTimer(b.maxWait)
	defer timer.Stop()
	w := &waiter{since: time.Now(), wake: make(chan struct{}, 1)}
	w.wake <- struct{}{} // bytes released since the first try woke nobody
	b.mu.Lock()
	b.waiters = append(b.waiters, w)
	b.mu.Unlock()
	defer b.leave(w)
	for {
		select {
		case <-w.wake:
			if !b.starving(w) {
				if have() {
					return nil, nil
				}
				if b.take(n, true) {
					return &Reservation{budget: b, n: n}, nil
				}
			}
			b.wakeNext(w)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timer.C:
			b.mu.Lock()
			b.refused++
			b.mu.Unlock()
			return nil, fmt.Errorf("reserve %d bytes of %d, waited %v: %w", n, b.total, b.maxWait, ErrOverloaded)
		}
	}
}

// take grants n bytes, having reclaimed some first if it must and may. It reclaims nothing where that would not be
// enough: the bytes given up would serve nobody, and readers would have to bring them again.
func (b *Budget) take(n int64, mayReclaim bool) bool {
	for {
		b.mu.Lock()
		ok := b.grant(n)
		missing, reclaim, idle := n-(b.total-b.inUse), b.reclaim, b.idle
		b.mu.Unlock()
		if ok || reclaim == nil || !mayReclaim || idle() < missing {
			return ok
		}
		if reclaim(missing) <= 0 {
			mayReclaim = false // one last look: others may have released theirs meanwhile
		}
	}
}

// grant takes n bytes if they are free. The caller holds mu.
func (b *Budget) grant(n int64) bool {
	if n > b.total-b.inUse {
		return false
	}
	b.inUse += n
	b.peak = max(b.peak, b.inUse)
	return true
}

// starving reports whether somebody other than w has waited so long that nobody may pass.
func (b *Budget) starving(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiters) > 0 && b.waiters[0] != w && b.old(b.waiters[0])
}

func (b *Budget) old(w *waiter) bool { return time.Since(w.since) >= b.maxWait/2 }

// wakeFirst begins a round of tries: with the oldest if it has waited long, else with the
// newest. The caller holds mu.
func (b *Budget) wakeFirst() {
	if len(b.waiters) == 0 {
		if b.freed != nil {
			b.freed()
		}
		return
	}
	first := b.waiters[len(b.waiters)-1]
	if b.old(b.waiters[0]) {
		first = b.waiters[0]
	}
	first.poke()
}

// wakeNext hands the round on from w, which could not be served, to the one that came before it.
func (b *Budget) wakeNext(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, v := range b.waiters {
		if v == w && i > 0 {
			b.waiters[i-1].poke()
			return
		}
	}
}

// leave takes w out of the queue, served or not, and begins a new round: what it did not take may serve another.
func (b *Budget) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, v := range b.waiters {
		if v == w {
			b.waiters = append(b.waiters[:i], b.waiters[i+1:]...)
			break
		}
	}
	b.wakeFirst()
}

func (w *waiter) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (b *Budget) release(n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inUse -= n
	if b.inUse < 0 {
		panic("budget: more bytes released than reserved")
	}
	b.wakeFirst()
}

// Reservation is a share of a budget, given back by Release. It is safe for concurrent use.
type Reservation struct {
	budget *Budget
	mu     sync.Mutex // guards n
	n      int64
}

// Size returns the bytes that the reservation holds now.
func (r *Reservation) Size() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// Shrink gives back all but n bytes. It never grows.
func (r *Reservation) Shrink(n int64) {
	r.mu.Lock()
	back := max(r.n-max(n, 0), 0)
	r.n -= back
	r.mu.Unlock()
	r.budget.release(back)
}

// Join moves all bytes of another reservation of the same budget into r.
func (r *Reservation) Join(o *Reservation) {
	n := o.move(o.Size())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n += n
}

// Split moves n bytes, or as many as there are, into a reservation of their own.
func (r *Reservation) Split(n int64) *Reservation {
	return &Reservation{budget: r.budget, n: r.move(n)}
}

// move takes at most n bytes off a reservation that somebody else holds from now on.
func (r *Reservation) move(n int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = min(n, r.n)
	r.n -= n
	return n
}

// Release gives the bytes back. A second call does nothing.
func (r *Reservation) Release() { r.Shrink(0) }
