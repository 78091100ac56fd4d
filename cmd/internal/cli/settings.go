package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Settings makes the flags of a command with settings. The environment and the file of --config can
// also set the flags that have a section.
func (a *App) Settings(set *pflag.FlagSet, define func(f *Flags)) *Flags {
	return a.Flags(set, func(f *Flags) {
		define(f)
		f.Section("")
		f.Main().Text(&f.file, "config", "", "`FILE` YAML file of settings, by section and name as in --help-all")
		f.Main().Flag(&f.helpAll, "help-all", "print all flags and settings")
	})
}

// settings calls visit for each flag that has a section, in order.
func (f *Flags) settings(visit func(fl *pflag.Flag)) {
	f.Set.VisitAll(func(fl *pflag.Flag) {
		if SectionOf(fl) != "" {
			visit(fl)
		}
	})
}

const variablePrefix = "MILLRACE_"

// Variable returns the name of a flag's environment variable.
func Variable(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Load sets the settings that are missing on the command line: from the environment, then from the
// file.
func (f *Flags) Load() {
	f.refuseSettings()
	assign := func(fl *pflag.Flag) {
		if v, ok := f.app.Env[Variable(fl.Name)]; ok && !fl.Changed {
			f.assign(fl, Variable(fl.Name), []string{v})
		}
	}
	f.settings(assign)
	assign(f.Set.Lookup("config"))
	f.unknownVariables()
	if f.file == "" {
		return
	}
	text, err := os.ReadFile(f.file)
	if err != nil {
		f.Fault("--config: %w", err)
		return
	}
	keys, err := f.parseFile(text)
	if err != nil {
		f.Fault("%s: %w", f.file, err)
		return
	}
	for _, k := range keys {
		if fl := f.Set.Lookup(k.name); !fl.Changed && f.source[fl.Name] == "" {
			f.assign(fl, fmt.Sprintf("%s:%d", f.file, k.line), k.values)
		}
	}
}

// refuseSettings records a fault for each setting without a flag that is used as one on the command
// line.
func (f *Flags) refuseSettings() {
	f.settings(func(fl *pflag.Flag) {
		if fl.Hidden && fl.Changed {
			f.Fault("--%s: this setting has no flag: set %s, or %s in section %s of the file of --config", fl.Name, Variable(fl.Name), fl.Name, SectionOf(fl))
		}
	})
}

// unknownVariables records a fault for each MILLRACE_ variable that is not a setting, since it is
// probably a typing error.
func (f *Flags) unknownVariables() {
	known := []string{strings.TrimPrefix(Variable("config"), variablePrefix)}
	f.settings(func(fl *pflag.Flag) { known = append(known, strings.TrimPrefix(Variable(fl.Name), variablePrefix)) })
	var names []string
	for k, v := range f.app.Env {
		name, ours := strings.CutPrefix(k, variablePrefix)
		if ours && !slices.Contains(known, name) && !reserved(k) && !serviceLink(k, v) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, k := range names {
		f.Fault("environment: unknown variable %s%s%s", variablePrefix, k, suggest(variablePrefix, k, known))
	}
}

// reserved reports whether a variable belongs to the clients or to the tests.
func reserved(name string) bool {
	switch name {
	case "MILLRACE_TOKEN", "MILLRACE_TOKEN_FILE", "MILLRACE_INSECURE_PLAIN_HTTP", "MILLRACE_LONG":
		return true
	}
	return strings.HasPrefix(name, "MILLRACE_TEST_")
}

// serviceVariable matches most of the variables that Kubernetes sets for a service.
var serviceVariable = regexp.MustCompile(`^MILLRACE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// serviceLink reports whether Kubernetes has set a variable for a service called millrace or
// millrace-NAME. It sets these in every container of the service's namespace, so they are not
// typing errors.
func serviceLink(name, value string) bool {
	return serviceVariable.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}

// assign sets a flag from a source other than the command line. pflag does not mark the flag as
// changed, so that the source of each value is known.
func (f *Flags) assign(fl *pflag.Flag, from string, values []string) {
	f.source[fl.Name] = from
	before := len(f.faults)
	if _, isList := fl.Value.(lister); !isList && len(values) != 1 {
		f.Fault("%s: must be one value, not a list of %d", f.NameOf(fl.Name), len(values))
		values = nil
	}
	for _, v := range values {
		if err := fl.Value.Set(v); err != nil {
			f.Fault("%s: %w", f.NameOf(fl.Name), err)
		}
	}
	for i := before; i < len(f.faults); i++ {
		f.faults[i] = fmt.Errorf("%s: %w", from, f.faults[i])
	}
}

// fileKey is one setting of a configuration file.
type fileKey struct {
	name   string
	line   int
	values []string
}

// parseFile parses a YAML mapping of sections, each a mapping of settings. It records a separate
// fault for each key that is unknown or in the wrong section.
func (f *Flags) parseFile(text []byte) (keys []fileKey, err error) {
	var doc, more yaml.Node
	read := yaml.NewDecoder(bytes.NewReader(text))
	switch err := read.Decode(&doc); {
	case errors.Is(err, io.EOF): // an empty file, or only comments
		return nil, nil
	case err != nil:
		return nil, err
	case !errors.Is(read.Decode(&more), io.EOF):
		return nil, errors.New("must be one YAML document")
	}
	sections, err := pairsOf(doc.Content[0], "the file")
	if err != nil {
		return nil, err
	}
	for _, s := range sections {
		if !slices.Contains(sectionsOf(f.Set), s.key.Value) {
			f.misplaced(s.key, "")
			continue
		}
		settings, err := pairsOf(s.value, "section "+s.key.Value)
		if err != nil {
			return nil, err
		}
		for _, p := range settings {
			if fl := f.Set.Lookup(p.key.Value); fl == nil || SectionOf(fl) != s.key.Value {
				f.misplaced(p.key, s.key.Value)
				continue
			}
			values, err := valuesOf(p.key, p.value)
			if err != nil {
				return nil, err
			}
			keys = append(keys, fileKey{p.key.Value, p.key.Line, values})
		}
	}
	return keys, nil
}

// misplaced records a fault for a key in the wrong section, or outside all sections.
func (f *Flags) misplaced(key *yaml.Node, section string) {
	at, place := fmt.Sprintf("%s:%d", f.file, key.Line), "section "+section
	if section == "" {
		place = "the sections"
	}
	if fl := f.Set.Lookup(key.Value); fl != nil && SectionOf(fl) != "" {
		f.Fault("%s: key %q belongs to section %s, not beside %s", at, key.Value, SectionOf(fl), place)
		return
	}
	if section == "" {
		f.Fault("%s: unknown section %q%s: sections are %s", at, key.Value, suggest("", key.Value, sectionsOf(f.Set)), strings.Join(sectionsOf(f.Set), ", "))
		return
	}
	var known []string
	f.settings(func(fl *pflag.Flag) { known = append(known, fl.Name) })
	f.Fault("%s: unknown key %q in %s%s", at, key.Value, place, suggest("", key.Value, known))
}

// pair is an entry of a YAML mapping.
type pair struct{ key, value *yaml.Node }

// pairsOf returns the entries of a mapping. An empty value has no entries.
func pairsOf(n *yaml.Node, what string) (pairs []pair, err error) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil, nil
	}
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: %s: must be keys with values, such as data: {dataset: [photos=./photos]}", n.Line, what)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if slices.ContainsFunc(pairs, func(p pair) bool { return p.key.Value == k.Value }) {
			return nil, fmt.Errorf("line %d: %q is given twice", k.Line, k.Value)
		}
		pairs = append(pairs, pair{k, n.Content[i+1]})
	}
	return pairs, nil
}

// valuesOf returns the value of a key, or the values of a list.
func valuesOf(key, v *yaml.Node) (values []string, err error) {
	all := []*yaml.Node{v}
	if v.Kind == yaml.SequenceNode {
		all = v.Content
	}
	for _, e := range all {
		if e.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: key %q: must be a plain value or a list of plain values", e.Line, key.Value)
		}
		values = append(values, e.Value)
	}
	return values, nil
}

// PrintSettings prints the current settings, as YAML with the source of each value that is not a
// default, or as JSON. --config accepts both forms.
func (f *Flags) PrintSettings() error {
	doc, plain := &yaml.Node{Kind: yaml.MappingNode}, map[string]map[string]any{}
	sections := map[string]*yaml.Node{}
	f.settings(func(fl *pflag.Flag) {
		name := SectionOf(fl)
		if sections[name] == nil {
			sections[name], plain[name] = &yaml.Node{Kind: yaml.MappingNode}, map[string]any{}
			doc.Content = append(doc.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, sections[name])
		}
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: fl.Name}
		switch {
		case fl.Changed:
			key.HeadComment = "# from the command line"
		case f.source[fl.Name] != "":
			key.HeadComment = "# from " + f.source[fl.Name]
		}
		var value *yaml.Node
		value, plain[name][fl.Name] = f.printed(fl)
		sections[name].Content = append(sections[name].Content, key, value)
	})
	text, err := yaml.Marshal(doc)
	if err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	return f.app.Print(plain, func(w io.Writer) { fmt.Fprintf(w, "%s", text) })
}

// printed returns the value of a flag as YAML and as JSON, without secrets.
func (f *Flags) printed(fl *pflag.Flag) (*yaml.Node, any) {
	scalar := func(s string) *yaml.Node {
		n := &yaml.Node{Kind: yaml.ScalarNode, Value: f.app.Hide(s)}
		if n.Value == "" {
			n.Style = yaml.DoubleQuotedStyle
		}
		return n
	}
	l, isList := fl.Value.(lister)
	if !isList {
		n := scalar(fl.Value.String())
		return n, n.Value
	}
	seq, all := &yaml.Node{Kind: yaml.SequenceNode}, []string{}
	for _, s := range l.texts() {
		seq.Content = append(seq.Content, scalar(s))
		all = append(all, f.app.Hide(s))
	}
	return seq, all
}
