package published

// Locality is locality-aware loading (Yang and Cong). Every learner has the whole list of a global
// batch, and a copy of a directory that names the learner that caches each sample. Each learner
// takes those samples of the batch that it caches itself. Surplus samples move to learners with a
// deficit.
type Locality struct {
	owner    []uint16 // the directory: the learner that caches each sample
	learners int
}

// NewLocality creates a directory from the caches after the first epoch, in which each learner read
// an equal share of the samples in the given order.
func NewLocality(order []int, learners int) *Locality {
	l := &Locality{owner: make([]uint16, len(order)), learners: learners}
	for i, x := range order {
		l.owner[x] = uint16(i % learners)
	}
	return l
}

// Entries returns the number of entries in every learner's directory.
func (l *Locality) Entries() int { return len(l.owner) }

// Batch divides a global batch. It returns the samples of each learner, the number of samples that
// move from the learner that caches them, and the number of messages that carry these. It
// repeatedly moves samples from the largest surplus to the largest deficit until no deficit is
// left. (The authors store both in heaps, for O(p log p), with the same result.)
func (l *Locality) Batch(samples []int) (shares [][]int, moved, messages int) {
	shares = make([][]int, l.learners)
	for _, x := range samples {
		shares[l.owner[x]] = append(shares[l.owner[x]], x)
	}
	surplus := make([]int, l.learners)
	for r := range shares {
		surplus[r] = len(shares[r]) - (len(samples)*(r+1)/l.learners - len(samples)*r/l.learners)
	}
	for {
		from, to := 0, 0
		for r, s := range surplus {
			if s > surplus[from] {
				from = r
			}
			if s < surplus[to] {
				to = r
			}
		}
		n := min(surplus[from], -surplus[to])
		if n == 0 {
			return shares, moved, messages
		}
		end := len(shares[from])
		shares[to] = append(shares[to], shares[from][end-n:]...)
		shares[from] = shares[from][:end-n]
		surplus[from] -= n
		surplus[to] += n
		moved += n
		messages++
	}
}
