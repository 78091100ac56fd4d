package client

import (
	"crypto/sha256"
	"fmt"
	"math/bits"
	"strings"
	"sync"
)

// deliveries proves that an epoch delivered every sample exactly once, regardless of the number of
// readers that shared it. The readers of all ranks add their batches, which need Options.Manifest.
// Check reports missing samples at the end.
//
// Without faults, S positions and S different samples were delivered, each exactly once. S is the
// number of samples in the dataset or in Options.Subset. The bytes of each sample matched the
// CRC-32C of the manifest. Keys are unique in a shard, so these are all samples. It does not prove
// that the bytes are those that were originally packed; "millrace verify" does.
//
// It needs one bit per position and 16 bytes per sample, plus map overhead, for delivered samples
// only. A gateway that announces a huge dataset therefore costs no memory. It is safe for concurrent
// use.
type deliveries struct {
	mu      sync.Mutex // guards the fields below
	samples uint64
	seen    uint64
	came    uint64                // number of distinct positions delivered
	bits    map[uint64]uint64     // bitmaps of 64 positions
	keys    map[[16]byte]struct{} // digests of shards and keys; nil: samples may repeat
	faults  []string
	more    int
}

// maxFaults bounds the faults that Check lists. Further faults are only counted.
const maxFaults = 10

// newDeliveries returns the deliveries of an epoch with the given number of positions. If samples
// may repeat, as draws by importance and substitutes of a quarantine do, it stores no keys.
func newDeliveries(positions uint64, repeat bool) *deliveries {
	d := &deliveries{samples: positions, bits: map[uint64]uint64{}}
	if !repeat {
		d.keys = map[[16]byte]struct{}{}
	}
	return d
}

// Add records the samples of a batch, without padding.
func (l *deliveries) Add(b *Batch) {
	b.needManifest()
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b.manifest) - int(min(b.Padded, uint64(len(b.manifest))))
	for i, s := range b.manifest {
		if b.Micro == nil && i < n || b.Micro != nil && (s.Position < l.samples || b.Padded == 0) {
			l.note(b, s)
		}
	}
}

func (l *deliveries) note(b *Batch, s Sample) {
	l.seen++
	if s.Position >= l.samples {
		l.fault("position %d in batch %d is beyond the %d samples of the epoch", s.Position, b.Number, l.samples)
		return
	}
	word, bit := s.Position/64, uint64(1)<<(s.Position%64)
	if l.bits[word]&bit != 0 {
		l.fault("position %d (%q) was delivered again in batch %d", s.Position, s.Key, b.Number)
	} else {
		l.bits[word] |= bit
		l.came++
	}
	if l.keys == nil {
		return
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%v\x00%s", s.Shard, s.Key)) // keys are unique only within a shard
	id := [16]byte(sum[:16])
	if _, ok := l.keys[id]; ok {
		l.fault("sample %q of shard %v was delivered again in batch %d", s.Key, s.Shard, b.Number)
	}
	l.keys[id] = struct{}{}
}

func (l *deliveries) fault(format string, args ...any) {
	if len(l.faults) == maxFaults {
		l.more++
		return
	}
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// Seen returns the number of added samples, without padding.
func (l *deliveries) Seen() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// Missing returns the number of positions not delivered yet.
func (l *deliveries) Missing() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.samples - l.came
}

// firstMissing returns the lowest position not delivered yet.
func (l *deliveries) firstMissing() uint64 {
	for n := uint64(0); ; n++ {
		if w := l.bits[n]; w != ^uint64(0) {
			return n*64 + uint64(bits.TrailingZeros64(^w))
		}
	}
}

// DeliveryError describes how the deliveries differ from exactly once.
type DeliveryError struct {
	Missing uint64
	First   uint64   // lowest missing position
	Faults  []string // the first duplicates and invalid positions
	More    int      // number of faults not in Faults
}

func (e *DeliveryError) Error() string {
	var parts []string
	if e.Missing > 0 {
		parts = append(parts, fmt.Sprintf("%d samples missing, the first at position %d", e.Missing, e.First))
	}
	parts = append(parts, e.Faults...)
	if e.More > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", e.More))
	}
	return "samples not delivered exactly once: " + strings.Join(parts, "; ")
}

// Check returns nil if every sample was delivered exactly once, otherwise a *DeliveryError.
func (l *deliveries) Check() error { return l.check(false) }

// CheckPart returns nil if no sample was delivered twice. It ignores missing samples, for a part of
// an epoch or one rank.
func (l *deliveries) CheckPart() error { return l.check(true) }

func (l *deliveries) check(part bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &DeliveryError{Faults: l.faults, More: l.more}
	if !part {
		e.Missing = l.samples - l.came
		e.First = l.firstMissing()
	}
	if e.Missing == 0 && len(e.Faults) == 0 {
		return nil
	}
	return e
}
