package history

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Plan computes the correct content of a batch, without the gateway.
type Plan interface {
	// Batch returns the bytes and the samples of a URL. The error is errors.ErrUnsupported if the
	// URL is not of a batch.
	Batch(url string) (body []byte, samples []string, err error)
	// Samples returns all samples of an epoch.
	Samples() []string
}

const (
	mostTold = 20       // violations that Err lists; others are counted
	mostKept = 64 << 20 // bytes of bodies that are stored to find the first differing byte
)

// Log checks the events of all clients. It is safe for concurrent use.
type Log struct {
	plan Plan

	mu         sync.Mutex // guards the fields below
	events     int
	plans      map[string]Plan   // by generation, if plan is nil
	registers  map[string]*value // by URL, and also by generation if the URL names none
	etags      map[string]*value
	jobs       map[string]*job
	kept       int
	violations []string
	more       int
}

// value is the content of a register, and the event that first wrote it.
type value struct {
	by      Event // without its body
	body    []byte
	samples []string
	plan    Plan // its plan; nil: the first answer determines the value
}

// job is the running epoch of a job.
type job struct {
	first *Event
	epoch string
	came  map[string]*Event
}

// New returns an empty log. Without a plan for all datasets or for a generation, the first response
// for a URL counts as correct.
func New(plan Plan) *Log {
	return &Log{plan: plan, plans: map[string]Plan{}, registers: map[string]*value{}, etags: map[string]*value{}, jobs: map[string]*job{}}
}

// Expect sets the plan of a generation, for a log without a common plan.
func (l *Log) Expect(generation string, plan Plan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plans[generation] = plan
}

// planOf returns the plan for a response, or nil.
func (l *Log) planOf(e *Event) Plan {
	if l.plan != nil {
		return l.plan
	}
	return l.plans[e.Generation]
}

// Add checks an event against all earlier ones.
func (l *Log) Add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events++
	switch e.Outcome {
	case Whole:
		l.answer(&e)
	case Part:
		if v := l.registers[key(&e)]; v != nil {
			l.compareETag(&e, v)
		}
	case Refused, Broken:
	case Completed:
		l.complete(&e)
	default:
		l.wrong("outcome %q is unknown: %v", e.Outcome, e)
	}
}

// Events returns the number of added events.
func (l *Log) Events() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events
}

// Err returns the violations found so far, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.violations) == 0 {
		return nil
	}
	text := strings.Join(l.violations, "\n")
	if l.more > 0 {
		text += fmt.Sprintf("\nand %d more", l.more)
	}
	return errors.New(text)
}

func (l *Log) wrong(format string, args ...any) {
	if len(l.violations) == mostTold {
		l.more++
		return
	}
	l.violations = append(l.violations, fmt.Sprintf(format, args...))
}

// key returns the name of a response's register. A URL without a generation has a register for each
// generation.
func key(e *Event) string {
	if _, generation := place(e.URL); generation == "" {
		return e.URL + " " + e.Generation
	}
	return e.URL
}

func (l *Log) answer(e *Event) {
	if _, named := place(e.URL); named != "" && e.Generation != "" && named != e.Generation {
		l.wrong("stale generation: the answer is of %s: %v", e.Generation, *e)
	}
	v := l.registers[key(e)]
	if v == nil {
		v = l.write(e)
	}
	if v.by.SHA256 != e.SHA256 || v.by.Length != e.Length {
		l.wrong("other bytes: %v\n\tis not what %v\n\thas: %s", *e, v.by, l.difference(e, v))
	}
	if len(e.Samples) > 0 && len(v.samples) > 0 && !slices.Equal(e.Samples, v.samples) {
		l.wrong("other samples: %v\n\tare not those of %v: %s", *e, v.by, firstSample(e.Samples, v.samples))
	}
	l.compareETag(e, v)
	if e.Job != "" {
		l.deliver(e, v)
	}
}

// write creates the register of the first response, with the plan's value if there is a plan.
func (l *Log) write(e *Event) *value {
	v := &value{by: *e}
	v.by.body, v.by.Samples = nil, nil
	if plan := l.planOf(e); plan != nil {
		body, samples, err := plan.Batch(e.URL)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
		case err != nil:
			l.wrong("no plan: %v: %v", *e, err)
		default:
			v.by = Event{Client: "the plan", URL: e.URL, ETag: e.ETag}.WithBody(body)
			v.by.body, v.samples, v.plan = nil, samples, plan
		}
	}
	if v.plan == nil && l.kept+len(e.body) <= mostKept {
		v.body = bytes.Clone(e.body)
		l.kept += len(e.body)
	}
	l.registers[key(e)] = v
	return v
}

// compareETag compares the ETag with that of earlier responses for the URL, and the content with
// earlier content under the same ETag.
func (l *Log) compareETag(e *Event, v *value) {
	if e.ETag == "" {
		return
	}
	if v.by.ETag == "" {
		v.by.ETag = e.ETag
	}
	if v.by.ETag != e.ETag {
		l.wrong("other ETag: %v\n\tis not that of %v", *e, v.by)
	}
	if e.Outcome == Part {
		return
	}
	if other := l.etags[e.ETag]; other == nil {
		l.etags[e.ETag] = v
	} else if other != v && other.by.SHA256 != e.SHA256 {
		l.wrong("one ETag, two contents: %v\n\tand %v: %s", *e, other.by, l.difference(e, other))
	}
}

// common returns the length of the common prefix of two lists.
func common[T comparable](a, b []T) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// firstSample names the first sample in which a response differs from a register.
func firstSample(got, want []string) string {
	i := common(got, want)
	nth := func(of []string) string {
		if i < len(of) {
			return strconv.Quote(of[i])
		}
		return "none"
	}
	return fmt.Sprintf("sample %d is %s, want %s", i, nth(got), nth(want))
}

// difference describes the first byte in which a response differs from a register, and the register
// that the response's bytes belong to.
func (l *Log) difference(e *Event, v *value) string {
	var parts []string
	want := v.body
	if v.plan != nil {
		want, _, _ = v.plan.Batch(v.by.URL)
	}
	if e.body != nil && want != nil {
		parts = append(parts, fmt.Sprintf("byte %d of %d differs, of %d", common(e.body, want), e.Length, v.by.Length))
	} else {
		parts = append(parts, fmt.Sprintf("%d bytes of SHA-256 %.8x, want %d of %.8x", e.Length, e.SHA256, v.by.Length, v.by.SHA256))
	}
	owner := ""
	for _, other := range l.registers {
		if u := other.by.URL; other != v && other.by.SHA256 == e.SHA256 && (owner == "" || u < owner) {
			owner = u
		}
	}
	if owner != "" {
		parts = append(parts, "these are the bytes of "+owner)
	}
	return strings.Join(parts, "; ")
}

// deliver counts the samples of a response in the epoch of its job.
func (l *Log) deliver(e *Event, v *value) {
	short := *e
	short.body, short.Samples = nil, nil
	epoch, _ := place(e.URL)
	j := l.jobs[e.Job]
	if j == nil {
		j = &job{first: &short, epoch: epoch, came: map[string]*Event{}}
		l.jobs[e.Job] = j
	}
	if epoch != j.epoch {
		l.wrong("epochs mixed: job %s: %v\n\tbeside %v", e.Job, *e, *j.first)
	}
	if e.Generation != j.first.Generation {
		l.wrong("generations mixed: job %s: %v is of %q\n\t%v of %q", e.Job, *e, e.Generation, *j.first, j.first.Generation)
	}
	samples := e.Samples
	if len(samples) == 0 {
		samples = v.samples
	}
	told := false
	for i, s := range samples {
		before := j.came[s]
		if before != nil && !told {
			l.wrong("twice: job %s: sample %q, number %d of %v\n\tcame in %v", e.Job, s, i, *e, *before)
			told = true
		}
		j.came[s] = &short
	}
}

// Abandon discards an epoch of a job that gave up.
func (l *Log) Abandon(job string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.jobs, job)
}

// complete ends the epoch of a job. The job must have received every sample.
func (l *Log) complete(e *Event) {
	j := l.jobs[e.Job]
	delete(l.jobs, e.Job)
	if j == nil {
		l.wrong("never: job %s is said to be complete, and took no sample: %v", e.Job, *e)
		return
	}
	total := e.Total
	if plan := l.planOf(j.first); plan != nil {
		all := plan.Samples()
		if total == 0 {
			total = len(all)
		}
		for _, s := range all {
			if j.came[s] == nil {
				l.wrong("never: job %s: sample %q, of %d: %v\n\tthe first answer was %v", e.Job, s, total, *e, *j.first)
				return
			}
		}
	}
	if len(j.came) != total {
		l.wrong("never: job %s has %d samples, want %d: %v\n\tthe first answer was %v", e.Job, len(j.came), total, *e, *j.first)
	}
}
