package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/client/ledger"
)

// ErrState is returned for a text that is no state of a run, and for a state of another plan.
var ErrState = errors.New("state not usable")

// State is the point at which a run resumes: all ranks together have read the positions before
// Position of the epoch, and no others. Its JSON is that of the other clients and frameworks
// (docs/spec/state.md). The zero State is the start of a run.
type State struct {
	Generation string // the first 32 digits
	Plan       string // plan digest
	Epoch      uint64
	Position   uint64
}

const (
	stateVersion = 3
	shortDigits  = 32
)

// MarshalJSON returns the state in fewer than 200 bytes.
func (s State) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"state":%d,"generation":%q,"plan":%q,"epoch":%d,"position":%d}`, stateVersion, s.Generation, s.Plan, s.Epoch, s.Position), nil
}

// UnmarshalJSON rejects other keys, versions and types than those of a state with ErrState.
func (s *State) UnmarshalJSON(p []byte) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(p, &keys); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	var faults []error
	number := func(key string, bits int) uint64 {
		n, err := strconv.ParseUint(string(keys[key]), 10, bits)
		if err != nil {
			faults = append(faults, fmt.Errorf("key %s: %w", key, err))
		}
		return n
	}
	digest := func(key string) string {
		text, err := strconv.Unquote(string(keys[key]))
		if err != nil || len(text) != shortDigits || strings.Trim(text, "0123456789abcdef") != "" {
			faults = append(faults, fmt.Errorf("key %s must be %d hexadecimal digits", key, shortDigits))
		}
		return text
	}
	version := number("state", 64)
	read := State{digest("generation"), digest("plan"), number("epoch", 64), number("position", 63)}
	switch {
	case len(faults) > 0:
		return fmt.Errorf("%w: %w", ErrState, errors.Join(faults...))
	case version != stateVersion || len(keys) != 5 || read.Epoch+1 == 0:
		return fmt.Errorf("%w: must have version %d, no key except state, generation, plan, epoch and position, and an epoch below 2^64 - 1", ErrState, stateVersion)
	}
	*s = read
	return nil
}

// Resume returns the options with which a run continues from a state, on any rank, world size and
// batch size. It fails with ErrState if the options select another plan than that of the state. For
// the zero State it returns the options of the whole epoch. Batches reads from there to the end of
// the epoch; After returns the state to save after a batch, from which Resume continues in the next
// epoch.
func (c *Client) Resume(ctx context.Context, opt Options, s State) (Options, error) {
	fresh := s == State{}
	if !fresh {
		if opt.Generation != "" && opt.Generation != s.Generation && ledger.Brief(opt.Generation) != s.Generation {
			return opt, fmt.Errorf("%w: generation is %s, state has %s", ErrState, opt.Generation, s.Generation)
		}
		opt.Epoch, opt.Generation = s.Epoch, s.Generation
	}
	if opt.Step > 1 {
		return opt, errors.New("resume: option Step reads only some batches, after which no state exists")
	}
	name, err := c.DatasetName(ctx)
	if err != nil {
		return opt, err
	}
	p, err := c.plan(ctx, name, &opt)
	if err != nil {
		return opt, err
	}
	opt.Generation, opt.plan, opt.From, opt.skip = p.Parameters.Generation, &p, 0, 0
	switch digest := p.digest(s.Epoch, s.Position); {
	case digest == "":
		return opt, fmt.Errorf("resume epoch %d: the gateway sends no plan digests: %w", opt.Epoch, ErrProtocol)
	case p.delivered() == 0:
		return opt, fmt.Errorf("resume epoch %d: the epoch has no batches", opt.Epoch)
	case fresh:
		return opt, nil
	case digest != s.Plan:
		if change := c.change(ctx, name, opt, &p, s); change != "" {
			return opt, fmt.Errorf("%w: %s", ErrState, change)
		}
		return opt, fmt.Errorf("%w: plan digest is %s, state has %s: use the seed, shuffle, window, strata, subset, importance and mixture of the run", ErrState, digest, s.Plan)
	case s.Position > p.Samples:
		return opt, fmt.Errorf("%w: position is %d, the epoch has %d", ErrState, s.Position, p.Samples)
	case s.Position >= p.delivered():
		opt.Epoch++
	default:
		opt.From, opt.skip = s.Position/p.Parameters.BatchSize, s.Position%p.Parameters.BatchSize
	}
	return opt, nil
}

// After returns the state of a run whose ranks have all read a batch. The options must be those of
// Resume.
func (o *Options) After(b *Batch) State {
	return o.at(b.Epoch, (b.Number+1)*o.plan.Parameters.BatchSize)
}

// AfterSample returns the state of a run with one rank that has read the samples of a batch up to
// sample i. The options must be those of Resume. Without Micro only, because the samples of
// micro-batches are not in the order of their positions.
func (o *Options) AfterSample(b *Batch, i int) State {
	return o.at(b.Epoch, b.Number*o.plan.Parameters.BatchSize+b.skip+uint64(i)+1)
}

// at returns the state of a position. A state at the end of an epoch is one at the start of the
// next.
func (o *Options) at(epoch, position uint64) State {
	if position >= o.plan.delivered() {
		epoch, position = epoch+1, 0
	}
	return State{ledger.Brief(o.Generation), o.plan.digest(epoch, position), epoch, position}
}

// delivered returns the number of positions that the epoch delivers, without padding.
func (p *plan) delivered() uint64 {
	if p.Parameters.Tail == "drop" {
		return p.Samples - p.Samples%p.Parameters.BatchSize
	}
	return p.Samples
}

// digest returns the plan digest of a state, or "".
func (p *plan) digest(epoch, position uint64) string {
	return ledger.PlanAt(p.plans(), ledger.Place{epoch, position})
}

// plans returns the plan digests of the run.
func (p *plan) plans() (all []ledger.Plan) {
	for _, d := range p.PlanDigests {
		all = append(all, ledger.NewPlan(d.Position, p.Samples, d.Digest))
	}
	return all
}
