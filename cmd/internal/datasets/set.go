// Package datasets reads the datasets and mixtures of a gateway, from a file and from flags.
package datasets

import (
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/gateway/address"
)

// Set is the datasets and mixtures of a gateway. The first dataset is the default.
type Set struct {
	Datasets []Dataset
	Mixtures []Mixture
}

// Dataset is a dataset, and the position at which it was configured.
type Dataset struct {
	location.Location
	At string // file and line; "" for a flag
}

// Mixture is a mixture, and the position at which it was configured.
type Mixture struct {
	Name string
	address.Mixture
	At string // file and line; "" for a flag
}

// Flags returns the set of datasets and mixtures that flags name.
func Flags(locations []location.Location, mixtures []Mixture) (s Set) {
	for _, l := range locations {
		s.Datasets = append(s.Datasets, Dataset{Location: l})
	}
	s.Mixtures = mixtures
	return s
}

// And returns a set followed by another one. It is an error if two datasets or mixtures have the
// same name, or if there is no dataset.
func (s Set) And(more Set) (Set, error) {
	sum := Set{slices.Concat(s.Datasets, more.Datasets), slices.Concat(s.Mixtures, more.Mixtures)}
	var faults []error
	named := map[string]string{}
	take := func(kind, name, at string) {
		before, twice := named[name]
		switch {
		case twice && before == "":
			faults = append(faults, At(at, fmt.Errorf("%s %s: a flag has this name already", kind, name)))
		case twice:
			faults = append(faults, At(at, fmt.Errorf("%s %s: the name is given twice, first at %s", kind, name, before)))
		default:
			named[name] = at
		}
	}
	for _, d := range sum.Datasets {
		take("dataset", d.Name, d.At)
	}
	for _, m := range sum.Mixtures {
		take("mixture", m.Name, m.At)
	}
	if len(sum.Datasets) == 0 {
		faults = append(faults, errors.New("no dataset: at least one is required"))
	}
	return sum, errors.Join(faults...)
}

// Places returns the addresses of the datasets that a condition selects, without parameters of
// services.
func (s Set) Places(wanted func(name string) bool) (all []string) {
	for _, d := range s.Datasets {
		if wanted(d.Name) {
			all = append(all, d.Plain())
		}
	}
	return all
}

// At prefixes an error with the position in a file. For a flag, which has none, it returns the
// error unchanged.
func At(place string, err error) error {
	if place == "" {
		return err
	}
	return fmt.Errorf("%s: %w", place, err)
}
