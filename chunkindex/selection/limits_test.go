package selection

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestDecodeQuarantine_Refuses(t *testing.T) {
	whole, err := testQuarantine().encode()
	if err != nil {
		t.Fatal(err)
	}
	sealed := func(b []byte) []byte {
		return binary.LittleEndian.AppendUint32(bytes.Clone(b), crc32.Checksum(b, castagnoli()))
	}
	rest := whole[:len(whole)-4]
	with := func(at int, v byte) []byte {
		b := bytes.Clone(rest)
		b[at] = v
		return sealed(b)
	}
	bad := bytes.Clone(whole)
	bad[len(bad)-1] ^= 1
	for _, c := range []struct {
		b    []byte
		kind error
		want string
	}{
		{nil, ErrCorrupt, "not a quarantine"},
		{whole[:quarantineHeader+3], ErrCorrupt, "not a quarantine"},
		{with(0, 'm'), ErrCorrupt, "not a quarantine"},
		{bad, ErrCorrupt, "checksum is wrong"},
		{with(7, '2'), ErrVersion, `quarantine of version "02"`},
		{with(48, 4), ErrCorrupt, "it is truncated in a sample"},
		{with(48, 2), ErrCorrupt, "bytes after its end"},
		{sealed(rest[:len(rest)-1]), ErrCorrupt, "it is truncated in a sample"},
		{sealed(rest[:quarantineHeader+7]), ErrCorrupt, "it is truncated in a sample"},
		{sealed(rest[:quarantineHeader+9]), ErrCorrupt, "it is truncated in a sample"},
		{sealed(append(bytes.Clone(rest), 0)), ErrCorrupt, "1 bytes after its end"},
		{with(40, 3), ErrCorrupt, "invalid: all 3 samples are bad"},
	} {
		_, err := decodeQuarantine(c.b)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) || c.kind != ErrCorrupt && errors.Is(err, ErrCorrupt) {
			t.Errorf("got %v, want %v: %q", err, c.kind, c.want)
		}
	}
	if q, err := decodeQuarantine(whole); err != nil || len(q.Bad) != 3 {
		t.Errorf("got %+v, %v", q, err)
	}
}

func TestQuarantine_Limits(t *testing.T) {
	list := func(n int, text int) []Bad {
		bad := make([]Bad, n)
		for i := range bad {
			bad[i] = Bad{Number: uint64(i), Key: strings.Repeat("k", text)}
		}
		return bad
	}
	for _, c := range []struct {
		q    Quarantine
		want string
	}{
		{Quarantine{testGeneration(), maxBad + 1, list(maxBad, 0)}, ""},
		{Quarantine{testGeneration(), maxBad + 2, list(maxBad+1, 0)}, "invalid: 65537 bad samples: must be from 1 to 65536"},
		{Quarantine{testGeneration(), maxSamples, list(1, maxKey)}, ""},
		{Quarantine{testGeneration(), maxSamples + 1, list(1, 0)}, "invalid: the dataset has 1099511627777 samples, which is not supported"},
		{Quarantine{testGeneration(), 2, []Bad{{Number: 1, Reason: strings.Repeat("r", maxReason)}}}, ""},
		{Quarantine{testGeneration(), 2, []Bad{{Number: 1, Reason: "\xff"}}}, "invalid: sample 1: its reason must have at most 256 bytes of UTF-8"},
		{Quarantine{testGeneration(), 1, list(1, 0)}, "invalid: all 1 samples are bad"},
		{Quarantine{testGeneration(), 9, []Bad{{Number: 9}}}, "invalid: sample 9 does not exist: the dataset has 9 samples"},
		{Quarantine{testGeneration(), 9, []Bad{{Number: 3}, {Number: 2}}}, "invalid: sample 2 is given twice, or after a sample with a higher number"},
		{Quarantine{"11", 9, list(1, 0)}, `invalid: generation "11" is not a digest`},
		{Quarantine{strings.Repeat("x", 64), 9, list(1, 0)}, `invalid: generation "` + strings.Repeat("x", 64) + `" is not a digest`},
		{Quarantine{testGeneration(), 2000, append(list(1020, maxKey), Bad{Number: 1020, Key: strings.Repeat("k", 4076)})}, ""},
		{Quarantine{testGeneration(), 2000, append(list(1020, maxKey), Bad{Number: 1020, Key: strings.Repeat("k", 4077)})}, "invalid: keys and reasons have 4194301 bytes in total: must be at most 4194304"},
	} {
		_, err := c.q.encode()
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && got != c.want {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestReadNamed(t *testing.T) {
	got, err := ReadNamed(strings.NewReader("a\r\n\nb\tdark\nc\t\ts.tar\nd\tdark\ts.tar\n\tx\n"), "bad")
	want := []NamedSample{{"a", "bad", ""}, {"b", "dark", ""}, {"c", "bad", "s.tar"}, {"d", "dark", "s.tar"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if _, err := ReadNamed(io.MultiReader(strings.NewReader("a\n"), failing{}), ""); !errors.Is(err, errStore) {
		t.Errorf("got %v, want %v", err, errStore)
	}
	if got := ShortReason(strings.Repeat("r", 255) + "é"); got != strings.Repeat("r", 255)+"?" {
		t.Errorf("got %q, want whole letters", got)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errStore }

func TestRule_Limits(t *testing.T) {
	parts := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("p%d=1", i))
		}
		return strings.Join(all, ",")
	}
	for _, c := range []struct{ text, salt, want string }{
		{parts(maxParts), strings.Repeat("s", maxSalt), ""},
		{parts(maxParts + 1), "", "invalid: 65 subsets: must be from 1 to 64"},
		{"a=1", strings.Repeat("s", maxSalt+1), "invalid: the salt must be one line of at most 256 bytes of UTF-8"},
		{"a=4294967294,b=1", "", ""},
		{"a=4294967295", "", ""},
		{"a=4294967295,b=1", "", "invalid: the sum of the parts must be below 2^32"},
		{strings.Repeat("a", 64) + "=1", "", ""},
		{"a=x-*", "salt", "invalid: a salt has no effect on subsets with patterns: omit it"},
	} {
		_, err := ParseRule(c.text, c.salt)
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && got != c.want {
			t.Errorf("%.40s: got %v, want %q", c.text, err, c.want)
		}
	}
	for _, p := range []Part{{Name: "a", Size: 1 << 32}, {Name: "a", Size: 1, Match: "*"}, {Name: "a", Match: "plain"}, {Name: "a", Match: "*\xff"}, {Name: "a", Match: "*\n"}} {
		if err := (Rule{Parts: []Part{p}}).Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: got %v, want %v", p, err, ErrInvalid)
		}
	}
}
