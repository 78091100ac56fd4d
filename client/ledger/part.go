// Package ledger reads and checks ledgers: the records of the positions that the ranks of a run
// have read. The format is specified in docs/spec/state.md.
package ledger

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// version is the version of the format that this package reads and writes.
const version = 1

// maxLine bounds the length of a part in bytes.
const maxLine = 64 << 20

// Place is a position of an epoch.
type Place struct{ Epoch, Position uint64 }

// Compare orders places as a run reads them.
func (p Place) Compare(q Place) int { return compare(p.Epoch, q.Epoch, p.Position, q.Position) }

// Range is the positions [First, End) of an epoch.
type Range struct{ Epoch, First, End uint64 }

// Part is the record of one rank from a start or resume of its run until the next one.
type Part struct {
	Version    int      `json:"ledger"`
	Previous   []string `json:"previous"` // digests of the parts before the resume
	Attempt    int      `json:"attempt"`  // number of resumes before this part
	Generation string   `json:"generation"`
	Plan       string   `json:"plan"` // plan digest, as in a state
	URL        string   `json:"url"`  // canonical path and query of the first epoch, without rank
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

// MarshalJSON writes a place as a list.
func (p Place) MarshalJSON() ([]byte, error) { return json.Marshal([2]uint64{p.Epoch, p.Position}) }

// UnmarshalJSON parses the output of MarshalJSON.
func (p *Place) UnmarshalJSON(text []byte) error {
	return unmarshal(text, &p.Epoch, &p.Position)
}

// MarshalJSON writes a range as a list.
func (r Range) MarshalJSON() ([]byte, error) {
	return json.Marshal([3]uint64{r.Epoch, r.First, r.End})
}

// UnmarshalJSON parses the output of MarshalJSON.
func (r *Range) UnmarshalJSON(text []byte) error {
	return unmarshal(text, &r.Epoch, &r.First, &r.End)
}

// unmarshal parses a list of numbers. It is much faster than json.Unmarshal, and a ledger consists
// of such lists.
func unmarshal(text []byte, into ...*uint64) error {
	list, ok := bytes.CutPrefix(text, []byte("["))
	list, ended := bytes.CutSuffix(list, []byte("]"))
	if !ok || !ended {
		return fmt.Errorf("%.40s: must be a list of %d numbers", text, len(into))
	}
	for i, n := range into {
		number, rest, more := bytes.Cut(list, []byte(","))
		if more != (i < len(into)-1) {
			return fmt.Errorf("%.60s: must be a list of %d numbers", text, len(into))
		}
		if err := json.Unmarshal(number, n); err != nil {
			return fmt.Errorf("%.60s: %w", text, err)
		}
		list = rest
	}
	return nil
}

// Line returns the part as a line of a ledger, and its digest.
func (p Part) Line() (line []byte, digest string, err error) {
	p.Version = version
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false) // the URL keeps its &
	if err := e.Encode(p); err != nil {
		return nil, "", fmt.Errorf("write ledger: %w", err)
	}
	return out.Bytes(), Digest(bytes.TrimSuffix(out.Bytes(), []byte("\n"))), nil
}

// Digest returns the digest of a part: the first 128 bits of the SHA-256 of its line, without the
// line feed.
func Digest(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:16])
}

// Parse reads the parts of a ledger, one per line. It rejects a last line without a line feed.
func Parse(r io.Reader) ([]Part, error) {
	var parts []Part
	in := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return parts, nil
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("the line is incomplete: the ledger was truncated")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		p, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		parts = append(parts, p)
	}
}

// readLine returns the next line without its line feed; a last line without one comes with io.EOF.
func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		some, err := in.ReadSlice('\n')
		line = append(line, some...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err //nolint:wrapcheck // io.EOF, which Parse compares
		case len(line) > maxLine:
			return nil, fmt.Errorf("longer than %d MiB", maxLine>>20)
		}
	}
}

func parse(line []byte) (p Part, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return Part{}, fmt.Errorf("not a part of a ledger: %w", err)
	}
	if d.More() {
		return Part{}, errors.New("several values in a line")
	}
	p.Digest = Digest(line)
	return p, p.check()
}

// check returns the first fault of a part by itself.
func (p *Part) check() error {
	switch {
	case p.Version != version:
		return fmt.Errorf("version %d of a ledger, not %d", p.Version, version)
	case p.Rank >= p.Ranks:
		return fmt.Errorf("rank %d of %d", p.Rank, p.Ranks)
	case (p.Attempt == 0) != (len(p.Previous) == 0):
		return fmt.Errorf("attempt %d with %d previous parts", p.Attempt, len(p.Previous))
	case !isDigest(p.Generation) || !isDigest(p.Plan) || !all(p.Previous, isDigest):
		return errors.New("generation, plan and previous must be of 32 hexadecimal digits")
	}
	read := ranges(p.Read)
	for _, r := range p.Read {
		if r.First >= r.End || r.End > p.Positions || r.Epoch == math.MaxUint64 || (Place{r.Epoch, r.First}).Compare(p.Start) < 0 {
			return fmt.Errorf("positions %d to %d of epoch %d: the part begins at %d:%d, and an epoch has %d", r.First, r.End, r.Epoch, p.Start.Epoch, p.Start.Position, p.Positions)
		}
	}
	for _, r := range slices.Concat(p.Filtered, p.Failed, p.Replaced) {
		if r.First >= r.End || !read.contain(r) {
			return fmt.Errorf("positions %d to %d of epoch %d were not read", r.First, r.End, r.Epoch)
		}
	}
	return nil
}

func isDigest(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 32
}

func all(list []string, holds func(string) bool) bool {
	return !slices.ContainsFunc(list, func(s string) bool { return !holds(s) })
}
