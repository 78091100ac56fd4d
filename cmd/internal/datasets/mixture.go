package datasets

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway/address"
)

// ParseMixture parses NAME=SOURCE[:WEIGHT],...[,samples=N][,choose=N/N/...][,per-batch=N/N/...].
func ParseMixture(text string) (Mixture, error) { return parseMixture(text, 1) }

// parseMixture parses a mixture with weights of at least least.
func parseMixture(text string, least uint64) (Mixture, error) {
	name, rest, ok := strings.Cut(text, "=")
	if !ok || !chunkindex.ValidName(name) {
		return Mixture{}, errors.New("must be NAME=SOURCE:WEIGHT,SOURCE:WEIGHT")
	}
	m := Mixture{Name: name}
	var choose, perBatch []uint64
	for part := range strings.SplitSeq(rest, ",") {
		option, value, isOption := strings.Cut(part, "=")
		var err error
		switch {
		case !isOption:
			err = addSource(&m.Mixture, part, least)
		case option == "samples":
			m.Samples, err = strconv.ParseUint(value, 10, 63)
		case option == "choose":
			choose, err = parseCounts(value, 1)
		case option == "per-batch":
			perBatch, err = parseCounts(value, 1)
		default:
			err = errors.New("unknown option: must be samples=, choose= or per-batch=")
		}
		if err != nil {
			return Mixture{}, fmt.Errorf("%s: %w", part, err)
		}
	}
	return m, share(&m.Mixture, choose, perBatch)
}

// addSource parses SOURCE or SOURCE:WEIGHT, and adds it to a mixture.
func addSource(m *address.Mixture, text string, least uint64) error {
	name, weight, weighed := strings.Cut(text, ":")
	s := address.Source{Dataset: name, Share: 1}
	if !chunkindex.ValidName(name) {
		return errors.New("must be the name of a dataset, or NAME:WEIGHT")
	}
	if weighed {
		n, err := strconv.ParseUint(weight, 10, 62)
		if err != nil || n < least {
			return fmt.Errorf("the weight must be a whole number, at least %d", least)
		}
		s.Share = n
	}
	m.Sources = append(m.Sources, s)
	return nil
}

// parseCounts parses N/N/..., a number for each source.
func parseCounts(text string, least uint64) ([]uint64, error) {
	var out []uint64
	for part := range strings.SplitSeq(text, "/") {
		n, err := strconv.ParseUint(part, 10, 62)
		if err != nil || n < least {
			return nil, fmt.Errorf("must be one whole number of at least %d for each source, separated by slashes", least)
		}
		out = append(out, n)
	}
	return out, nil
}

// share sets the numbers of samples of each source: choose per epoch, perBatch per batch.
func share(m *address.Mixture, choose, perBatch []uint64) error {
	if choose != nil && (perBatch != nil || m.Samples > 0) {
		return errors.New("choose= sets the number of samples of an epoch: it excludes samples= and per-batch=")
	}
	for _, counts := range [][]uint64{choose, perBatch} {
		if counts != nil && len(counts) != len(m.Sources) {
			return fmt.Errorf("got %d numbers for %d sources: choose= and per-batch= require one number for each source", len(counts), len(m.Sources))
		}
	}
	m.PerBatch = perBatch != nil
	for i := range m.Sources {
		if choose != nil {
			m.Sources[i].Share = choose[i]
			m.Samples += choose[i]
		}
		if m.PerBatch {
			m.Sources[i].Share = perBatch[i]
		}
	}
	return nil
}
