package build

import (
	"fmt"
	"path"
	"regexp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// cacheName matches the tables that map, filter and similar calls of Hugging Face's datasets store
// next to their input. The name contains a fingerprint. With num_proc, it also contains the number
// of the process.
var cacheName = regexp.MustCompile(`^(cache-[0-9a-f]+)(_\d{5}_of_\d{5})?\.arrow$`)

// refuseCaches returns an error if tables of Hugging Face's datasets are mixed with tables derived
// from them, because rows would be repeated. It accepts a pattern that the user chose.
func (b *builder) refuseCaches() error {
	if b.format.Name != framing.Arrow || b.chosenByPattern() {
		return nil
	}
	calls, read := map[string]int{}, 0 // number of derived tables by the fingerprint of their call, and number of other tables
	made, call := "", ""
	for _, s := range b.found.Shards {
		if name := cacheName.FindStringSubmatch(path.Base(s.Key)); name != nil {
			made, call = s.Key, name[1]
			calls[call]++
		} else {
			read++
		}
	}
	if len(calls) == 0 || len(calls) == 1 && read == 0 {
		return nil
	}
	e := &format.ChoiceError{Cause: fmt.Sprintf("object %s was derived from other tables in this directory, as by map and filter of Hugging Face's datasets, so an index of all tables would repeat rows", made)}
	if read > 0 {
		e.Ways = append(e.Ways, format.Way{Flag: "match", Value: "!cache-*.arrow", Effect: fmt.Sprintf("selects the other tables: %d of %d", read, len(b.found.Shards))})
	}
	e.Ways = append(e.Ways, format.Way{Flag: "match", Value: call + "*.arrow", Effect: fmt.Sprintf("selects the tables of one call: %d of %d", calls[call], len(b.found.Shards))})
	return e
}
