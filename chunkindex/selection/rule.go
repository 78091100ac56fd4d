package selection

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/bits"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a rule.
const (
	maxParts = 64
	maxSalt  = 256 // bytes
)

// validName restricts the names of subsets to characters that a URL carries without escapes.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Part is one subset of a rule: its relative size, or a pattern of its shards.
type Part struct {
	Name  string `json:"name"`
	Size  uint64 `json:"part,omitempty"`
	Match string `json:"match,omitempty"`
}

// String returns the part in the syntax of ParseRule.
func (p Part) String() string {
	switch {
	case p.Match != "":
		return p.Name + "=" + p.Match
	case p.Size == 0: // a part of a split made from a list
		return p.Name
	}
	return p.Name + "=" + strconv.FormatUint(p.Size, 10)
}

// Rule assigns samples to subsets, either by the sample's key or by the key of its shard
// (docs/spec/order.md, "subset"). A shard belongs to the first subset whose pattern matches it.
type Rule struct {
	Salt  string `json:"salt"` // different salts produce independent splits
	Parts []Part `json:"parts"`
}

// isPattern reports whether the text of a part is a pattern, not a size.
func isPattern(text string) bool { return strings.ContainsAny(text, "*?[./") }

// ParseRule parses the parts of a rule: train=90,val=10, or train=train-*,val=val-*.
func ParseRule(text, salt string) (Rule, error) {
	r := Rule{Salt: salt}
	for part := range strings.SplitSeq(text, ",") {
		name, number, ok := strings.Cut(part, "=")
		if !ok {
			return Rule{}, invalid("%q: must be NAME=PART, such as train=90", part)
		}
		if isPattern(number) {
			r.Parts = append(r.Parts, Part{Name: name, Match: number})
			continue
		}
		size, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return Rule{}, invalid("%q: the part of %s must be a whole number below 2^32, or a pattern such as train-*", number, name)
		}
		r.Parts = append(r.Parts, Part{Name: name, Size: size})
	}
	return r, r.Check()
}

// Check validates a rule.
func (r Rule) Check() error {
	if len(r.Parts) == 0 || len(r.Parts) > maxParts {
		return invalid("%d subsets: must be from 1 to %d", len(r.Parts), maxParts)
	}
	if len(r.Salt) > maxSalt || !utf8.ValidString(r.Salt) || strings.ContainsFunc(r.Salt, unicode.IsControl) {
		return invalid("the salt must be one line of at most %d bytes of UTF-8", maxSalt)
	}
	var sum uint64
	for i, p := range r.Parts {
		switch {
		case !validName.MatchString(p.Name):
			return invalid("subset %q: a name must have at most 64 letters, digits, dots, dashes and underscores", p.Name)
		case r.number(p.Name) != i:
			return invalid("subset %q is given twice", p.Name)
		case (p.Match == "") != (r.Parts[0].Match == ""):
			return invalid("subset %q: sizes and patterns cannot be combined: give all subsets sizes, or all patterns", p.Name)
		case p.Match != "":
			if _, err := path.Match(p.Match, ""); err != nil || p.Size != 0 || !isPattern(p.Match) || !utf8.ValidString(p.Match) || strings.ContainsFunc(p.Match, unicode.IsControl) {
				return invalid("subset %q: %.200q is not a valid pattern", p.Name, p.Match)
			}
		case p.Size == 0 || p.Size > math.MaxUint32:
			return invalid("subset %q: its part is %d: must be at least 1", p.Name, p.Size)
		}
		if sum += p.Size; sum > math.MaxUint32 {
			return invalid("the sum of the parts must be below 2^32")
		}
	}
	if r.ByShard() && r.Salt != "" {
		return invalid("a salt has no effect on subsets with patterns: omit it")
	}
	return nil
}

// ByShard reports whether patterns assign whole shards to the subsets.
func (r Rule) ByShard() bool { return len(r.Parts) > 0 && r.Parts[0].Match != "" }

// byList reports whether a list assigns the samples to subsets.
func (r Rule) byList() bool { return r.Salt == "" && slices.Equal(r.Parts, listedRule().Parts) }

// version returns the format version of a split with this rule.
func (r Rule) version() uint32 {
	switch {
	case r.byList():
		return listVersion
	case r.ByShard():
		return shardVersion
	}
	return splitVersion
}

// shardPart returns the number of a shard's subset, or -1 if no pattern matches. A pattern with a
// slash applies to the whole key, any other pattern to the key's base name.
func (r Rule) shardPart(shard string) int {
	return slices.IndexFunc(r.Parts, func(p Part) bool {
		key := shard
		if !strings.Contains(p.Match, "/") {
			key = path.Base(key)
		}
		ok, err := path.Match(p.Match, key)
		return ok && err == nil
	})
}

// number returns the number of the subset with a name, from 0, or -1 for an unknown name.
func (r Rule) number(name string) int {
	return slices.IndexFunc(r.Parts, func(p Part) bool { return p.Name == name })
}

// String returns the rule in the syntax of ParseRule, without its salt.
func (r Rule) String() string {
	parts := make([]string, len(r.Parts))
	for i, p := range r.Parts {
		parts[i] = p.String()
	}
	return strings.Join(parts, ",")
}

// sorter assigns keys to the subsets of a rule. It is not safe for concurrent use.
type sorter struct {
	text []byte // text to hash before the key
	base int
	ends []uint64 // prefix sums of the sizes
}

func newSorter(r Rule) *sorter {
	s := &sorter{text: []byte("millrace subset\n" + r.Salt + "\n")}
	s.base = len(s.text)
	sum := uint64(0)
	for _, p := range r.Parts {
		sum += p.Size
		s.ends = append(s.ends, sum)
	}
	return s
}

// part returns the number of a key's subset.
func (s *sorter) part(key []byte) int {
	s.text = append(s.text[:s.base], key...)
	sum := sha256.Sum256(s.text)
	x, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:8]), s.ends[len(s.ends)-1])
	i := 0
	for x >= s.ends[i] {
		i++
	}
	return i
}

// encode returns the stored form of a rule, which is unique.
func (r Rule) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// decodeRule decodes the output of encode and rejects all other bytes.
func decodeRule(b []byte) (Rule, error) {
	var r Rule
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, fmt.Errorf("rule: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return r, fmt.Errorf("rule: unexpected data after the JSON value")
	}
	if err := r.Check(); err != nil && !r.byList() {
		return r, fmt.Errorf("rule: %w", err)
	}
	if again, err := r.encode(); err != nil || !bytes.Equal(again, b) {
		return r, fmt.Errorf("rule: not in its canonical form")
	}
	return r, nil
}
