package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/millrace-data/millrace/internal/words"
)

// Kind describes the values of a flag.
type Kind[T any] struct {
	Name   string                  // placeholder in the help, unless the usage begins with another one in backquotes
	Parse  func(string) (T, error) // accepts the output of Format
	Format func(T) string
	Words  []string // allowed words; nil: any value
}

// Var defines a flag of any kind in the current section.
func Var[T any](f *Flags, p *T, name string, def T, k Kind[T], usage string) {
	*p = def
	k.Name, usage = placeholder(k.Name, usage)
	f.add(&value[T]{f, p, name, k}, name, usage)
}

// List defines a flag for a list of values in the current section. It may be repeated; the first use
// replaces the default. split separates several values in one text, and by joins them for printing.
func List[T any](f *Flags, p *[]T, name string, def []T, k Kind[T], by string, split func(string) []string, usage string) {
	*p = def
	k.Name, usage = placeholder(k.Name, usage)
	f.add(&list[T]{f: f, p: p, name: name, kind: k, by: by, split: split}, name, usage)
}

// placeholder returns the placeholder of a flag, and the rest of its usage.
func placeholder(kind, usage string) (name, text string) {
	if rest, ok := strings.CutPrefix(usage, "`"); ok {
		kind, usage, _ = strings.Cut(rest, "` ")
	}
	return kind, usage
}

// add defines a flag in the current section.
func (f *Flags) add(v pflag.Value, name, usage string) {
	fl := f.Set.VarPF(v, name, "", usage)
	fl.Hidden = f.settingOnly
	if fl.DefValue == "0s" || fl.DefValue == "0B" {
		fl.DefValue = "" // like a number's 0, which the help omits
	}
	fl.Annotations = map[string][]string{}
	if f.section != "" {
		fl.Annotations[sectionNote] = []string{f.section}
	}
	if f.main {
		fl.Annotations[mainNote] = []string{}
	}
	f.settingOnly, f.main = false, false
}

// value is the value of a flag of any kind. Set records faults, so that one run reports all of them.
type value[T any] struct {
	f    *Flags
	p    *T
	name string
	kind Kind[T]
}

func (v *value[T]) Set(s string) error {
	if x, err := v.kind.Parse(s); err != nil {
		v.f.invalid(v.name, s, err)
	} else {
		*v.p = x
	}
	return nil
}

func (v *value[T]) String() string {
	if v.p == nil {
		return ""
	}
	return v.kind.Format(*v.p)
}

func (v *value[T]) Type() string      { return v.kind.Name }
func (v *value[T]) choices() []string { return v.kind.Words }

// list is the value of a flag for a list. Set records faults like that of value.
type list[T any] struct {
	f     *Flags
	p     *[]T
	name  string
	kind  Kind[T]
	by    string
	split func(string) []string
	given bool // the list is no longer the default
}

func (l *list[T]) Set(s string) error {
	if !l.given {
		*l.p, l.given = nil, true
	}
	for _, text := range l.split(s) {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if x, err := l.kind.Parse(text); err != nil {
			l.f.invalid(l.name, text, err)
		} else {
			*l.p = append(*l.p, x)
		}
	}
	return nil
}

// lister is a flag for a list.
type lister interface{ texts() []string }

// texts returns the values as text.
func (l *list[T]) texts() []string {
	all := []string{}
	for _, x := range *l.p {
		all = append(all, l.kind.Format(x))
	}
	return all
}

func (l *list[T]) String() string {
	if l.p == nil {
		return ""
	}
	return strings.Join(l.texts(), l.by)
}

func (l *list[T]) Type() string      { return l.kind.Name }
func (l *list[T]) choices() []string { return l.kind.Words }

// invalid records the fault of a value.
func (f *Flags) invalid(name, value string, err error) {
	f.Fault("%s %q: %w", f.NameOf(name), f.app.Hide(value), err)
}

// byComma separates values that contain no commas.
func byComma(s string) []string { return strings.Split(s, ",") }

// whole is the kind of whole numbers within bounds. They may be written with an exponent: 1e9.
func whole[N int | uint64](least, most N) Kind[N] {
	must := fmt.Sprintf("must be a whole number, at least %d", least)
	if uint64(most) < math.MaxUint64 {
		must = fmt.Sprintf("must be a whole number from %d to %d", least, most)
	}
	parse := func(s string) (N, error) {
		n, err := strconv.ParseUint(s, 10, 64)
		if x, fault := strconv.ParseFloat(s, 64); err != nil && fault == nil && x >= 0 && x <= 1<<53 && x == math.Trunc(x) {
			n, err = uint64(x), nil
		}
		if err != nil || n < uint64(least) || n > uint64(most) {
			return 0, errors.New(must)
		}
		return N(n), nil
	}
	return Kind[N]{Name: "N", Parse: parse, Format: func(n N) string { return strconv.FormatUint(uint64(n), 10) }}
}

// Count defines a flag for an unsigned number.
func (f *Flags) Count(p *uint64, name string, def uint64, usage string) {
	Var(f, p, name, def, whole[uint64](0, math.MaxUint64), usage)
}

// Between defines a flag for a number within bounds. The default may be outside them.
func (f *Flags) Between(p *uint64, name string, least, most, def uint64, usage string) {
	Var(f, p, name, def, whole(least, most), usage)
}

// Optional defines a flag for a number without a default.
func (f *Flags) Optional(p **uint64, name, usage string) {
	number := whole[uint64](0, math.MaxUint64)
	parse := func(s string) (*uint64, error) {
		n, err := number.Parse(s)
		return &n, err
	}
	format := func(n *uint64) string {
		if n == nil {
			return ""
		}
		return number.Format(*n)
	}
	Var(f, p, name, nil, Kind[*uint64]{Name: "N", Parse: parse, Format: format}, usage)
}

// mostOfNumber is the maximum of a small count.
const mostOfNumber = 1<<20 - 1

// Number defines a flag for a small count that is used as an int.
func (f *Flags) Number(p *int, name string, least, def int, usage string) {
	Var(f, p, name, def, whole(least, mostOfNumber), usage)
}

// Numbers defines a flag for a list of small counts, each at least 1.
func (f *Flags) Numbers(p *[]int, name string, def []int, usage string) {
	List(f, p, name, def, whole(1, mostOfNumber), ",", byComma, usage)
}

// sizes is the kind of numbers of bytes with a unit: 8MiB, 2GB, 512.
func sizes() Kind[int64] { return Kind[int64]{Name: "SIZE", Parse: ParseSize, Format: words.Size} }

// Size defines a flag for a number of bytes.
func (f *Flags) Size(p *int64, name string, def int64, usage string) {
	Var(f, p, name, def, sizes(), usage)
}

// Sizes defines a flag for a list of numbers of bytes: 16GiB,32GiB.
func (f *Flags) Sizes(p *[]int64, name string, def []int64, usage string) {
	List(f, p, name, def, sizes(), ",", byComma, usage)
}

// ParseSize parses a number of bytes with or without a unit, such as 4GiB.
func ParseSize(s string) (int64, error) {
	n, err := humanize.ParseBytes(s)
	if err != nil || n > 1<<62 {
		return 0, errors.New("must be a size such as 512MiB or 2GB")
	}
	return int64(n), nil
}

// Bandwidth defines a flag for a number of bytes per second: 2GB/s, 500MB/s, or 100Gbit/s.
func (f *Flags) Bandwidth(p *float64, name string, def float64, usage string) {
	parse := func(s string) (float64, error) {
		s, inBits := strings.CutSuffix(strings.TrimSuffix(s, "/s"), "bit")
		if inBits {
			s += "B"
		}
		n, err := ParseSize(s)
		if inBits {
			n /= 8
		}
		if err != nil || n > 0 && n < 64<<10 {
			return 0, errors.New("must be bytes per second such as 2GB/s, or bits per second such as 100Gbit/s, at least 64KiB/s")
		}
		return float64(n), nil
	}
	Var(f, p, name, def, Kind[float64]{Name: "RATE", Parse: parse, Format: func(x float64) string {
		if x == 0 {
			return ""
		}
		return words.Size(int64(x)) + "/s"
	}}, usage)
}

// Real defines a flag for a number within bounds that need not be whole. The unit after it is
// optional. An unset flag without a default is 0.
func (f *Flags) Real(p *float64, name, kind, unit string, least, most, def float64, usage string) {
	form := ""
	if unit != "" {
		form = fmt.Sprintf(", with or without %q", unit)
	}
	parse := func(s string) (float64, error) {
		x, err := strconv.ParseFloat(strings.TrimSuffix(s, unit), 64)
		if err != nil || !(x >= least && x <= most) {
			return 0, fmt.Errorf("must be a number from %g to %g%s", least, most, form)
		}
		return x, nil
	}
	Var(f, p, name, def, Kind[float64]{Name: kind, Parse: parse, Format: func(x float64) string {
		if x == 0 {
			return ""
		}
		return strconv.FormatFloat(x, 'g', -1, 64) + unit
	}}, usage)
}

// Duration defines a flag for a duration with a unit: 10s, 1m30s, 14d.
func (f *Flags) Duration(p *time.Duration, name string, def time.Duration, usage string) {
	Var(f, p, name, def, Kind[time.Duration]{Name: "DURATION", Parse: parseDuration, Format: words.Duration}, usage)
}

const day = 24 * time.Hour

// parseDuration parses a duration like time.ParseDuration, but also accepts leading whole days:
// 14d, 1d12h.
func parseDuration(s string) (time.Duration, error) {
	fault := errors.New("must be a duration such as 10s, 1m30s or 14d")
	var whole time.Duration
	if days, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16) // 16 bits of days fit in a time.Duration
		if err != nil {
			return 0, fault
		}
		if whole, s = time.Duration(n)*day, rest; s == "" {
			return whole, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || whole+d < 0 {
		return 0, fault
	}
	return whole + d, nil
}

// text is the kind of texts: any, or one of some words.
func text(words ...string) Kind[string] {
	k := Kind[string]{Name: "TEXT", Words: words, Format: func(s string) string { return s }}
	if words != nil {
		k.Name = strings.Join(words, "|")
	}
	k.Parse = func(s string) (string, error) {
		if words != nil && !slices.Contains(words, s) {
			return "", fmt.Errorf("must be one of %s", strings.Join(words, ", "))
		}
		return s, nil
	}
	return k
}

// Text defines a flag for a text.
func (f *Flags) Text(p *string, name, def, usage string) { Var(f, p, name, def, text(), usage) }

// Choice defines a flag for one of a few words.
func (f *Flags) Choice(p *string, name, def, usage string, words ...string) {
	Var(f, p, name, def, text(words...), usage)
}

// Texts defines a flag for a list of texts. If there are words, the texts must be some of them.
func (f *Flags) Texts(p *[]string, name string, def []string, usage string, words ...string) {
	List(f, p, name, def, text(words...), ",", byComma, usage)
}

// Repeated defines a flag for a list of texts that may contain commas, as for List.
func (f *Flags) Repeated(p *[]string, name, by string, split func(string) []string, usage string) {
	List(f, p, name, nil, text(), by, split, usage)
}

// Flag defines a flag without a value.
func (f *Flags) Flag(p *bool, name, usage string) {
	parse := func(s string) (bool, error) {
		b, err := strconv.ParseBool(s)
		if err != nil {
			return false, errors.New("must be true or false")
		}
		return b, nil
	}
	Var(f, p, name, *p, Kind[bool]{Name: "bool", Parse: parse, Format: strconv.FormatBool}, usage)
	f.Set.Lookup(name).NoOptDefVal = "true"
}
