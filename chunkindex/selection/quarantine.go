package selection

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Format of a quarantine (see docs/spec/index-format.md).
const (
	quarantineMagic  = "MRQUAR01" // the last two digits are the version
	quarantineHeader = 52
	maxBad           = 1 << 16
	maxKey           = 4096
	maxReason        = 256
	maxQuarantine    = 4 << 20 // maximum bytes of the object
)

// Bad is one sample of a quarantine.
type Bad struct {
	Number uint64 `json:"sample"` // sample number in stored order
	Key    string `json:"key"`
	Reason string `json:"reason,omitempty"`
}

// Quarantine is a list of bad samples of one generation of a dataset.
type Quarantine struct {
	Generation string
	Samples    uint64 // number of samples in the dataset
	Bad        []Bad  // sorted by number
}

// Quarantine stores a list of bad samples, in any order, and returns its digest. The same samples
// and reasons produce the same object. Quarantine returns an error for a list of no samples or more
// than 2^16, for a number beyond the dataset, or if all samples are bad.
func (s *Store) Quarantine(ctx context.Context, q Quarantine) (digest string, created bool, err error) {
	q.Bad = slices.Clone(q.Bad)
	slices.SortFunc(q.Bad, func(a, b Bad) int { return cmp.Compare(a.Number, b.Number) })
	b, err := q.encode()
	if err == nil {
		digest, created, err = s.keep(ctx, quarantineDir, b)
	}
	if err != nil {
		return "", false, fmt.Errorf("quarantine %d samples: %w", len(q.Bad), err)
	}
	return digest, created, nil
}

// check validates a list.
func (q Quarantine) check() error {
	switch n := uint64(len(q.Bad)); {
	case n == 0 || n > maxBad:
		return invalid("%d bad samples: must be from 1 to %d", n, maxBad)
	case n >= q.Samples:
		return invalid("all %d samples are bad", q.Samples)
	case q.Samples > maxSamples:
		return invalid("the dataset has %d samples, which is not supported", q.Samples)
	}
	for i, b := range q.Bad {
		switch {
		case b.Number >= q.Samples:
			return invalid("sample %d does not exist: the dataset has %d samples", b.Number, q.Samples)
		case i > 0 && b.Number <= q.Bad[i-1].Number:
			return invalid("sample %d is given twice, or after a sample with a higher number", b.Number)
		case len(b.Key) > maxKey:
			return invalid("sample %d: its key has %d bytes, more than the limit", b.Number, len(b.Key))
		case len(b.Reason) > maxReason || !utf8.ValidString(b.Reason):
			return invalid("sample %d: its reason must have at most %d bytes of UTF-8", b.Number, maxReason)
		}
	}
	return nil
}

func (q Quarantine) encode() ([]byte, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	generation, err := hex.DecodeString(q.Generation)
	if err != nil || len(generation) != 32 {
		return nil, invalid("generation %q is not a digest", q.Generation)
	}
	b := append([]byte(quarantineMagic), generation...)
	b = binary.LittleEndian.AppendUint64(b, q.Samples)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(q.Bad)))
	for _, x := range q.Bad {
		b = binary.LittleEndian.AppendUint64(b, x.Number)
		for _, text := range []string{x.Key, x.Reason} {
			b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
			b = append(b, text...)
		}
	}
	if len(b)+4 > maxQuarantine {
		return nil, invalid("keys and reasons have %d bytes in total: must be at most %d", len(b), maxQuarantine)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli())), nil
}

// checkMagic distinguishes a list in another version from other data.
func checkMagic(b []byte) error {
	switch {
	case string(b[:6]) != quarantineMagic[:6]:
		return corrupt("not a quarantine")
	case string(b[:8]) != quarantineMagic:
		return fmt.Errorf("quarantine of version %q: %w", b[6:8], ErrVersion)
	}
	return nil
}

// decodeQuarantine decodes the output of encode and rejects all other bytes. It allocates memory
// only for data in b, not for claimed counts.
func decodeQuarantine(b []byte) (Quarantine, error) {
	if len(b) < quarantineHeader+4 {
		return Quarantine{}, corrupt("not a quarantine")
	}
	if err := checkMagic(b); err != nil {
		return Quarantine{}, err
	}
	rest := b[:len(b)-4]
	if crc32.Checksum(rest, castagnoli()) != binary.LittleEndian.Uint32(b[len(rest):]) {
		return Quarantine{}, corrupt("checksum is wrong")
	}
	q := Quarantine{Generation: hex.EncodeToString(b[8:40]), Samples: binary.LittleEndian.Uint64(b[40:])}
	count := binary.LittleEndian.Uint32(b[48:])
	rest = rest[quarantineHeader:]
	for range count {
		if len(rest) < 8 {
			return Quarantine{}, corrupt("it is truncated in a sample")
		}
		x := Bad{Number: binary.LittleEndian.Uint64(rest)}
		rest = rest[8:]
		for _, to := range []*string{&x.Key, &x.Reason} {
			if len(rest) < 2 || len(rest)-2 < int(binary.LittleEndian.Uint16(rest)) {
				return Quarantine{}, corrupt("it is truncated in a sample")
			}
			n := 2 + int(binary.LittleEndian.Uint16(rest))
			*to, rest = string(rest[2:n]), rest[n:]
		}
		q.Bad = append(q.Bad, x)
	}
	if len(rest) > 0 {
		return Quarantine{}, corrupt("%d bytes after its end", len(rest))
	}
	if err := q.check(); err != nil {
		return Quarantine{}, corrupt("%w", err)
	}
	return q, nil
}

// OpenQuarantine reads a list of bad samples. It returns ErrNotFound if the bucket has no such
// list, and ErrCorrupt if the list does not match its name.
func (s *Store) OpenQuarantine(ctx context.Context, digest string) (Quarantine, error) {
	q, err := s.openQuarantine(ctx, digest)
	if err != nil {
		return Quarantine{}, fmt.Errorf("quarantine %.12s: %w", digest, err)
	}
	return q, nil
}

func (s *Store) openQuarantine(ctx context.Context, digest string) (Quarantine, error) {
	b, err := s.read(ctx, quarantineDir, digest, maxQuarantine)
	if err != nil {
		return Quarantine{}, err
	}
	return decodeQuarantine(b)
}

// Finder finds samples by key in one generation. *chunkindex.Index implements it.
type Finder interface {
	Generation() string
	Samples() uint64
	Lookup(ctx context.Context, key, shard string) (sample uint64, ok bool, err error)
}

// Numbers returns the numbers of the bad samples in a generation, ascending. If that is not the
// list's own generation, Numbers finds the samples by key and omits missing ones.
func (q Quarantine) Numbers(ctx context.Context, of Finder) ([]uint64, error) {
	own := q.Generation == of.Generation()
	if own && q.Samples != of.Samples() {
		return nil, corrupt("it is for a dataset of %d samples, but the dataset has %d", q.Samples, of.Samples())
	}
	out := make([]uint64, 0, len(q.Bad))
	for _, b := range q.Bad {
		n, ok, err := b.Number, true, error(nil)
		if !own {
			n, ok, err = of.Lookup(ctx, b.Key, "")
		}
		if err != nil {
			return nil, fmt.Errorf("find bad sample %.200q of generation %.12s: %w", b.Key, q.Generation, err)
		}
		if ok {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// NamedSample names a bad sample by its key and its shard.
type NamedSample struct {
	Key, Reason string
	Shard       string // empty: only one shard has the key
}

// ReadNamed reads one bad sample per line: key, reason and shard, separated by tabs. Reason and
// shard are optional. A sample without a reason gets the given reason.
func ReadNamed(r io.Reader, reason string) ([]NamedSample, error) {
	var named []NamedSample
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		key, more, _ := strings.Cut(strings.TrimSuffix(lines.Text(), "\r"), "\t")
		if key == "" {
			continue
		}
		own, shard, _ := strings.Cut(more, "\t")
		named = append(named, NamedSample{key, cmp.Or(own, reason), shard})
	}
	return named, lines.Err()
}

// ShortReason truncates a generated reason, such as an error, to the limit of a quarantine.
func ShortReason(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxReason)], "?") }
