package address

import "strings"

// ParseURL parses the URL of a batch or epoch, as in Content-Location and the links of a plan. It
// may start with a scheme and host, or with the path. It must contain the generation, so that
// losses never belong to other data. Faults are added to q under the name url. isDefault means that
// d is the default dataset, to which paths without a dataset name refer.
func ParseURL(d Dataset, isDefault bool, address string, q *Query) (b Batch, hasBatch bool, err error) {
	if address == "" {
		q.Fail("url", "missing")
		return b, false, nil
	}
	path, raw, _ := strings.Cut(fromPath(address), "?")
	at, ok := parsePath(strings.TrimSuffix(path, "/manifest"))
	if !ok || at.dataset != d.Name && !(at.short && isDefault) {
		q.Fail("url", "must be the URL of an epoch or a batch of dataset %s", d.Name)
		return b, false, nil
	}
	var in *Query
	if at.hasBatch {
		in = ParseQuery(raw, BatchNames()...)
		b = DecodeBatch(in, d, at.epoch, at.batch)
	} else {
		in = ParseQuery(raw, EpochNames()...)
		b = DecodeEpoch(in, d, at.epoch)
	}
	if !in.Has("generation") {
		in.Fail("generation", "missing: copy it from the Content-Location of a response")
	}
	if err := d.Check(in); err != nil && len(in.Faults()) == 0 {
		return b, at.hasBatch, err
	}
	q.Adopt("url.", in.Faults())
	if b.Params.Subset != "" || b.Quarantine != "" {
		q.Fail("url", "has a subset or a quarantine: losses are accepted only for plans of all samples")
	}
	return b, at.hasBatch, nil
}

// DatasetOf returns the dataset name and the query in the URL of an epoch or batch. The name ""
// means the default dataset.
func DatasetOf(address string) (name, query string, ok bool) {
	path, query, _ := strings.Cut(fromPath(address), "?")
	at, ok := parsePath(strings.TrimSuffix(path, "/manifest"))
	return at.dataset, query, ok
}

// fromPath returns a URL without its scheme and host.
func fromPath(address string) string {
	if _, rest, whole := strings.Cut(address, "://"); whole {
		_, rest, _ = strings.Cut(rest, "/")
		return "/" + rest
	}
	return address
}

// place is the parsed path of an epoch or batch.
type place struct {
	dataset, epoch, batch string
	hasBatch              bool
	short                 bool // the path has no dataset name
}

func parsePath(path string) (at place, ok bool) {
	parts := strings.Split(path, "/")
	long := len(parts) > 5 && parts[1] == "v1" && parts[2] == "datasets" && parts[4] == "epochs"
	switch {
	case len(parts) == 5 && parts[1] == "epoch" && parts[3] == "batch":
		return place{epoch: parts[2], batch: parts[4], hasBatch: true, short: true}, true
	case long && len(parts) == 8 && parts[6] == "batches":
		return place{dataset: parts[3], epoch: parts[5], batch: parts[7], hasBatch: true}, true
	case long && len(parts) == 6:
		return place{dataset: parts[3], epoch: parts[5]}, true
	}
	return place{}, false
}
