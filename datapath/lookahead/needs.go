package lookahead

import (
	"math"
	"slices"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// Need is a chunk within the horizon that some reader comes for.
type Need struct {
	Place
	Deadline time.Time // when the reader that comes for it first would stall for want of it
	Samples  uint64    // of the chunk, still to be delivered while it is within the horizon, for each reader
	First    bool      // the reader waits for its first batch
	Plan     *shuffle.Plan
}

// Needs returns what readers need now and soon, each chunk once, ascending by deadline, whether it is in memory or not. The
// deadline is the instant at which the reader would come to the chunk's samples if nothing but its own think time kept it:
// now + (start of the span - the reader's position) / demand. Readers that have gone are forgotten.
func (r *Readers) Needs(now time.Time) []Need {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	n := 0
	for _, x := range r.readers {
		n += len(x.queue)
	}
	needs := make([]Need, 0, n)
	for _, x := range r.readers {
		if x.announced {
			continue // whoever announced it brings what it needs
		}
		rate := x.rate()
		for _, u := range x.queue {
			if u.end() <= x.at.First {
				continue // delivered since the horizon was worked out
			}
			needs = append(needs, Need{
				Place:    Place{x.dataset, int(u.Chunk)},
				Deadline: now.Add(takes(u.start-min(x.at.First, u.start), rate)),
				Samples:  u.left(x.at.First),
				First:    !x.served,
				Plan:     x.at.Plan,
			})
		}
	}
	if len(r.readers) > 1 {
		slices.SortStableFunc(needs, func(a, b Need) int { return a.Deadline.Compare(b.Deadline) })
	}
	if r.shared {
		needs = r.once(needs)
	}
	return needs
}

// left is how many of the chunk's samples are delivered from a position on.
func (u *use) left(at uint64) uint64 {
	if u.start >= at {
		return u.Samples
	}
	return uint64(math.Ceil(float64(u.Samples) * float64(u.end()-at) / float64(u.To-u.From)))
}

// once leaves the first need of each chunk.
func (r *Readers) once(needs []Need) []Need {
	clear(r.listed)
	out := needs[:0]
	for _, n := range needs {
		if i, ok := r.listed[n.Place]; ok {
			out[i].Samples += n.Samples
			out[i].First = out[i].First && n.First
			continue
		}
		r.listed[n.Place] = len(out)
		out = append(out, n)
	}
	return out
}

// Forget forgets readers that have gone, and with them what only they come for.
func (r *Readers) Forget(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
}

func (r *Readers) forget(now time.Time) {
	if r.dropIdle(now) {
		r.anchor(now)
		r.expect()
	}
	r.stand(now)
}
