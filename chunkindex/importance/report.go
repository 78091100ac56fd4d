package importance

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Report contains one reader's losses for some positions of one global batch.
type Report struct {
	Plan string // identity of the plan: its canonical query with the generation, but without rank, world size and epoch
	// Reporter is the reporting principal; empty: anonymous. Reports of different principals
	// are stored separately, so that no principal can block or change the losses of another.
	Reporter string
	Epoch    uint64
	Batch    uint64 // number of the global batch
	// The global batch consists of positions First to First+Count-1 of the epoch in the plan.
	First, Count uint64
	Positions    []uint64 // positions of the losses, in any order
	Losses       []float64
}

// Limits of a report.
const (
	maxPlan   = 4096 // maximum bytes of a plan's identity
	maxFaults = 8    // number of invalid positions that an error lists individually
)

// Check validates a report by itself. Its error lists all faults and wraps ErrInvalid.
func (r *Report) Check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if err := checkPlan(keptPlan(r.Plan, r.Reporter)); err != nil {
		faults = append(faults, err)
	}
	switch {
	case r.Count == 0 || r.Count > MaxBatch:
		fault("global batch has %d positions: must be from 1 to %d", r.Count, MaxBatch)
	case r.First > math.MaxInt64-r.Count:
		fault("global batch begins at position %d, which is beyond every epoch", r.First)
	case r.Batch == 0 && r.First != 0 || r.Batch > 0 && (r.First%r.Batch != 0 || r.First/r.Batch < r.Count):
		fault("global batch %d cannot hold the %d positions from %d on", r.Batch, r.Count, r.First)
	}
	if len(r.Positions) == 0 {
		fault("no positions")
	}
	if len(r.Positions) != len(r.Losses) {
		fault("%d positions, but %d losses", len(r.Positions), len(r.Losses))
	}
	faults = append(faults, r.checkPositions()...)
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("report of batch %d of epoch %d: %w: %w", r.Batch, r.Epoch, ErrInvalid, errors.Join(faults...))
}

func (r *Report) checkPositions() []error {
	var faults []error
	more := 0
	fault := func(format string, args ...any) {
		if len(faults) == maxFaults {
			more++
			return
		}
		faults = append(faults, fmt.Errorf(format, args...))
	}
	for i, p := range r.Positions {
		if p < r.First || p-r.First >= r.Count {
			fault("position %d is not in global batch %d, which has positions %d to %d", p, r.Batch, r.First, r.First+r.Count-1)
		}
		if i < len(r.Losses) && (math.IsNaN(r.Losses[i]) || math.IsInf(r.Losses[i], 0)) {
			fault("position %d: loss %v is not finite", p, r.Losses[i])
		}
	}
	sorted := slices.Sorted(slices.Values(r.Positions))
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] && (i == 1 || sorted[i-2] != sorted[i]) {
			fault("position %d is given more than once", sorted[i])
		}
	}
	if more > 0 {
		faults = append(faults, fmt.Errorf("and %d more faults", more))
	}
	return faults
}

// reporterField separates a plan and its reporter in the identity under which reports are stored.
// No plan parameter is named reporter.
const reporterField = "&reporter="

// keptPlan returns the identity under which the reports of one reporter are stored.
func keptPlan(plan, reporter string) string {
	if reporter == "" {
		return plan
	}
	return plan + reporterField + reporter
}

// splitPlan is the inverse of keptPlan.
func splitPlan(kept string) (plan, reporter string) {
	plan, reporter, _ = strings.Cut(kept, reporterField)
	return plan, reporter
}

func checkPlan(plan string) error {
	switch {
	case plan == "":
		return errors.New("no plan")
	case len(plan) > maxPlan:
		return fmt.Errorf("plan has %d bytes: must be at most %d", len(plan), maxPlan)
	case !utf8.ValidString(plan):
		return errors.New("plan is not UTF-8")
	}
	return nil
}

// canonical returns a valid report in its unique form: positions in ascending order, no negative
// zero.
func (r *Report) canonical() *Report {
	c := *r
	c.Plan, c.Reporter = keptPlan(r.Plan, r.Reporter), "" // identity under which the report is stored
	order := make([]int, len(r.Positions))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(r.Positions[a], r.Positions[b]) })
	c.Positions, c.Losses = make([]uint64, len(order)), make([]float64, len(order))
	for to, from := range order {
		c.Positions[to] = r.Positions[from]
		if loss := r.Losses[from]; loss != 0 { // otherwise zero without a sign
			c.Losses[to] = loss
		}
	}
	return &c
}

// Format of a stored report (see docs/spec/importance.md). The last two digits of the magic are the
// version.
const (
	reportMagic  = "MRLOSS01"
	reportHeader = 48
	maxReport    = reportHeader + maxPlan + 12*MaxBatch + 4
)

// encode returns the bytes of a canonical report.
func (r *Report) encode() []byte {
	b := make([]byte, 0, reportHeader+len(r.Plan)+12*len(r.Positions)+4)
	b = append(b, reportMagic...)
	for _, v := range []uint64{r.Epoch, r.Batch, r.First} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	for _, v := range []int{int(r.Count), len(r.Positions), len(r.Plan), 0} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	b = append(b, r.Plan...)
	for _, p := range r.Positions {
		b = binary.LittleEndian.AppendUint32(b, uint32(p-r.First))
	}
	for _, loss := range r.Losses {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(loss))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli()))
}

// decodeReport decodes the output of encode and rejects all other bytes, because each report has a
// unique form.
func decodeReport(b []byte) (*Report, error) {
	if len(b) < reportHeader+4 || string(b[:6]) != reportMagic[:6] {
		return nil, corrupt("not a report of losses")
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli()) != binary.LittleEndian.Uint32(b[len(body):]) {
		return nil, corrupt("checksum is wrong")
	}
	if v := string(b[6:8]); v != reportMagic[6:] {
		return nil, fmt.Errorf("version %q: %w", v, ErrVersion)
	}
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	half := func(at int) uint64 { return uint64(binary.LittleEndian.Uint32(b[at:])) }
	r := &Report{Epoch: word(8), Batch: word(16), First: word(24), Count: half(32)}
	n, plan := half(36), half(40)
	if n > MaxBatch || plan > maxPlan || half(44) != 0 || uint64(len(body)) != reportHeader+plan+12*n {
		return nil, corrupt("counts do not fit its %d bytes", len(b))
	}
	rest := body[reportHeader:]
	r.Plan, rest = string(rest[:plan]), rest[plan:]
	r.Positions, r.Losses = make([]uint64, n), make([]float64, n)
	for i := range r.Positions {
		r.Positions[i] = r.First + uint64(binary.LittleEndian.Uint32(rest[4*i:]))
		r.Losses[i] = math.Float64frombits(binary.LittleEndian.Uint64(rest[4*n+8*uint64(i):]))
		if i > 0 && r.Positions[i] <= r.Positions[i-1] {
			return nil, corrupt("positions do not ascend")
		}
		if r.Losses[i] == 0 && math.Signbit(r.Losses[i]) {
			return nil, corrupt("position %d: its loss is negative zero", r.Positions[i])
		}
	}
	if err := r.Check(); err != nil {
		return nil, corrupt("%w", err)
	}
	return r, nil
}

// planHash returns the name that keys use for a plan.
func planHash(plan string) string {
	sum := sha256.Sum256([]byte(plan))
	return hex.EncodeToString(sum[:])
}

// positionsHash returns the hash of a canonical report's positions for its key.
func (r *Report) positionsHash() string {
	h := sha256.New()
	var word [8]byte
	for _, p := range r.Positions {
		binary.LittleEndian.PutUint64(word[:], p)
		h.Write(word[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
