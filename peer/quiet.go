package peer

import (
	"net"
	"strings"
	"sync"
	"time"
)

// Bounds of what the log hears of strangers: one line of a kind in quietFor, and of so many kinds.
const (
	quietFor   = time.Minute
	quietKinds = 256
)

// quiet keeps a log from being filled by whoever reaches the port, or by one gateway that is set up wrongly and comes
// again every second. The zero value is ready.
type quiet struct {
	mu    sync.Mutex // guards what follows
	kinds map[string]*told
}

type told struct {
	at   time.Time // of the last line
	more int       // of the kind since then
}

// tell reports whether a line of this kind is to be written now, and how many were left out since the last one. When there
// are too many kinds they are one kind.
func (q *quiet) tell(kind string) (leftOut int, write bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if q.kinds[kind] == nil && len(q.kinds) >= quietKinds {
		for other, t := range q.kinds {
			if now.Sub(t.at) >= quietFor && t.more == 0 {
				delete(q.kinds, other)
			}
		}
		if len(q.kinds) >= quietKinds {
			kind = ""
		}
	}
	t := q.kinds[kind]
	switch {
	case t == nil:
		if q.kinds == nil {
			q.kinds = map[string]*told{}
		}
		q.kinds[kind] = &told{at: now}
		return 0, true
	case now.Sub(t.at) < quietFor:
		t.more++
		return 0, false
	}
	leftOut, t.at, t.more = t.more, now, 0
	return leftOut, true
}

// hostOf is an address without its port, which is another one for each connection.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// kindOf is a line of net/http without the ports in it.
func kindOf(line string) string {
	words := strings.Fields(line)
	for i, w := range words {
		words[i] = hostOf(strings.TrimSuffix(w, ":"))
	}
	return some(strings.Join(words, " "))
}
