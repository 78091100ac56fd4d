package lookahead

import (
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// group is one of the groups of ranks among which batches are divided by homes (share=locality).
type group struct {
	number uint64
	of     uint64 // total number of groups; 1: shares do not follow homes
}

// groups are the groups whose ranks read at this gateway, all with the same total. A reader needs
// the chunks whose home is one of them; nil means all chunks. They are immutable.
type groups []group

// came records that a rank of a group reads at this gateway. It reports whether the set of chunks
// that the reader needs has changed. A group that sends no request for much longer than a batch
// takes counts as reading elsewhere.
func (x *reader) came(at shuffle.Cursor, now time.Time) (changed bool) {
	if x.here == nil {
		x.here = map[group]time.Time{}
	}
	var g group
	g.number, g.of = at.Group()
	_, known := x.here[g]
	x.here[g] = now
	patience := max(readerNew, x.patience())
	for o, seen := range x.here {
		if now.Sub(seen) > patience {
			delete(x.here, o)
			known = false
		}
	}
	if known {
		return false
	}
	x.groups = gather(x.here)
	return true
}

// gather returns the recorded groups. It returns nil if these are all the groups, if shares do not
// follow homes, or if the groups have different totals.
func gather(here map[group]time.Time) groups {
	all := make(groups, 0, len(here))
	for g := range here {
		if all = append(all, g); g.of == uint64(len(here)) || g.of != all[0].of {
			return nil
		}
	}
	return all
}
