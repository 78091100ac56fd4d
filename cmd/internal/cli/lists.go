package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/internal/words"
)

// listOf defines a flag for comma-separated values.
func listOf[T any](f *Flags, p *[]T, name string, def []T, parse func(string) (T, error), format func(T) string, usage string) {
	*p = def
	all := func(s string) ([]T, error) {
		var list []T
		for part := range strings.SplitSeq(s, ",") {
			x, err := parse(strings.TrimSpace(part))
			if err != nil {
				return nil, err
			}
			list = append(list, x)
		}
		return list, nil
	}
	text := func(list []T) string {
		parts := make([]string, len(list))
		for i, x := range list {
			parts[i] = format(x)
		}
		return strings.Join(parts, ",")
	}
	Var(f, p, name, "LIST", all, text, usage)
	f.Set.Lookup(name).Value.(*value[[]T]).joined = true
}

// Sizes defines a flag for a list of numbers of bytes: 16GiB,32GiB.
func (f *Flags) Sizes(p *[]int64, name string, def []int64, usage string) {
	listOf(f, p, name, def, ParseSize, words.Size, usage)
}

// Numbers defines a flag for a list of small counts, each at least 1.
func (f *Flags) Numbers(p *[]int, name string, def []int, usage string) {
	listOf(f, p, name, def, func(s string) (int, error) {
		n, err := strconv.ParseUint(s, 10, 20)
		if err != nil || n == 0 {
			return 0, errors.New("must be whole numbers of at least 1, separated by commas")
		}
		return int(n), nil
	}, strconv.Itoa, usage)
}

// Words defines a flag for a list of some of a few words.
func (f *Flags) Words(p *[]string, name string, def []string, usage string, words ...string) {
	listOf(f, p, name, def, func(s string) (string, error) {
		if !slices.Contains(words, s) {
			return "", fmt.Errorf("%q: must be one or more of %s", s, strings.Join(words, ", "))
		}
		return s, nil
	}, func(s string) string { return s }, usage)
	f.Set.Lookup(name).Value.(*value[[]string]).words = words
}

// Bandwidth defines a flag for a number of bytes per second: 2GB/s, 500MB/s, or 100Gbit/s.
func (f *Flags) Bandwidth(p *float64, name string, def float64, usage string) {
	*p = def
	parse := func(s string) (float64, error) {
		s, inBits := strings.CutSuffix(strings.TrimSuffix(s, "/s"), "bit")
		if inBits {
			s += "B"
		}
		n, err := ParseSize(s)
		switch {
		case err != nil:
			return 0, errors.New("must be bytes per second such as 2GB/s, or bits per second such as 100Gbit/s")
		case inBits:
			return float64(n) / 8, nil
		}
		return float64(n), nil
	}
	Var(f, p, name, "RATE", parse, func(x float64) string {
		if x == 0 {
			return ""
		}
		return formatDecimal(x) + "/s"
	}, usage)
}

// formatDecimal formats bytes in powers of ten so that ParseSize returns exactly the same number.
func formatDecimal(x float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	i := 0
	for i < len(units)-1 && math.Mod(x, 1000) == 0 {
		x, i = x/1000, i+1
	}
	return strconv.FormatFloat(x, 'f', -1, 64) + units[i]
}

// Rate defines a flag for a number per second: 3000/s. It has no default.
func (f *Flags) Rate(p *float64, name, usage string) {
	f.real(p, name, "RATE", "/s", "a rate such as 3000/s", usage, func(x float64) bool { return x > 0 && !math.IsInf(x, 0) })
}

// Price defines a flag for an amount of money in any currency; 0: none.
func (f *Flags) Price(p *float64, name, usage string) {
	f.real(p, name, "PRICE", "", "an amount such as 0.40", usage, func(x float64) bool { return x >= 0 && x <= 1e9 })
}

// Factor defines a flag for a number of at least 1.
func (f *Flags) Factor(p *float64, name string, def float64, usage string) {
	*p = def
	f.real(p, name, "FACTOR", "", "a number of at least 1", usage, func(x float64) bool { return x >= 1 && x <= 1e6 })
}

// real defines a flag for a number that need not be whole. The unit after it is optional. 0: none.
func (f *Flags) real(p *float64, name, kind, unit, want, usage string, ok func(float64) bool) {
	parse := func(s string) (float64, error) {
		x, err := strconv.ParseFloat(strings.TrimSuffix(s, unit), 64)
		if err != nil || !ok(x) {
			return 0, errors.New("must be " + want)
		}
		return x, nil
	}
	Var(f, p, name, kind, parse, func(x float64) string {
		if x == 0 {
			return ""
		}
		return strconv.FormatFloat(x, 'g', -1, 64) + unit
	}, usage)
}

// Whole defines a flag for a whole number that may be written with an exponent: 1e9.
func (f *Flags) Whole(p *uint64, name string, def uint64, usage string) {
	*p = def
	parse := func(s string) (uint64, error) {
		if n, err := strconv.ParseUint(s, 10, 64); err == nil {
			return n, nil
		}
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || x < 0 || x > 1<<53 || x != math.Trunc(x) {
			return 0, errors.New("must be a whole number such as 50000 or 1e9")
		}
		return uint64(x), nil
	}
	Var(f, p, name, "N", parse, formatWhole, usage)
}
