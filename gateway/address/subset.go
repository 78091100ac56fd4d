package address

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/selection"
)

// Limits of a subset in a URL.
const (
	maxSubsetText = 8 << 10 // in bytes; the same limit as between gateways of a cluster

	maxSubsetParts = 64 // parts of a split
	maxSteps       = 4  // each step may read all names of the dataset
)

// Subset selects samples of a dataset: all samples, or those of a stored subset, filtered by the
// steps in order. A step filters either by one part of a split over hashed names, or by positions.
type Subset struct {
	Stored string // name in the default split, or digest of a split, colon and name; "": all samples
	Steps  []selection.Step
}

// ParseSubset parses the value of subset=. It returns a reason if the text is invalid.
func ParseSubset(text string) (s Subset, reason string) {
	if len(text) > maxSubsetText {
		return s, "is longer than " + strconv.Itoa(maxSubsetText) + " bytes: store it by POST /v1/datasets/{dataset}/subsets, and use its digest"
	}
	return ParseLongSubset(text)
}

// ParseLongSubset parses a subset like ParseSubset, without a limit on its length, for texts
// outside URLs.
func ParseLongSubset(text string) (s Subset, reason string) {
	steps := strings.Split(text, "~")
	if len(steps) > maxSteps {
		return s, "has more than " + strconv.Itoa(maxSteps) + " steps"
	}
	for i, text := range steps {
		if i == 0 && !isStep(text) {
			if s.Stored, reason = text, storedReason(text); reason != "" {
				return s, reason
			}
			continue
		}
		step, reason := parseStep(text)
		if reason != "" {
			return s, reason
		}
		if r := step.Rule; r.Parts != nil && slices.ContainsFunc(s.Steps, func(other selection.Step) bool { return other.Rule.Parts != nil && other.Rule.Salt == r.Salt }) {
			return s, "a split of a split requires a different salt after its name: with the same hash the parts would not be independent"
		}
		s.Steps = append(s.Steps, step)
	}
	return s, ""
}

const placesPrefix = "samples:"

// isStep reports whether a text is a step rather than the name of a stored subset.
func isStep(text string) bool {
	return strings.Contains(text, "=") || strings.HasPrefix(text, placesPrefix)
}

// storedReason returns the reason why the name of a stored subset is invalid, or "" if it is valid.
func storedReason(s string) string {
	digest, name, whole := strings.Cut(s, ":")
	if !whole {
		digest, name = "", s
	}
	switch {
	case whole && !IsDigest(digest):
		return "must be a name, or 64 hexadecimal digits in lower case, a colon and a name, or a split such as train=9,val=1:train, or samples:0-999"
	case !whole && IsDigest(name):
		return "a digest requires a colon and a name after it"
	case !validPart(name):
		return "a name must have at most 64 letters, digits, dots, dashes and underscores"
	}
	return ""
}

func validPart(name string) bool { return len(name) <= maxSubsetName && chunkindex.ValidName(name) }

// parseStep parses PART=SIZE,...:NAME, optionally with a colon and a salt, or samples: and ranges.
func parseStep(text string) (s selection.Step, reason string) {
	if list, ok := strings.CutPrefix(text, placesPrefix); ok {
		s.Places, reason = parseRanges(list)
		return s, reason
	}
	fields := strings.Split(text, ":")
	if len(fields) < 2 || len(fields) > 3 || !strings.Contains(fields[0], "=") {
		return s, "must be a split and a part of it, such as train=9,val=1:train, or samples:0-999"
	}
	s.Name = fields[1]
	if len(fields) == 3 {
		if s.Rule.Salt = fields[2]; !validPart(s.Rule.Salt) {
			return s, "a salt must have at most 64 letters, digits, dots, dashes and underscores"
		}
	}
	if s.Rule.Parts, reason = parseParts(fields[0]); reason != "" {
		return s, reason
	}
	if !slices.ContainsFunc(s.Rule.Parts, func(p selection.Part) bool { return p.Name == s.Name }) {
		return s, "the split has no part " + Bounded(s.Name)
	}
	return s, ""
}

// parseParts parses PART=SIZE,... and divides the sizes by their greatest common divisor, so that
// equal splits have equal texts.
func parseParts(text string) (parts []selection.Part, reason string) {
	var sum, divisor uint64
	for one := range strings.SplitSeq(text, ",") {
		name, number, _ := strings.Cut(one, "=")
		size, reason := ParseDecimal(number)
		switch {
		case reason != "" || size == 0 || size > math.MaxUint32:
			return nil, "the size of a part must be a whole number from 1 to 4294967295"
		case !validPart(name):
			return nil, "the name of a part must have at most 64 letters, digits, dots, dashes and underscores"
		case slices.ContainsFunc(parts, func(p selection.Part) bool { return p.Name == name }):
			return nil, "part " + name + " is given twice"
		case len(parts) == maxSubsetParts:
			return nil, "a split has at most " + strconv.Itoa(maxSubsetParts) + " parts"
		}
		parts = append(parts, selection.Part{Name: name, Size: size})
		sum, divisor = sum+size, gcd(divisor, size)
	}
	if sum > math.MaxUint32 {
		return nil, "the sum of the sizes of the parts must be below 2^32"
	}
	for i := range parts {
		parts[i].Size /= divisor
	}
	return parts, ""
}

func gcd(a, b uint64) uint64 {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// String returns the canonical text of a subset, for ParseSubset.
func (s Subset) String() string {
	steps := make([]string, 0, len(s.Steps)+1)
	if s.Stored != "" {
		steps = append(steps, s.Stored)
	}
	for _, step := range s.Steps {
		steps = append(steps, stepText(step))
	}
	return strings.Join(steps, "~")
}

func stepText(s selection.Step) string {
	if s.Rule.Parts == nil {
		return placesPrefix + Ranges(s.Places).String()
	}
	text := s.Rule.String() + ":" + s.Name
	if s.Rule.Salt != "" {
		text += ":" + s.Rule.Salt
	}
	return text
}

// SubsetNamesItsData reports whether a subset's text alone determines its samples, without a name
// in a default split.
func SubsetNamesItsData(text string) bool {
	s, reason := ParseSubset(text)
	return reason == "" && (s.Stored == "" || strings.Contains(s.Stored, ":"))
}

// Limits of a quarantine list in a URL.
const (
	maxQuarantineText = 8 << 10 // bytes
	maxBad            = 1 << 16 // samples, the same limit as for a stored list
)

// ParseQuarantine parses a literal list of bad samples: samples: and ranges. For a digest it
// returns no ranges. For other texts it returns a reason.
func ParseQuarantine(text string) (bad Ranges, reason string) {
	if IsDigest(text) {
		return nil, ""
	}
	list, ok := strings.CutPrefix(text, placesPrefix)
	switch {
	case !ok:
		return nil, notADigest + ", or samples: and the numbers of samples, such as samples:7,300-309"
	case len(list) > maxQuarantineText:
		return nil, "is longer than " + strconv.Itoa(maxQuarantineText) + " bytes: store the list with millrace quarantine, and use its digest"
	}
	if bad, reason = parseRanges(list); reason != "" {
		return nil, reason
	}
	if bad.Count() > maxBad {
		return nil, "has more than " + strconv.Itoa(maxBad) + " samples"
	}
	return bad, ""
}

// WriteQuarantine returns the canonical text of a quarantine, for ParseQuarantine.
func WriteQuarantine(bad Ranges) string { return placesPrefix + bad.String() }

// Ranges are disjoint ranges of numbers from 0, ascending and not adjacent.
type Ranges []selection.Places

// parseRanges parses N,N-N,... with ascending numbers. It merges adjacent ranges.
func parseRanges(text string) (r Ranges, reason string) {
	for one := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(one, "-")
		if !ranged {
			last = first
		}
		a, reason := ParseDecimal(first)
		if reason == "" && ranged {
			_, reason = ParseDecimal(last)
		}
		b, _ := ParseDecimal(last)
		n := len(r)
		switch {
		case reason != "":
			return nil, "a number of a sample " + reason
		case b < a || n > 0 && a <= r[n-1].Last || b > 1<<62:
			return nil, "numbers of samples must ascend, each once, below 2^62"
		case n > 0 && a == r[n-1].Last+1:
			r[n-1].Last = b
		default:
			r = append(r, selection.Places{First: a, Last: b})
		}
	}
	return r, ""
}

// String returns the text of ranges, for parseRanges.
func (r Ranges) String() string {
	var b []byte
	for i, one := range r {
		if i > 0 {
			b = append(b, ',')
		}
		if b = strconv.AppendUint(b, one.First, 10); one.Last > one.First {
			b = strconv.AppendUint(append(b, '-'), one.Last, 10)
		}
	}
	return string(b)
}

// Count returns the number of numbers, at most 2^62.
func (r Ranges) Count() (n uint64) {
	for _, one := range r {
		n += one.Last - one.First + 1
	}
	return n
}
