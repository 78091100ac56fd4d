package pack

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"

	"github.com/millrace-data/millrace/chunkindex/format/naming"
)

// LabelDirectory has each sample labelled by the directory that its files lie in.
const LabelDirectory = "directory"

// labelExt is the extension of a class's number, as WebDataset has it.
const labelExt = "cls"

// label adds to each sample a member with the number of its class in decimal digits, and returns the names of the classes in byte
// order: those of the directories that the samples lie in, which stand side by side.
func label(samples []sample) ([]string, error) {
	names := map[string]bool{}
	for _, s := range samples {
		dir := path.Dir(s.key)
		if dir == "." {
			return nil, fmt.Errorf("pack: %q lies in no directory, which would be its label", s.members[0].where())
		}
		if first := path.Dir(samples[0].key); path.Dir(first) != path.Dir(dir) {
			return nil, fmt.Errorf("pack: %q and %q lie in directories that do not stand side by side: pack those of one directory, whose own directories are the labels",
				samples[0].members[0].where(), s.members[0].where())
		}
		names[path.Base(dir)] = true
	}
	classes := slices.Sorted(maps.Keys(names))
	for i := range samples {
		s := &samples[i]
		for _, m := range s.members {
			if _, ext := naming.Member(m.name); ext == labelExt {
				return nil, fmt.Errorf("pack: %q is a label already", m.where())
			}
		}
		n, _ := slices.BinarySearch(classes, path.Base(path.Dir(s.key)))
		of := s.members[0] // which messages name
		s.members = append(s.members, file{root: of.root, path: of.path, name: s.key + "." + labelExt, text: strconv.Itoa(n)})
		slices.SortFunc(s.members, byName)
	}
	return classes, nil
}
