// Package ledger reads, writes and checks ledgers: the records of the positions that the ranks of a
// run have read. The format is specified in docs/spec/state.md.
package ledger

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"net/url"
	"slices"
	"strings"
)

// version is the version of the format that this package reads and writes.
const version = 1

// Place is a position of an epoch: epoch, position.
type Place [2]uint64

// Compare orders places as a run reads them.
func (p Place) Compare(q Place) int { return slices.Compare(p[:], q[:]) }

func (p Place) String() string { return fmt.Sprintf("%d:%d", p[0], p[1]) }

// Range is positions of an epoch: epoch, first position, end.
type Range [3]uint64

// Plan is the plan digest of a state from a place on, until that of the next Plan.
type Plan struct {
	At     Place  `json:"at"`
	Digest string `json:"digest"`
}

// NewPlan returns the Plan of a digest that a gateway lists for the positions of a run after the given
// one. samples is the number of positions of an epoch.
func NewPlan(position, samples uint64, digest string) Plan {
	n := max(samples, 1)
	return Plan{Place{position / n, position % n}, digest}
}

// PlanAt returns the plan digest of a state at a place. The last plan that begins before the place has
// it, otherwise the first plan. PlanAt returns "" if there are no plans.
func PlanAt(plans []Plan, at Place) (digest string) {
	for i, d := range plans {
		if i == 0 || d.At.Compare(at) < 0 {
			digest = d.Digest
		}
	}
	return digest
}

// Part is the record of one rank from a start or resume of its run until the next one.
type Part struct {
	Version    int      `json:"ledger"`
	Previous   []string `json:"previous"` // digests of the parts before the resume
	Attempt    uint64   `json:"attempt"`  // number of resumes before this part
	Generation string   `json:"generation"`
	Plans      []Plan   `json:"plans"` // several for a mixture with a schedule
	URL        string   `json:"url"`   // canonical path and query of the epoch of Start, without rank
	Rank       uint64   `json:"rank"`
	Ranks      uint64   `json:"ranks"`
	Positions  uint64   `json:"positions"` // positions that an epoch delivers, without padding
	Start      Place    `json:"start"`
	Read       []Range  `json:"read"`               // global positions; of each batch the rank has read its share
	Filtered   []Range  `json:"filtered,omitempty"` // positions read and omitted by a filter
	Failed     []Range  `json:"failed,omitempty"`   // positions read and omitted because they could not be decoded
	Replaced   []Range  `json:"replaced,omitempty"` // positions read whose value the reader has replaced

	Digest string `json:"-"` // identifies the part, for Previous of the next one
}

// Add records that the rank has read its share of the positions [first, end) of an epoch.
func (p *Part) Add(epoch, first, end uint64) {
	if n := len(p.Read); n > 0 && p.Read[n-1][0] == epoch && p.Read[n-1][2] == first {
		p.Read[n-1][2] = end
	} else if first < end {
		p.Read = append(p.Read, Range{epoch, first, end})
	}
}

// Resume makes the part continue the ledgers of all ranks in a checkpoint, in any order.
func (p *Part) Resume(ledgers string) error {
	parts, err := Parse([]byte(ledgers))
	if err != nil {
		return err
	}
	var last []Part // of the latest attempt
	for _, q := range parts {
		if q.Attempt >= p.Attempt {
			last, p.Attempt = nil, q.Attempt+1
		}
		if q.Attempt+1 == p.Attempt {
			last = append(last, q)
		}
	}
	slices.SortFunc(last, func(a, b Part) int { return cmp.Compare(a.Rank, b.Rank) })
	for i, q := range last {
		if q.Rank != uint64(i) || q.Ranks != uint64(len(last)) {
			return fmt.Errorf("%d ledgers, one of them of rank %d of %d: give those of all ranks in one checkpoint", len(last), q.Rank, q.Ranks)
		}
		if q.Rank%p.Ranks == p.Rank {
			p.Previous = append(p.Previous, q.Digest)
		}
	}
	if len(last) > 0 && len(p.Previous) == 0 {
		p.Previous = []string{last[0].Digest}
	}
	return nil
}

// Line returns the part as a line of a ledger, and sets Digest.
func (p *Part) Line() ([]byte, error) {
	p.Version = version
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false) // the URL keeps its &
	if err := e.Encode(p); err != nil {
		return nil, fmt.Errorf("write ledger: %w", err)
	}
	p.Digest = digest(bytes.TrimSuffix(out.Bytes(), []byte("\n")))
	return out.Bytes(), nil
}

// digest returns the first 128 bits of a SHA-256.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// Parse returns the parts of a ledger, one per line.
func Parse(text []byte) (parts []Part, err error) {
	for line := range bytes.Lines(text) {
		line, whole := bytes.CutSuffix(line, []byte("\n"))
		p, err := parse(line)
		if !whole {
			err = errors.New("the ledger is truncated: its last line has no line feed")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", len(parts)+1, err)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func parse(line []byte) (p Part, err error) {
	if err := json.Unmarshal(line, &p); err != nil {
		if kind := (*json.UnmarshalTypeError)(nil); errors.As(err, &kind) {
			err = fmt.Errorf("%s has a wrong value, a JSON %s", cmp.Or(kind.Field, "the line"), kind.Value)
		}
		return Part{}, fmt.Errorf("not a part of a ledger: %w", err)
	}
	if p.Version != version {
		return Part{}, fmt.Errorf("version %d of a ledger, not %d", p.Version, version)
	}
	if again, err := p.Line(); err != nil || !bytes.Equal(again[:len(again)-1], line) {
		return Part{}, errors.New("not in the canonical form: the keys of a part in their order, without spaces")
	}
	return p, p.check()
}

// check returns the first fault of a part by itself.
func (p *Part) check() error {
	switch {
	case p.Rank >= p.Ranks:
		return fmt.Errorf("rank %d of %d", p.Rank, p.Ranks)
	case p.Previous == nil || p.Read == nil || len(p.Plans) == 0:
		return errors.New("previous and read must be lists, and plans a list with an entry")
	case (p.Attempt == 0) != (len(p.Previous) == 0):
		return fmt.Errorf("attempt %d continues %d parts", p.Attempt, len(p.Previous))
	case !isDigest(p.Generation) || slices.ContainsFunc(p.Previous, isNoDigest) || slices.ContainsFunc(p.Plans, func(d Plan) bool { return isNoDigest(d.Digest) }):
		return errors.New("generation, plans and previous must have 32 hexadecimal digits each")
	case !slices.IsSortedFunc(p.Plans, func(a, b Plan) int { return a.At.Compare(b.At) }):
		return errors.New("plans must be in the order of their places")
	case !p.fits(p.Start):
		return fmt.Errorf("the attempt begins at %s, and an epoch has %d positions", p.Start, p.Positions)
	case p.generation() != p.Generation:
		return fmt.Errorf("generation %s is not that of the URL", p.Generation)
	}
	return p.checkRanges()
}

// checkRanges checks that the part has read the positions after its start, and all that it omitted.
func (p *Part) checkRanges() error {
	for _, r := range p.Read {
		if r[1] >= r[2] || !p.fits(Place{r[0], r[2]}) || (Place{r[0], r[1]}).Compare(p.Start) < 0 {
			return fmt.Errorf("read %v: the part begins at %s, and an epoch has %d positions", r, p.Start, p.Positions)
		}
	}
	read := p.spans(p.Read)
	for _, r := range slices.Concat(p.Filtered, p.Failed, p.Replaced) {
		if r[1] >= r[2] || !p.fits(Place{r[0], r[2]}) || !contain(read, p.span(r)) {
			return fmt.Errorf("positions %v were filtered, failed or replaced, but not read", r)
		}
	}
	return nil
}

// fits reports whether a place is in an epoch of the part, and its number from the beginning of the
// run is below 2^64.
func (p *Part) fits(at Place) bool {
	high, _ := bits.Mul64(at[0]+1, p.Positions)
	return at[1] <= p.Positions && high == 0 && at[0]+1 != 0
}

// generation returns the generation of the URL, as in a state.
func (p *Part) generation() string {
	u, err := url.Parse(p.URL)
	if err != nil || strings.ContainsFunc(p.URL, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
		return ""
	}
	if g := u.Query().Get("generation"); len(g) == 64 || strings.Contains(g, ",") {
		return Brief(g)
	}
	return ""
}

// Brief returns a generation, or the generations of a mixture in a URL, as in a state.
func Brief(generation string) string {
	if strings.Contains(generation, ",") {
		return digest([]byte(generation))
	}
	return generation[:min(len(generation), 32)]
}

func isDigest(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}

func isNoDigest(s string) bool { return !isDigest(s) }
