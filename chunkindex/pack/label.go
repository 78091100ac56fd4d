package pack

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"

	"github.com/millrace-data/millrace/chunkindex/format/naming"
)

// LabelDirectory labels each sample with the name of the directory that contains its files.
const LabelDirectory = "directory"

// labelExt is the extension of a class number in WebDataset.
const labelExt = "cls"

// label adds to each sample a member that contains the number of its class in decimal digits. It
// returns the class names in byte order. The classes are the directories that contain the samples;
// all of them must have the same parent.
func label(samples []sample) ([]string, error) {
	names := map[string]bool{}
	for _, s := range samples {
		dir := path.Dir(s.key)
		if dir == "." {
			return nil, fmt.Errorf("pack: %q is not in a directory, so it has no label", s.members[0].where())
		}
		if first := path.Dir(samples[0].key); path.Dir(first) != path.Dir(dir) {
			return nil, fmt.Errorf("pack: %q and %q are in directories with different parents: pack one directory, with the labels as its subdirectories",
				samples[0].members[0].where(), s.members[0].where())
		}
		names[path.Base(dir)] = true
	}
	classes := slices.Sorted(maps.Keys(names))
	for i := range samples {
		s := &samples[i]
		n, _ := slices.BinarySearch(classes, path.Base(path.Dir(s.key)))
		if err := s.add(labelExt, strconv.Itoa(n), "--label-from-directory"); err != nil {
			return nil, err
		}
	}
	return classes, nil
}

// add adds a member with a text. by names its source in errors.
func (s *sample) add(newExt, text, by string) error {
	for _, m := range s.members {
		if _, ext := naming.Member(m.name); ext == newExt {
			return fmt.Errorf("pack: %q already is a .%s file, so %s cannot add one", m.where(), newExt, by)
		}
	}
	of := s.members[0] // the file that error messages name
	s.members = append(s.members, file{root: of.root, path: of.path, name: s.key + "." + newExt, text: text})
	slices.SortFunc(s.members, byName)
	return nil
}
