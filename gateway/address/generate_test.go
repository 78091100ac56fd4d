package address

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/format"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what other languages have of the table of parameters anew")

// Parameters with another name in Python, with additional text in Python, and without a field of
// the dataclasses because another class or argument has them.
var (
	pythonNames = map[string]string{"share": "by"}
	pythonMore  = map[string]string{
		"rank": "torch.Dataset finds it and world_size by itself: those of torch.distributed, else the environment's " +
			"(torchrun, mpirun, srun). Elsewhere the default is 0 of 1. Give both or none.",
	}
	pythonElsewhere = map[string]bool{"batch_size": true, "seed": true, "shuffle": true}
)

// TestParameters_OtherLanguagesHaveTheTable compares the lists of the Go client, the Python client
// and the page with the table; go generate writes the lists.
func TestParameters_OtherLanguagesHaveTheTable(t *testing.T) {
	for file, write := range map[string]func(old []byte) []byte{
		"../../client/options.go":               goOptions,
		"../../client/python/millrace/_plan.py": func([]byte) []byte { return python() },
		"../dashboard/page/parameters.js":       func([]byte) []byte { return javaScript() },
		"../../docs/api.md":                     reference,
	} {
		old, err := os.ReadFile(file)
		if err != nil && !*update {
			t.Fatal(err)
		}
		want := write(old)
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		} else if !bytes.Equal(old, want) {
			t.Errorf("%s is older than the table of parameters: run go generate ./gateway/address", file)
		}
	}
}

// within replaces the text between two comments of a file.
func within(old []byte, begin, text, end string) []byte {
	head, rest, _ := strings.Cut(string(old), begin)
	_, tail, _ := strings.Cut(rest, end)
	return []byte(head + begin + text + end + tail)
}

// reference returns docs/api.md with the current table of parameters.
func reference(old []byte) []byte {
	pair := regexp.MustCompile(`[a-z_]+(=|:[0-9])[a-z0-9=,:-]*[a-z0-9]`)
	b := strings.Builder{}
	groups := map[Group]string{Order: "order", Choice: "choice", Batching: "batching", Sharing: "sharing", Rank: "rank", Showing: "showing"}
	b.WriteString("\n| name | group | meaning | values | left out |\n|---|---|---|---|---|\n")
	for _, r := range parameters {
		help, without, _ := strings.Cut(strings.ReplaceAll(r.Help, "`", ""), " (default ")
		values := "text"
		switch {
		case r.Words != nil:
			values = "`" + strings.Join(r.Words, "`, `") + "`"
		case r.Most == math.MaxUint64:
			values = "0 to 2^64 - 1"
		case r.Most > 0:
			values = fmt.Sprintf("%d to %d", r.Least, r.Most)
		}
		text := cmp.Or(strings.TrimSuffix(r.Doc, "."), strings.ToUpper(help[:1])+help[1:])
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.Name, groups[r.Group], pair.ReplaceAllString(text, "`$0`"), values, strings.TrimSuffix(without, ")"))
	}
	return within(old, "<!-- Plan parameters: written by go generate ./gateway/address. -->\n", b.String()+"\n", "<!-- End of the plan parameters. -->")
}

// goOptions returns the source of client.Options with the current fields, between two comments.
func goOptions(old []byte) []byte {
	var b strings.Builder
	for _, r := range parameters {
		kind := "string"
		switch {
		case r.Name == "seed": // 0 is a valid seed, not a missing one
			kind = "*uint64"
		case r.Most > 0:
			kind = "uint64"
		}
		help := strings.ReplaceAll(strings.ReplaceAll(r.Help, "`", ""), "--", "")
		if r.Words != nil {
			help += ": " + strings.Join(r.Words, ", ")
		}
		fmt.Fprintf(&b, "%s %s `query:%q` // %s\n", camel(r.Name), kind, r.Name, help)
	}
	out, err := format.Source(within(old, "./gateway/address.\n", b.String(), "\t// End of the plan parameters."))
	if err != nil {
		panic(err)
	}
	return out
}

// camel returns a parameter's name in Go's spelling.
func camel(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// python returns the dataclasses of the order and of the sharing, with the valid values.
func python() []byte {
	var b strings.Builder
	b.WriteString(`"""The parameters of a plan: written by go generate ./gateway/address."""

from dataclasses import dataclass
from typing import Optional

`)
	lists := map[Group][]string{}
	var numbers, words, texts []string
	for _, r := range parameters {
		name := cmp.Or(pythonNames[r.Name], r.Name)
		lists[r.Group] = append(lists[r.Group], fmt.Sprintf("%q", r.Name))
		switch {
		case r.Group == Showing || pythonElsewhere[r.Name]:
		case r.Most > 0:
			numbers = append(numbers, fmt.Sprintf("%q: %d", name, r.Least))
		case r.Words != nil:
			words = append(words, fmt.Sprintf("%q: (\"%s\")", name, strings.Join(r.Words, `", "`)))
		default:
			texts = append(texts, fmt.Sprintf("%q", name))
		}
	}
	fmt.Fprintf(&b, "ORDER = (%s)\n", strings.Join(lists[Order], ", "))
	fmt.Fprintf(&b, "CHOICE = (%s)\n", strings.Join(lists[Choice], ", "))
	fmt.Fprintf(&b, "SHARING = (%s)\n", strings.Join(append(append(lists[Batching], lists[Sharing]...), lists[Rank]...), ", "))
	fmt.Fprintf(&b, "SHOWING = (%s)\n", strings.Join(lists[Showing], ", "))
	fmt.Fprintf(&b, "NUMBERS = {%s}  # with the least value of each\n", strings.Join(numbers, ", "))
	fmt.Fprintf(&b, "WORDS = {%s}\n", strings.Join(words, ", "))
	fmt.Fprintf(&b, "TEXTS = (%s)\n", strings.Join(texts, ", "))
	pythonClass(&b, "Order", "Which samples an epoch has and in which order, in addition to `seed` and `shuffle`. None is the dataset's default.\n    All values: "+
		"https://github.com/millrace-data/millrace/blob/main/docs/api.md", Order|Choice)
	pythonClass(&b, "Share", "This process's share of every global batch, and the handling of the last batch.", Batching|Sharing|Rank)
	return []byte(b.String())
}

// pythonClass writes a dataclass with the parameters of some groups to b.
func pythonClass(b *strings.Builder, name, about string, groups Group) {
	fmt.Fprintf(b, "\n\n@dataclass(frozen=True, kw_only=True)\nclass %s:\n    \"\"\"%s\n\n", name, about)
	var fields strings.Builder
	for _, r := range parameters {
		if r.Group&groups == 0 || pythonElsewhere[r.Name] {
			continue
		}
		kind := "str"
		if r.Most > 0 {
			kind = "int"
		}
		own := cmp.Or(pythonNames[r.Name], r.Name)
		fmt.Fprintf(&fields, "    %s: Optional[%s] = None\n", own, kind)
		fmt.Fprintf(b, "    %-11s %s\n", own, wrapped(pythonText(r), 130, "\n"+strings.Repeat(" ", 16)))
	}
	fmt.Fprintf(b, "    \"\"\"\n\n%s", fields.String())
}

// pythonText describes a parameter with the names and literals of Python.
func pythonText(r Parameter) string {
	text := strings.ReplaceAll(cmp.Or(r.Doc, r.Help), "`", "")
	for _, other := range parameters {
		for _, word := range other.Words {
			text = strings.ReplaceAll(text, other.Name+"="+word, fmt.Sprintf("%s=%q", cmp.Or(pythonNames[other.Name], other.Name), word))
		}
	}
	for _, word := range r.Words {
		text = regexp.MustCompile(`(^|[ ;])`+word+`( is|:| leaves| repeats)`).ReplaceAllString(text, "$1\""+word+"\"$2")
	}
	return strings.TrimSpace(text + " " + pythonMore[r.Name])
}

// wrapped breaks a text into lines of at most width bytes.
func wrapped(text string, width int, newline string) string {
	var b strings.Builder
	line := 0
	for word := range strings.FieldsSeq(text) {
		if line > 0 && line+1+len(word) > width {
			b.WriteString(newline)
			line = 0
		} else if line > 0 {
			b.WriteByte(' ')
			line++
		}
		b.WriteString(word)
		line += len(word)
	}
	return b.String()
}

// javaScript returns the list of parameters that the page reads from addresses.
func javaScript() []byte {
	var b bytes.Buffer
	b.WriteString("// The parameters of a plan, by what they fix: written by go generate ./gateway/address.\n")
	for _, of := range []struct {
		name   string
		groups Group
	}{{"order", Order | Choice}, {"batching", Batching}, {"sharing", Sharing}} {
		fmt.Fprintf(&b, "export const %s = [\"%s\"];\n", of.name, strings.Join(NamesOf(of.groups), `", "`))
	}
	return b.Bytes()
}
