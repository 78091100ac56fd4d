package datasets

import (
	"errors"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway/address"
)

// ParseMixture parses NAME=SOURCE:SHARE,...[,samples=N][,per-batch].
func ParseMixture(text string) (Mixture, error) { return parseMixture(text, 1) }

// parseMixture parses a mixture with shares of at least least.
func parseMixture(text string, least uint64) (Mixture, error) {
	name, rest, ok := strings.Cut(text, "=")
	if !ok || !chunkindex.ValidName(name) {
		return Mixture{}, errors.New("must be NAME=SOURCE:WEIGHT,SOURCE:WEIGHT")
	}
	m, err := address.ParseDefinition(rest, least)
	if err != nil {
		err = errors.New(strings.TrimPrefix(err.Error(), "dataset: "))
	} else if m.Schedule != "" || slices.ContainsFunc(m.Sources, func(s address.Source) bool { return s.Subset+s.Quarantine != "" }) {
		err = errors.New("must have whole datasets and no stored schedule: define such a mixture in the URL")
	}
	return Mixture{Name: name, Mixture: m}, err
}
