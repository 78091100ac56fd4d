package lookahead

import (
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// group is one of the groups of ranks among which shares are dealt by homes (share=locality).
type group struct {
	number uint64
	of     uint64 // groups in all; 1: shares do not follow homes
}

// groups are the groups whose ranks read at this gateway, all of one number of groups. A reader comes for the
// chunks that are at home with them; nil stands for all chunks. They never change.
type groups []group

// came notes that a rank of a group reads here, and reports whether the reader comes for other chunks than before. A group
// that has not been heard of for much longer than a batch takes reads elsewhere.
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

// gather returns the groups that were heard of; nil where these are all there are, or shares follow no homes, or homes of
// different numbers.
func gather(here map[group]time.Time) groups {
	all := make(groups, 0, len(here))
	for g := range here {
		if all = append(all, g); g.of == uint64(len(here)) || g.of != all[0].of {
			return nil
		}
	}
	return all
}
