// Package budget counts in one place the bytes that a process may hold: every component that needs
// much memory reserves it first. The package does not know the use of the bytes.
//
// A reservation is all or nothing, so no caller holds a part of its bytes while it waits for the
// rest. Before a reservation waits, the budget calls the function of SetReclaim, by which a cache
// gives up bytes that it only keeps for later.
//
// Of the waiting reservations, the newest is served first, because its caller is the least likely
// to have given up. After half of the longest wait the oldest goes first, so that small
// reservations cannot overtake a large one until it fails.
//
// Two kinds of reservations may pass the oldest: those that are served while it is the oldest's
// turn, and tries, which never wait (TryReserve, ReserveNow). They may pass in two cases: the bytes
// of the oldest are free and remain free, or all reservations that have passed hold at most as many
// bytes as the oldest waits for. In the second case they also hold at most the rest of the total.
// So once the oldest goes first, it is served at the latest when the bytes then in use are
// released, even if the reservations that passed it keep theirs. A reservation that waits for much
// of the total does not stop small ones.
package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrTooLarge reports that a reservation can never be met, ErrOverloaded that it was not met in
// time.
var (
	ErrTooLarge   = errors.New("larger than the memory budget")
	ErrOverloaded = errors.New("memory budget exhausted")
)

// TooLargeError is the ErrTooLarge of a reservation.
type TooLargeError struct{ Wanted, Total int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("reserve %d bytes of %d: %v", e.Wanted, e.Total, ErrTooLarge)
}

// Unwrap returns ErrTooLarge.
func (e *TooLargeError) Unwrap() error { return ErrTooLarge }

// DefaultWait is the longest wait for a reservation if New gets no other.
const DefaultWait = 2 * time.Second

// Budget is a number of bytes shared by all components that need memory. It is safe for concurrent
// use.
type Budget struct {
	total   int64
	maxWait time.Duration

	mu      sync.Mutex // guards the fields below; never held while reclaim runs
	inUse   int64
	peak    int64
	refused int64     // number of waits that timed out
	waiters []*waiter // in order of arrival
	holder  holder
	freed   func()
}

// holder gives up bytes that other callers need. Its functions may be nil.
type holder struct {
	reclaim func(n int64) int64
	idle    func() int64
}

type waiter struct {
	n      int64
	since  time.Time
	wake   chan struct{} // holds a token when the waiter should try again
	passed int64         // bytes in use that were granted to others while this waiter was the oldest
}

// New returns a budget of total bytes. A reservation waits at most maxWait, 0 means DefaultWait.
func New(total int64, maxWait time.Duration) *Budget {
	if maxWait <= 0 {
		maxWait = DefaultWait
	}
	return &Budget{total: max(total, 0), maxWait: maxWait}
}

// SetReclaim sets the functions of a holder of bytes that can be given up. reclaim releases some of
// the holder's own reservations, n bytes if possible, and returns the number of bytes released.
// idle returns how many bytes it could release now. Both are called without locks, perhaps
// concurrently, from a goroutine that needs the bytes or the sum.
func (b *Budget) SetReclaim(reclaim func(n int64) int64, idle func() int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holder = holder{reclaim, idle}
}

// SetFreed sets the function that is called when bytes were released, or may be reclaimed now, and
// no reservation waits for them. It is for read-ahead, which never waits. The function is called
// under the budget's lock, from any goroutine, so it must be quick and must not call the budget.
func (b *Budget) SetFreed(freed func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.freed = freed
}

// Total returns the size of the budget.
func (b *Budget) Total() int64 { return b.total }

// InUse returns the bytes reserved now.
func (b *Budget) InUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inUse
}

// Pinned returns the bytes reserved now that reclaiming would not free: a budget that a cache has
// filled is not short of memory. It is a snapshot, and inexact by the bytes that are reserved and
// released meanwhile.
func (b *Budget) Pinned() int64 {
	b.mu.Lock()
	inUse, idle := b.inUse, b.holder.idle
	b.mu.Unlock()
	if idle == nil {
		return inUse
	}
	return max(inUse-idle(), 0)
}

// Peak returns the largest number of bytes ever reserved at once.
func (b *Budget) Peak() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peak
}

// Refused returns the number of waits that timed out.
func (b *Budget) Refused() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

// Waiting returns the number of waiting reservations. Read-ahead pauses while there are any.
func (b *Budget) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiters)
}

// Reserve reserves n bytes, all or nothing, and waits for other reservations to be released. It
// fails with ErrTooLarge at once if n is more than the total, with ErrOverloaded after the longest
// wait, or with the context's cause.
func (b *Budget) Reserve(ctx context.Context, n int64) (*Reservation, error) {
	return b.ReserveOr(ctx, n, func() bool { return false })
}

// ReserveOr does the same as Reserve for a caller that may get its bytes elsewhere, such as from
// free memory that it has reserved already. Whenever it is the caller's turn, have is called first.
// If have returns true, the reservation is nil. have is called without locks.
func (b *Budget) ReserveOr(ctx context.Context, n int64, have func() bool) (*Reservation, error) {
	if n < 0 || n > b.total {
		return nil, &TooLargeError{n, b.total}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if r, ok := b.serve(n, nil, have); ok {
		return r, nil
	}
	return b.wait(ctx, n, have)
}

// TryReserve reserves n bytes if they are free now and fit in addition to the oldest waiting
// reservation. It reclaims nothing.
func (b *Budget) TryReserve(n int64) (*Reservation, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.grant(n, b.oldest())
}

// ReserveNow does the same as TryReserve, but may reclaim bytes by the functions of SetReclaim.
func (b *Budget) ReserveNow(n int64) (*Reservation, bool) {
	b.mu.Lock()
	h := b.holder
	b.mu.Unlock()
	return b.ReserveFrom(n, h.reclaim, h.idle)
}

// ReserveFrom does the same as ReserveNow, with other functions than those of SetReclaim.
func (b *Budget) ReserveFrom(n int64, reclaim func(n int64) int64, idle func() int64) (*Reservation, bool) {
	b.mu.Lock()
	oldest := b.oldest()
	b.mu.Unlock()
	return b.take(n, oldest, holder{reclaim, idle})
}

// TrySwap reserves n bytes if they are free now, even if other reservations wait. The caller must
// release more than n bytes right afterwards, so that waiting reservations gain bytes.
func (b *Budget) TrySwap(n int64) (*Reservation, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.grant(n, nil)
}

// Nudge lets waiting reservations try again, because more bytes can be reclaimed.
func (b *Budget) Nudge() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wakeFirst()
}

// wait queues a reservation until an attempt succeeds, the context ends or the longest wait is
// over.
func (b *Budget) wait(ctx context.Context, n int64, have func() bool) (*Reservation, error) {
	timer := time.NewTimer(b.maxWait)
	defer timer.Stop()
	w := &waiter{n: n, since: time.Now(), wake: make(chan struct{}, 1)}
	w.wake <- struct{}{} // bytes released since the first attempt did not wake this waiter
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

// serve grants n bytes to a reservation that waits as w, or is about to wait (w is nil): in its
// turn, or before the oldest. If have returns true, serve returns a nil reservation and true.
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

// take does the same as grant, but h may release the missing bytes. It reclaims nothing if h could
// not release enough: the bytes would help no reservation, and readers would have to load them
// again.
func (b *Budget) take(n int64, first *waiter, h holder) (*Reservation, bool) {
	for mayReclaim := h.reclaim != nil; ; {
		b.mu.Lock()
		r, ok := b.grant(n, first)
		fits, missing := b.fits(n, first), n-(b.total-b.inUse)
		b.mu.Unlock()
		if ok || !fits || !mayReclaim || h.idle() < missing {
			return r, ok
		}
		mayReclaim = h.reclaim(missing) > 0 // otherwise try again, since other reservations may have been released meanwhile
	}
}

// grant reserves n bytes if they are free and fit in addition to first, the waiter that goes first.
// If first is nil, it is this reservation's turn. The caller holds mu, as for the methods below.
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

// fits reports whether n bytes fit in addition to the waiter that goes first.
func (b *Budget) fits(n int64, first *waiter) bool {
	if first == nil {
		return true
	}
	free := b.total - b.inUse
	return free-n >= first.n || free < first.n && first.passed+n <= min(first.n, b.total-first.n)
}

// oldest returns the reservation that has waited longest, or nil.
func (b *Budget) oldest() *waiter {
	if len(b.waiters) == 0 {
		return nil
	}
	return b.waiters[0]
}

func (b *Budget) old(w *waiter) bool { return time.Since(w.since) >= b.maxWait/2 }

// wakeFirst begins a round of attempts.
func (b *Budget) wakeFirst() {
	if len(b.waiters) == 0 {
		if b.freed != nil {
			b.freed()
		}
		return
	}
	b.waiters[b.first()].poke()
}

// first returns the index of the waiter that begins a round: the oldest if it has waited long
// enough, otherwise the newest.
func (b *Budget) first() int {
	if b.old(b.waiters[0]) {
		return 0
	}
	return len(b.waiters) - 1
}

// wakeNext continues the round after w could not be served. Next is the waiter that arrived before
// w; after the oldest comes the newest.
func (b *Budget) wakeNext(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.waiters)
	if next := (slices.Index(b.waiters, w) + n - 1) % n; next != b.first() {
		b.waiters[next].poke()
	}
}

// leave removes w from the queue, served or not, and begins a new round, because the bytes that w
// did not use may serve another waiter.
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

// Reservation is a share of a budget, freed by Release. It is safe for concurrent use.
type Reservation struct {
	budget *Budget
	mu     sync.Mutex // guards the fields below
	n      int64
	passed *waiter // the waiter whose field passed includes all bytes of this reservation; nil: none
}

// Size returns the bytes that the reservation holds now.
func (r *Reservation) Size() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// Passed reports whether the reservation was granted before its turn. Its bytes should be released
// as soon as they are not needed, and not be kept for reuse, because other reservations wait for
// them.
func (r *Reservation) Passed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.passed != nil
}

// Shrink releases all but n bytes. It never grows the reservation.
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
		r.passed = nil // it is unknown which of the bytes passed the waiter; they count until that waiter leaves
	}
}

// Split moves n bytes, or all if there are fewer, into a new reservation.
func (r *Reservation) Split(n int64) *Reservation {
	n, passed := r.move(n)
	return &Reservation{budget: r.budget, n: n, passed: passed}
}

// move removes at most n bytes from a reservation, for another reservation.
func (r *Reservation) move(n int64) (moved int64, passed *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = min(n, r.n)
	r.n -= n
	return n, r.passed
}

// Release releases all bytes. A second call does nothing.
func (r *Reservation) Release() { r.Shrink(0) }
