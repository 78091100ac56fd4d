package build

import (
	"fmt"
	"path"
	"regexp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// cacheName is what Hugging Face's datasets calls the tables that map, filter and the like leave beside those they read: by a fingerprint, and with
// num_proc by the place of each.
var cacheName = regexp.MustCompile(`^(cache-[0-9a-f]+)(_\d{5}_of_\d{5})?\.arrow$`)

// refuseCaches refuses tables of datasets beside those that were made of them, since rows would come twice. Who chooses files by a pattern knows.
func (b *builder) refuseCaches() error {
	if b.format.Name != framing.Arrow || b.chosenByPattern() {
		return nil
	}
	calls, read := map[string]int{}, 0 // tables by the call that made them, and the others
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
	e := &format.ChoiceError{Cause: fmt.Sprintf("object %s was made of other tables here, as map and filter of Hugging Face's datasets do, so rows would come twice", made)}
	if read > 0 {
		e.Ways = append(e.Ways, format.Way{Flag: "match", Value: "!cache-*.arrow", Effect: fmt.Sprintf("takes what was not made so: %d of %d", read, len(b.found.Shards))})
	}
	e.Ways = append(e.Ways, format.Way{Flag: "match", Value: call + "*.arrow", Effect: fmt.Sprintf("takes what one call has made: %d of %d", calls[call], len(b.found.Shards))})
	return e
}
