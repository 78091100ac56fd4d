package address

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/shuffle"
)

// Limits of a mixture in a URL.
const (
	mixturePrefix  = "mix:"
	maxMixtureText = 4 << 10 // bytes
	maxSources     = 64
	maxShare       = 1 << 32 // maximum weight, or samples per batch, of a source
	maxMixed       = 1 << 62 // maximum positions of an epoch

	schedulePrefix = "schedule="
)

// Mixture is a mixture of datasets that a URL defines in place of a dataset name.
type Mixture struct {
	Sources  []Source
	PerBatch bool   // shares are samples per batch; otherwise weights
	Samples  uint64 // positions of an epoch; 0: total samples of all sources
	Schedule string // digest of the stored schedule in a URL; "": none

	Segments []shuffle.Segment // of the schedule, after the first; a URL only names them
}

// Source is a dataset, or a subset of one, with its share of a mixture.
type Source struct {
	Dataset    string
	Subset     string // in canonical form; "": the whole dataset
	Quarantine string
	Share      uint64
}

// IsMixture reports whether a name in a URL defines a mixture.
func IsMixture(name string) bool { return strings.HasPrefix(name, mixturePrefix) }

// ParseMixture parses mix:SOURCE:SHARE,...[,samples=N][,schedule=DIGEST][,per-batch]. A source is a
// dataset name, optionally followed by subset= and quarantine= in parentheses, in query syntax.
func ParseMixture(name string) (Mixture, error) {
	if len(name) > maxMixtureText {
		return Mixture{}, RefuseParameter("dataset", "the mixture has more than %d bytes", maxMixtureText)
	}
	m, err := ParseDefinition(strings.TrimPrefix(name, mixturePrefix), 1)
	if n := len(m.Sources); err == nil && n > maxSources {
		err = RefuseParameter("dataset", "the mixture has %d sources: must have 1 to %d", n, maxSources)
	}
	m.reduce()
	return m, err
}

// ParseDefinition parses the text of a mixture after mix:, of any length, with shares of at least
// least, and does not reduce them.
func ParseDefinition(text string, least uint64) (Mixture, error) {
	q := &Query{}
	var m Mixture
	parts := splitOutside(text)
	if slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(part, schedulePrefix) }) {
		least = 0 // a later segment may add the source
	}
	for _, part := range parts {
		switch samples, isSamples := strings.CutPrefix(part, "samples="); {
		case isSamples && m.Samples == 0:
			m.Samples = q.Decimal("dataset", samples, 1, maxMixed)
		case part == "per-batch" && !m.PerBatch:
			m.PerBatch = true
		case strings.HasPrefix(part, schedulePrefix) && IsDigest(strings.TrimPrefix(part, schedulePrefix)) && m.Schedule == "":
			m.Schedule = strings.TrimPrefix(part, schedulePrefix)
		default:
			m.Sources = append(m.Sources, parseSource(q, part, least))
		}
	}
	if len(m.Sources) == 0 {
		q.Fail("dataset", "the mixture has 0 sources: must have 1 to %d", maxSources)
	}
	for i, s := range m.Sources {
		if slices.ContainsFunc(m.Sources[:i], func(t Source) bool { t.Share = s.Share; return t == s }) {
			q.Fail("dataset", "source %s is given twice", Bounded(s.Dataset))
		}
	}
	if m.Schedule != "" && m.PerBatch {
		q.Fail("dataset", "a schedule requires weights: per-batch sets fixed counts")
	}
	if m.Schedule != "" && m.Samples == 0 {
		q.Fail("dataset", "a schedule requires samples=N, because its positions count over epochs of a fixed length")
	}
	return m, q.Err()
}

// splitOutside splits a text at commas outside parentheses.
func splitOutside(text string) (parts []string) {
	depth, begin := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				parts, begin = append(parts, text[begin:i]), i+1
			}
		}
	}
	return append(parts, text[begin:])
}

// parseSource parses NAME:SHARE or NAME(QUERY):SHARE.
func parseSource(q *Query, text string, least uint64) (s Source) {
	at := strings.LastIndexByte(text, ':')
	share, reason := ParseDecimal(text[at+1:])
	if strings.HasPrefix(text, schedulePrefix) {
		q.Fail("dataset", "%s: must be the digest of one stored schedule", Bounded(text))
		return s
	}
	if at < 0 || reason != "" || share < least || share > maxShare {
		q.Fail("dataset", "%s: must be SOURCE:SHARE, with a whole number from %d to %d", Bounded(text), least, uint64(maxShare))
		return s
	}
	s.Share = share
	name, more, narrowed := strings.Cut(text[:at], "(")
	if s.Dataset = name; !chunkindex.ValidName(name) {
		q.Fail("dataset", "%s: must have a dataset name, or NAME(subset=...&quarantine=...), before the share", Bounded(text))
		return s
	}
	if !narrowed {
		return s
	}
	query, closed := strings.CutSuffix(more, ")")
	own := ParseQuery(query, "subset", "quarantine")
	if !closed || query == "" {
		own.Fail("query", "must have parameters between parentheses")
	}
	if own.Has("subset") {
		if s.Subset = own.subset("subset"); !own.Failed("subset") && !SubsetNamesItsData(s.Subset) {
			own.Fail("subset", "must contain the split itself, such as train=9,val=1:train, or its digest: another gateway may have another default split")
		}
	}
	if own.Has("quarantine") {
		s.Quarantine = own.quarantine("quarantine")
	}
	q.Adopt("dataset: "+Bounded(name)+": ", own.Faults())
	return s
}

// reduce divides the weights by their greatest common divisor, so that equal mixtures have equal
// names.
func (m *Mixture) reduce() {
	if m.PerBatch {
		return
	}
	var divisor uint64
	for _, s := range m.Sources {
		divisor = gcd(divisor, s.Share)
	}
	for i := range m.Sources {
		m.Sources[i].Share /= max(divisor, 1)
	}
}

// Segments returns the segments of a mixture after the first from rows of a position and weights. It
// fails for rows that no mixture of this number of sources can have.
func Segments(rows [][]uint64, sources int) ([]shuffle.Segment, error) {
	segments, from := make([]shuffle.Segment, len(rows)), make([]shuffle.Ingredient, sources)
	for i, row := range rows {
		if len(row) != sources+1 {
			return nil, fmt.Errorf("mixture: segment %d must be a position and %d weights, one for each source", i+1, sources)
		}
		segments[i] = shuffle.Segment{First: row[0], Weights: row[1:]}
	}
	for i := range from {
		from[i] = shuffle.Ingredient{Samples: 1, Weight: 1}
	}
	_, err := shuffle.NewMixture(0, 1, from, segments...)
	return segments, err
}

// Name returns the canonical form of a mixture, for ParseMixture.
func (m Mixture) Name() string {
	parts := make([]string, 0, len(m.Sources)+2)
	for _, s := range m.Sources {
		var query []string
		if s.Quarantine != "" {
			query = append(query, "quarantine="+s.Quarantine)
		}
		if s.Subset != "" {
			query = append(query, "subset="+s.Subset)
		}
		part := s.Dataset
		if len(query) > 0 {
			part += "(" + strings.Join(query, "&") + ")"
		}
		parts = append(parts, part+":"+strconv.FormatUint(s.Share, 10))
	}
	if m.Samples > 0 {
		parts = append(parts, "samples="+strconv.FormatUint(m.Samples, 10))
	}
	if m.Schedule != "" {
		parts = append(parts, schedulePrefix+m.Schedule)
	}
	if m.PerBatch {
		parts = append(parts, "per-batch")
	}
	return mixturePrefix + strings.Join(parts, ",")
}

// PlainCommas unescapes the commas in the value of generation= or at=, since many programs escape
// them.
func PlainCommas(value string) string {
	return strings.ReplaceAll(strings.ReplaceAll(value, "%2C", ","), "%2c", ",")
}
