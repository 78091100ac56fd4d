package client

import (
	"crypto/sha256"
	"fmt"
	"math/bits"
	"strings"
	"sync"
)

// Ledger proves that an epoch delivered every sample exactly once, whoever read which
// part of it. Readers of all ranks add their batches, which need Options.Manifest; Check
// tells at the end what is missing.
//
// What a ledger without complaint proves: S positions and S different keys of shards were
// delivered, none of either twice, where S is the number of samples of the dataset or of Options.Subset, and
// the bytes of each matched the manifest's CRC-32C. As keys are unique in a shard, these are all of its
// samples. It does not prove that the bytes are those that once were packed: that is what
// "millrace verify" does.
//
// It holds one bit per position and 16 bytes of a digest per sample, map overhead apart, and only
// for what was delivered: a gateway that announces a vast dataset costs nothing. It is safe
// for concurrent use.
type Ledger struct {
	mu      sync.Mutex // guards what follows
	samples uint64
	seen    uint64
	padded  uint64
	came    uint64                // different positions
	bits    map[uint64]*page      // of positions, by page number
	keys    map[[16]byte]struct{} // nil: a sample may come again
	faults  []string
	more    int
}

// maxFaults bounds how many faults Check names; the rest are counted.
const maxFaults = 10

// page holds the bits of neighbouring positions. It is small, so that a gateway which
// scatters positions makes the ledger hold little more than what it had to send.
type page [64]uint64

// pagePositions is how many positions a page has.
const pagePositions = 64 * 64

// NewLedger returns a ledger for an epoch of this many samples.
func NewLedger(samples uint64) *Ledger {
	return &Ledger{samples: samples, bits: map[uint64]*page{}, keys: map[[16]byte]struct{}{}}
}

// NewDrawLedger returns a ledger for an epoch of this many draws by Options.Importance, or of positions whose bad samples
// others replace by Options.Quarantine: every position must come exactly once, while a sample may come again. It holds no keys.
func NewDrawLedger(draws uint64) *Ledger {
	return &Ledger{samples: draws, bits: map[uint64]*page{}}
}

// Add notes the samples of a batch. Samples that only pad the last batch are counted apart.
func (l *Ledger) Add(b *Batch) {
	b.needManifest()
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b.manifest) - int(min(b.Padded, uint64(len(b.manifest))))
	l.padded += uint64(len(b.manifest) - n)
	for _, s := range b.manifest[:n] {
		l.note(b, s)
	}
}

func (l *Ledger) note(b *Batch, s Sample) {
	l.seen++
	if s.Position >= l.samples {
		l.fault("position %d in batch %d is beyond the %d samples of the epoch", s.Position, b.Number, l.samples)
		return
	}
	p := l.bits[s.Position/pagePositions]
	if p == nil {
		p = new(page)
		l.bits[s.Position/pagePositions] = p
	}
	word, bit := s.Position%pagePositions/64, uint64(1)<<(s.Position%64)
	if p[word]&bit != 0 {
		l.fault("position %d (%q) came again in batch %d", s.Position, s.Key, b.Number)
	} else {
		p[word] |= bit
		l.came++
	}
	if l.keys == nil {
		return
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%v\x00%s", s.Shard, s.Key)) // several shards may have one key
	id := [16]byte(sum[:16])
	if _, ok := l.keys[id]; ok {
		l.fault("sample %q of shard %v came again in batch %d", s.Key, s.Shard, b.Number)
	}
	l.keys[id] = struct{}{}
}

func (l *Ledger) fault(format string, args ...any) {
	if len(l.faults) == maxFaults {
		l.more++
		return
	}
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// Seen returns how many samples were added, padding apart.
func (l *Ledger) Seen() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// Missing returns how many positions have not come yet.
func (l *Ledger) Missing() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.samples - l.came
}

// firstMissing returns the lowest position that has not come.
func (l *Ledger) firstMissing() uint64 {
	for n := uint64(0); ; n++ {
		p := l.bits[n]
		if p == nil {
			return n * pagePositions
		}
		for i, w := range p {
			if w != ^uint64(0) {
				return n*pagePositions + uint64(i)*64 + uint64(bits.TrailingZeros64(^w))
			}
		}
	}
}

// LedgerError says how the deliveries differ from exactly once.
type LedgerError struct {
	Missing uint64
	First   uint64   // the lowest position that is missing
	Faults  []string // what came twice or does not exist, the first few
	More    int      // how many faults are not named
}

func (e *LedgerError) Error() string {
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

// Check returns nil if every sample came exactly once, else a *LedgerError.
func (l *Ledger) Check() error { return l.check(false) }

// CheckPart returns nil if no sample came twice, whether or not all came: for part of an epoch, or one rank.
func (l *Ledger) CheckPart() error { return l.check(true) }

func (l *Ledger) check(part bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &LedgerError{Faults: l.faults, More: l.more}
	if !part {
		e.Missing = l.samples - l.came
		e.First = l.firstMissing()
	}
	if e.Missing == 0 && len(e.Faults) == 0 {
		return nil
	}
	return e
}
