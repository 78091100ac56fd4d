package address

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const (
	nameForm    = `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`
	decimalForm = `(?:0|[1-9][0-9]*)`
)

var (
	plainForm   = regexp.MustCompile(`^` + nameForm + `$`)
	storedForm  = regexp.MustCompile(`^(?:[0-9a-f]{64}:)?` + nameForm + `$`)
	splitForm   = regexp.MustCompile(`^(` + nameForm + `=` + decimalForm + `(?:,` + nameForm + `=` + decimalForm + `)*):(` + nameForm + `)(?::(` + nameForm + `))?$`)
	rangesForm  = regexp.MustCompile(`^samples:(` + decimalForm + `(?:-` + decimalForm + `)?(?:,` + decimalForm + `(?:-` + decimalForm + `)?)*)$`)
	partForm    = regexp.MustCompile(`[^,()]+(?:\([^()]+\)[^,()]+)?`)
	mixtureForm = regexp.MustCompile(`^` + partForm.String() + `(?:,` + partForm.String() + `)*$`)
	digestForm  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	sourceForm  = regexp.MustCompile(`^(` + nameForm + `)(?:\(([^()]+)\))?:(` + decimalForm + `)$`)
)

// oneRanges returns the canonical form of ranges of small numbers, computed from the set of the
// numbers.
func oneRanges(list string) (string, bool) {
	var set []int
	for one := range strings.SplitSeq(list, ",") {
		first, last, ranged := strings.Cut(one, "-")
		if !ranged {
			last = first
		}
		a, _ := strconv.Atoi(first)
		b, _ := strconv.Atoi(last)
		if b < a || len(set) > 0 && a <= set[len(set)-1] {
			return "", false
		}
		for n := a; n <= b; n++ {
			set = append(set, n)
		}
	}
	var runs []string
	for len(set) > 0 {
		n := 1
		for n < len(set) && set[n] == set[0]+n {
			n++
		}
		run := strconv.Itoa(set[0])
		if n > 1 {
			run += "-" + strconv.Itoa(set[n-1])
		}
		runs, set = append(runs, run), set[n:]
	}
	return strings.Join(runs, ","), true
}

// reduced divides numbers by their greatest common divisor.
func reduced(numbers []string) []string {
	divisor, out := new(big.Int), make([]string, len(numbers))
	for _, text := range numbers {
		n, _ := new(big.Int).SetString(text, 10)
		divisor.GCD(nil, nil, divisor, n)
	}
	for i, text := range numbers {
		n, _ := new(big.Int).SetString(text, 10)
		if divisor.Sign() > 0 {
			n.Div(n, divisor)
		}
		out[i] = n.String()
	}
	return out
}

// oneSubset returns the canonical form of a subset, for numbers of a few digits.
func oneSubset(text string) (string, bool) {
	steps := strings.Split(text, "~")
	if len(steps) > 4 {
		return "", false
	}
	var salts []string
	for i, step := range steps {
		split, ranges := splitForm.FindStringSubmatch(step), rangesForm.FindStringSubmatch(step)
		switch {
		case i == 0 && storedForm.MatchString(step) && !digestForm.MatchString(step):
		case ranges != nil:
			list, ok := oneRanges(ranges[1])
			if !ok {
				return "", false
			}
			steps[i] = "samples:" + list
		case split != nil:
			var names, sizes []string
			for part := range strings.SplitSeq(split[1], ",") {
				name, size, _ := strings.Cut(part, "=")
				if size == "0" || slices.Contains(names, name) {
					return "", false
				}
				names, sizes = append(names, name), append(sizes, size)
			}
			if !slices.Contains(names, split[2]) || slices.Contains(salts, split[3]) {
				return "", false
			}
			salts = append(salts, split[3])
			for k, size := range reduced(sizes) {
				names[k] += "=" + size
			}
			steps[i] = strings.Join(names, ",") + ":" + split[2]
			if split[3] != "" {
				steps[i] += ":" + split[3]
			}
		default:
			return "", false
		}
	}
	return strings.Join(steps, "~"), true
}

// subsetText draws a text that is a valid subset, or nearly one.
func subsetText(t *rapid.T) string {
	name := rapid.SampledFrom([]string{"a", "b", "c", "train"})
	step := rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 2).Draw(t, "kind") == 0 {
			var list []string
			at := 0
			for range rapid.IntRange(1, 4).Draw(t, "runs") {
				at += rapid.IntRange(0, 3).Draw(t, "gap")
				one := strconv.Itoa(at)
				if rapid.Bool().Draw(t, "run") {
					at += rapid.IntRange(-1, 3).Draw(t, "length")
					one += "-" + strconv.Itoa(at)
				}
				list = append(list, one)
				at += rapid.IntRange(0, 1).Draw(t, "on")
			}
			return "samples:" + strings.Join(list, ",")
		}
		var parts []string
		for _, part := range rapid.Permutation([]string{"a", "b", "c", "d", "a"}).Draw(t, "parts")[rapid.IntRange(1, 4).Draw(t, "without"):] {
			parts = append(parts, fmt.Sprintf("%s=%d", part, rapid.SampledFrom([]int{1, 2, 3, 4, 6, 12}).Draw(t, "size")))
		}
		return strings.Join(parts, ",") + ":" + name.Draw(t, "kept") + rapid.SampledFrom([]string{"", "", ":s", ":t", ":u"}).Draw(t, "salt")
	})
	steps := rapid.SliceOfN(step, 0, 5).Draw(t, "steps")
	if len(steps) == 0 || rapid.Bool().Draw(t, "stored") {
		steps = append([]string{rapid.SampledFrom([]string{"train", "a.b", digest + ":train", digest}).Draw(t, "name")}, steps...)
	}
	return spoil(t, strings.Join(steps, "~"))
}

// spoil changes one character in a quarter of the texts.
func spoil(t *rapid.T, text string) string {
	if rapid.IntRange(0, 3).Draw(t, "spoil") > 0 {
		return text
	}
	at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
	return text[:at] + rapid.SampledFrom([]string{"", "0", "1", "a", ":", "~", ",", "=", "-", "(", ")", "&"}).Draw(t, "by") + text[at+1:]
}

// TestParseSubset_TakesItsGrammar compares the parser with regular expressions and sets.
func TestParseSubset_TakesItsGrammar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, text := range rapid.SliceOfN(rapid.Custom(subsetText), 1, 30).Draw(t, "texts") {
			want, good := oneSubset(text)
			s, reason := ParseSubset(text)
			if (reason == "") != good || good && s.String() != want {
				t.Fatalf("%s: got %s %q, want %s, accepted %t", text, s, reason, want, good)
			}
			named := good && !plainForm.MatchString(strings.Split(text, "~")[0])
			if got := SubsetNamesItsData(text); got != named {
				t.Fatalf("%s: names its data: got %t, want %t", text, got, named)
			}
			for _, pin := range []string{"", "&generation=" + generation} {
				if !good {
					break
				}
				b, err := decode(photos(), "subset="+text+pin, "0", "0")
				if err != nil || b.Params.Subset != want || b.Pinned != (named && pin != "") {
					t.Fatalf("%s%s: got subset %s, pinned %t, %v", text, pin, b.Params.Subset, b.Pinned, err)
				}
			}
		}
	})
}

// oneMixture returns the canonical name of a mixture, for numbers of a few digits.
func oneMixture(text string) (string, bool) {
	var sources, shares, samples, schedule, perBatch []string
	text = strings.TrimPrefix(text, "mix:")
	if !mixtureForm.MatchString(text) {
		return "", false
	}
	for _, part := range partForm.FindAllString(text, -1) {
		m := sourceForm.FindStringSubmatch(part)
		switch number, isSamples := strings.CutPrefix(part, "samples="); {
		case isSamples:
			if samples = append(samples, part); !regexp.MustCompile(`^[1-9][0-9]*$`).MatchString(number) {
				return "", false
			}
		case part == "per-batch":
			perBatch = append(perBatch, part)
		case strings.HasPrefix(part, "schedule="):
			if schedule = append(schedule, part); !digestForm.MatchString(part[9:]) {
				return "", false
			}
		case m == nil || m[3] == "0" && !strings.Contains(text, "schedule="):
			return "", false
		default:
			query, ok := oneNarrowing(m[2])
			if !ok || slices.Contains(sources, m[1]+query) {
				return "", false
			}
			sources, shares = append(sources, m[1]+query), append(shares, m[3])
		}
	}
	if len(sources) == 0 || len(samples) > 1 || len(schedule) > 1 || len(perBatch) > 1 {
		return "", false
	}
	if len(schedule) > 0 && (len(samples) == 0 || len(perBatch) > 0) {
		return "", false
	}
	if len(perBatch) == 0 {
		shares = reduced(shares)
	}
	for i := range sources {
		sources[i] += ":" + shares[i]
	}
	return "mix:" + strings.Join(slices.Concat(sources, samples, schedule, perBatch), ","), true
}

// oneNarrowing returns the canonical form of the text in parentheses after a source.
func oneNarrowing(query string) (string, bool) {
	if query == "" {
		return "", true
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		switch list, isList := strings.CutPrefix(value, "samples:"); {
		case i > 0 && strings.HasPrefix(parts[0], name+"="):
			return "", false
		case name == "quarantine" && digestForm.MatchString(value):
		case name == "quarantine" && isList && rangesForm.MatchString(value):
			list, ok := oneRanges(list)
			if !ok {
				return "", false
			}
			parts[i] = name + "=samples:" + list
		case name == "subset" && SubsetNamesItsData(value):
			subset, _ := oneSubset(value)
			parts[i] = name + "=" + subset
		default:
			return "", false
		}
	}
	slices.Sort(parts)
	return "(" + strings.Join(parts, "&") + ")", true
}

// mixtureText draws a text that is a valid mixture, or nearly one.
func mixtureText(t *rapid.T) string {
	var parts []string
	for range rapid.IntRange(1, 4).Draw(t, "parts") {
		part := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "source")
		if query := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			"subset=a=2,b=4:a", "subset=a=1,b=2:a", "subset=samples:0-3", "subset=" + digest + ":x~samples:1", "subset=train",
			"quarantine=samples:1,2", "quarantine=samples:1-2", "quarantine=" + digest, "quarantine=samples:3,1", "seed=1",
		}), 0, 2, rapid.ID[string]).Draw(t, "query"); len(query) > 0 {
			part += "(" + strings.Join(query, "&") + ")"
		}
		parts = append(parts, part+":"+strconv.Itoa(rapid.SampledFrom([]int{0, 1, 2, 3, 4, 6}).Draw(t, "share")))
	}
	for _, more := range []string{"samples=9", "samples=3", "schedule=" + digest, "schedule=" + digest[1:] + "e", "per-batch"} {
		if rapid.IntRange(0, 2).Draw(t, more) == 0 {
			parts = slices.Insert(parts, rapid.IntRange(0, len(parts)).Draw(t, "at"), more)
		}
	}
	return "mix:" + spoil(t, strings.Join(parts, ","))
}

// TestParseMixture_TakesItsGrammar compares the parser with regular expressions.
func TestParseMixture_TakesItsGrammar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, text := range rapid.SliceOfN(rapid.Custom(mixtureText), 1, 30).Draw(t, "texts") {
			want, good := oneMixture(text)
			m, err := ParseMixture(text)
			if (err == nil) != good || good && m.Name() != want {
				t.Fatalf("%s: got %s, %v, want %s, accepted %t", text, m.Name(), err, want, good)
			}
		}
	})
}
