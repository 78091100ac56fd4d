package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/millrace-data/millrace/internal/words"
)

// Var defines a flag of any type in the current section. parse must accept the output of format. kind is the placeholder in
// the help, unless usage begins with another one in backquotes.
func Var[T any](f *Flags, p *T, name, kind string, parse func(string) (T, error), format func(T) string, usage string) {
	if rest, ok := strings.CutPrefix(usage, "`"); ok {
		kind, usage, _ = strings.Cut(rest, "` ")
	}
	v := &value[T]{f: f, p: p, name: name, kind: kind, parse: parse, format: format}
	fl := f.Set.VarPF(v, name, "", usage)
	fl.Hidden = f.settingOnly
	fl.Annotations = map[string][]string{}
	if f.section != "" {
		fl.Annotations[sectionNote] = []string{f.section}
	}
	if f.main {
		fl.Annotations[mainNote] = []string{}
	}
	f.settingOnly, f.main = false, false
}

// value is the value of a flag of any type. Set records faults, so that one run reports all of
// them.
type value[T any] struct {
	f      *Flags
	p      *T
	name   string
	kind   string
	parse  func(string) (T, error)
	format func(T) string
	words  []string // allowed words; nil: any value
	joined bool     // one text with commas contains all values
}

func (v *value[T]) Set(s string) error {
	x, err := v.parse(s)
	if err != nil {
		v.f.Fault("%s %q: %w", v.f.NameOf(v.name), v.f.app.Hide(s), err)
		return nil
	}
	*v.p = x
	return nil
}

func (v *value[T]) String() string {
	if v.p == nil {
		return ""
	}
	return v.format(*v.p)
}

func (v *value[T]) Type() string { return v.kind }

func (v *value[T]) choices() []string { return v.words }

func (v *value[T]) holdsAll() bool { return v.joined }

// Size defines a flag for a number of bytes with a unit: 8MiB, 2GB, 512.
func (f *Flags) Size(p *int64, name string, def int64, usage string) {
	*p = def
	Var(f, p, name, "SIZE", ParseSize, words.Size, usage)
}

// ParseSize parses a number of bytes with or without a unit, such as 4GiB.
func ParseSize(s string) (int64, error) {
	n, err := humanize.ParseBytes(s)
	if err != nil || n > 1<<62 {
		return 0, errors.New("must be a size such as 512MiB or 2GB")
	}
	return int64(n), nil
}

// Count defines a flag for an unsigned number.
func (f *Flags) Count(p *uint64, name string, def uint64, usage string) {
	*p = def
	Var(f, p, name, "N", wholeFrom(0), formatWhole, usage)
}

// Positive defines a flag for a number of at least 1. It has no default: p stays 0.
func (f *Flags) Positive(p *uint64, name, usage string) {
	Var(f, p, name, "N", wholeFrom(1), formatWhole, usage)
}

func formatWhole(n uint64) string { return strconv.FormatUint(n, 10) }

// wholeFrom returns a function that parses whole numbers of at least least.
func wholeFrom(least uint64) func(string) (uint64, error) {
	return func(s string) (uint64, error) {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil || n < least {
			return 0, fmt.Errorf("must be a whole number, at least %d", least)
		}
		return n, nil
	}
}

// Optional defines a flag for a number without a default.
func (f *Flags) Optional(p **uint64, name, usage string) {
	parse := func(s string) (*uint64, error) {
		n, err := wholeFrom(0)(s)
		return &n, err
	}
	format := func(n *uint64) string {
		if n == nil {
			return ""
		}
		return formatWhole(*n)
	}
	Var(f, p, name, "N", parse, format, usage)
}

// Number defines a flag for a small count that is used as an int.
func (f *Flags) Number(p *int, name string, def int, usage string) {
	*p = def
	parse := func(s string) (int, error) {
		n, err := strconv.ParseUint(s, 10, 20)
		if err != nil {
			return 0, errors.New("must be a whole number from 0 to 1048575")
		}
		return int(n), nil
	}
	Var(f, p, name, "N", parse, strconv.Itoa, usage)
}

// Duration defines a flag for a duration with a unit: 10s, 1m30s, 14d.
func (f *Flags) Duration(p *time.Duration, name string, def time.Duration, usage string) {
	*p = def
	Var(f, p, name, "DURATION", parseDuration, words.Duration, usage)
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

// Text defines a flag for a text.
func (f *Flags) Text(p *string, name, def, usage string) {
	*p = def
	parse := func(s string) (string, error) { return s, nil }
	Var(f, p, name, "TEXT", parse, func(s string) string { return s }, usage)
}

// Choice defines a flag for one of a few words.
func (f *Flags) Choice(p *string, name, def, usage string, words ...string) {
	*p = def
	parse := func(s string) (string, error) {
		if !slices.Contains(words, s) {
			return "", fmt.Errorf("must be one of %s", strings.Join(words, ", "))
		}
		return s, nil
	}
	Var(f, p, name, strings.Join(words, "|"), parse, func(s string) string { return s }, usage)
	f.Set.Lookup(name).Value.(*value[string]).words = words
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
	Var(f, p, name, "bool", parse, strconv.FormatBool, usage)
	f.Set.Lookup(name).NoOptDefVal = "true"
}

// List defines a flag that may be repeated. In the environment its values are separated by commas.
func (f *Flags) List(p *[]string, name, usage string) {
	f.Repeated(p, name, ",", func(s string) []string { return strings.Split(s, ",") }, usage)
}

// Repeated defines a flag for a list whose values may contain commas. split separates several
// values in one text, and by joins them for printing.
func (f *Flags) Repeated(p *[]string, name, by string, split func(string) []string, usage string) {
	parse := func(s string) ([]string, error) {
		for _, v := range split(s) {
			if v = strings.TrimSpace(v); v != "" {
				*p = append(*p, v)
			}
		}
		return *p, nil
	}
	Var(f, p, name, "TEXT", parse, func(s []string) string { return strings.Join(s, by) }, usage)
}

// Output defines the flag --json.
func (f *Flags) Output(a *App) { f.Flag(&a.JSON, "json", "print JSON") }
