// Package budget counts the bytes a process may hold, in one place: whatever grows
// reserves first. It knows nothing of what the bytes are for.
//
// A reservation is all or nothing, so nobody holds a part of what it needs while it waits
// for the rest. What a cache holds for later yields to whoever needs bytes now: the
// budget asks it through the hook of SetReclaim before it lets anybody wait.
//
// Of the reservations that wait, the newest is served first, because it is the likeliest
// to be still wanted when it is done. After half of the limit the oldest goes first, so
// that a large reservation is not overtaken by small ones until it gives up.
//
// A reservation passes the oldest, because that goes first or because it does not wait
// itself, only if both fit: it leaves the bytes that the oldest could take now, and all
// that have passed hold at most as many bytes as the oldest waits for, and never more
// than the total has beside those. So once it goes first, the oldest is served at the
// latest when the bytes that were in use by then are released, even if those that passed
// it keep theirs. And one that waits for much of the total does not stop small ones.
package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	holder  holder
	freed   func()
}

// holder gives bytes back to those who need them. Its functions may be nil: it has none.
type holder struct {
	reclaim func(n int64) int64
	idle    func() int64
}

type waiter struct {
	n      int64
	since  time.Time
	wake   chan struct{} // holds one token: try again
	passed int64         // bytes in use that were granted while it was the oldest and it was not their turn
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
	b.holder = holder{reclaim, idle}
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
	inUse, idle := b.inUse, b.holder.idle
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
	if r, ok := b.serve(n, nil, have); ok {
		return r, nil
	}
	return b.wait(ctx, n, have)
}

// TryReserve takes n bytes if they are free now and fit beside the oldest reservation that waits. It reclaims nothing.
func (b *Budget) TryReserve(n int64) (*Reservation, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.grant(n, b.oldest())
}

// ReserveNow is TryReserve for a caller that may have others give bytes back.
func (b *Budget) ReserveNow(n int64) (*Reservation, bool) {
	b.mu.Lock()
	h := b.holder
	b.mu.Unlock()
	return b.ReserveFrom(n, h.reclaim, h.idle)
}

// ReserveFrom is ReserveNow where bytes are given back by functions as those of SetReclaim.
func (b *Budget) ReserveFrom(n int64, reclaim func(n int64) int64, idle func() int64) (*Reservation, bool) {
	b.mu.Lock()
	oldest := b.oldest()
	b.mu.Unlock()
	return b.take(n, oldest, holder{reclaim, idle})
}

// TrySwap takes n bytes if they are free now, though others may wait: for a caller that gives back more than n bytes as
// soon as it has them, so that those who wait gain by it.
func (b *Budget) TrySwap(n int64) (*Reservation, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.grant(n, nil)
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
	w := &waiter{n: n, since: time.Now(), wake: make(chan struct{}, 1)}
	w.wake <- struct{}{} // bytes released since the first try woke nobody
	b.mu.Lock()
	b.waiters = append(b.waiters, w)
	b.mu.Unlock()
	defer b.leave(w)
	for {
		select {
		case <-w.wake:
			if r, ok := b.serve(n, w, have); ok {
				return r, nil
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

// serve grants n bytes to a reservation that waits, or is about to (w is nil): in its turn, or past the oldest. A nil
// reservation says that have reported true.
func (b *Budget) serve(n int64, w *waiter, have func() bool) (*Reservation, bool) {
	b.mu.Lock()
	first := b.oldest()
	if first == w || first != nil && !b.old(first) {
		first = nil
	}
	h := b.holder
	b.mu.Unlock()
	if first == nil && have() {
		return nil, true
	}
	return b.take(n, first, h)
}

// take is grant, and has h give back what is missing. It reclaims nothing where that would not be enough: the bytes given
// up would serve nobody, and readers would have to bring them again.
func (b *Budget) take(n int64, first *waiter, h holder) (*Reservation, bool) {
	for mayReclaim := h.reclaim != nil; ; {
		b.mu.Lock()
		r, ok := b.grant(n, first)
		fits, missing := b.fits(n, first), n-(b.total-b.inUse)
		b.mu.Unlock()
		if ok || !fits || !mayReclaim || h.idle() < missing {
			return r, ok
		}
		mayReclaim = h.reclaim(missing) > 0 // else one last look: others may have released theirs meanwhile
	}
}

// grant takes n bytes if they are free and fit beside the waiter that goes first; nil: it is their turn. The caller
// holds mu, as in what follows.
func (b *Budget) grant(n int64, first *waiter) (*Reservation, bool) {
	if n < 0 || n > b.total-b.inUse || !b.fits(n, first) {
		return nil, false
	}
	b.inUse += n
	b.peak = max(b.peak, b.inUse)
	if first != nil {
		first.passed += n
	}
	return &Reservation{budget: b, n: n, passed: first}, true
}

// fits reports whether n bytes fit beside the waiter that goes first.
func (b *Budget) fits(n int64, first *waiter) bool {
	if first == nil {
		return true
	}
	free := b.total - b.inUse
	return free-n >= first.n || free < first.n && first.passed+n <= min(first.n, b.total-first.n)
}

// oldest returns the reservation that has waited longest, nil if none waits.
func (b *Budget) oldest() *waiter {
	if len(b.waiters) == 0 {
		return nil
	}
	return b.waiters[0]
}

func (b *Budget) old(w *waiter) bool { return time.Since(w.since) >= b.maxWait/2 }

// wakeFirst begins a round of tries.
func (b *Budget) wakeFirst() {
	if len(b.waiters) == 0 {
		if b.freed != nil {
			b.freed()
		}
		return
	}
	b.waiters[b.first()].poke()
}

// first returns which waiter begins a round: the oldest if it has waited long, else the newest.
func (b *Budget) first() int {
	if b.old(b.waiters[0]) {
		return 0
	}
	return len(b.waiters) - 1
}

// wakeNext hands the round on from w, which could not be served: to the one that came before it, or from the oldest to
// the newest.
func (b *Budget) wakeNext(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.waiters)
	if next := (slices.Index(b.waiters, w) + n - 1) % n; next != b.first() {
		b.waiters[next].poke()
	}
}

// leave takes w out of the queue, served or not, and begins a new round: what it did not take may serve another.
func (b *Budget) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiters, w)
	b.waiters = slices.Delete(b.waiters, i, i+1)
	b.wakeFirst()
}

func (w *waiter) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (b *Budget) release(n int64, passed *waiter) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inUse -= n
	if passed != nil {
		passed.passed -= n
	}
	if b.inUse < 0 {
		panic("budget: more bytes released than reserved")
	}
	b.wakeFirst()
}

// Reservation is a share of a budget, given back by Release. It is safe for concurrent use.
type Reservation struct {
	budget *Budget
	mu     sync.Mutex // guards what follows
	n      int64
	passed *waiter // the one that all its bytes count for in waiter.passed; nil: none
}

// Size returns the bytes that the reservation holds now.
func (r *Reservation) Size() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// Passed reports whether the reservation was granted before its turn. Such bytes are to be released as soon as they are
// not needed, rather than kept to be used again: others wait for them.
func (r *Reservation) Passed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.passed != nil
}

// Shrink gives back all but n bytes. It never grows.
func (r *Reservation) Shrink(n int64) {
	r.mu.Lock()
	back, passed := max(r.n-max(n, 0), 0), r.passed
	r.n -= back
	r.mu.Unlock()
	r.budget.release(back, passed)
}

// Join moves all bytes of another reservation of the same budget into r.
func (r *Reservation) Join(o *Reservation) {
	n, passed := o.move(o.Size())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n += n
	if r.passed != passed {
		r.passed = nil // which of the bytes have passed is not known any more: they count until that waiter leaves
	}
}

// Split moves n bytes, or as many as there are, into a reservation of their own.
func (r *Reservation) Split(n int64) *Reservation {
	n, passed := r.move(n)
	return &Reservation{budget: r.budget, n: n, passed: passed}
}

// move takes at most n bytes off a reservation that somebody else holds from now on.
func (r *Reservation) move(n int64) (moved int64, passed *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = min(n, r.n)
	r.n -= n
	return n, r.passed
}

// Release gives the bytes back. A second call does nothing.
func (r *Reservation) Release() { r.Shrink(0) }
