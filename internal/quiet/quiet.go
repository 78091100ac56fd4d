// Package quiet keeps a log from being filled by strangers, who may come wrongly as often as they
// like, or by a client that is set up wrongly and comes again every second.
package quiet

import (
	"bytes"
	"log"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Bounds of what the log hears of strangers.
const (
	For      = time.Minute // between two lines of one kind
	kinds    = 256         // that are told apart; beyond it all others are one kind
	maxBytes = 512         // of a line or kind
)

// Lines knows which lines were written. The zero value is ready.
type Lines struct {
	mu    sync.Mutex // guards what follows
	kinds map[string]*lineCount
}

type lineCount struct {
	at   time.Time // of the last line
	more int       // of the kind since then
}

// Tell reports whether a line of this kind is to be written now, and how many were left out since
// the last one.
func (q *Lines) Tell(kind string) (leftOut int, write bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if q.kinds[kind] == nil && len(q.kinds) >= kinds {
		for other, t := range q.kinds {
			if now.Sub(t.at) >= For && t.more == 0 {
				delete(q.kinds, other)
			}
		}
		if len(q.kinds) >= kinds {
			kind = ""
		}
	}
	t := q.kinds[kind]
	switch {
	case t == nil:
		if q.kinds == nil {
			q.kinds = map[string]*lineCount{}
		}
		q.kinds[kind] = &lineCount{at: now}
		return 0, true
	case now.Sub(t.at) < For:
		t.more++
		return 0, false
	}
	leftOut, t.at, t.more = t.more, now, 0
	return leftOut, true
}

// HTTP returns the log of an HTTP server, which takes what net/http has to say of connections: a
// handshake that failed, a panic. A panic is always written.
func (q *Lines) HTTP(to zerolog.Logger, message string) *log.Logger {
	return log.New(&httpLog{q, to, message}, "", 0)
}

type httpLog struct {
	lines   *Lines
	to      zerolog.Logger
	message string
}

func (l *httpLog) Write(p []byte) (int, error) {
	leftOut, write := 0, bytes.Contains(p, []byte("panic"))
	said := p
	if !write {
		leftOut, write = l.lines.Tell(kindOf(string(p)))
		said = p[:min(len(p), maxBytes)]
	}
	if write {
		l.to.Warn().Bytes("said", bytes.TrimSpace(said)).Int("left_out", leftOut).Msg(l.message)
	}
	return len(p), nil
}

// Host is an address without its port, which is another one for each connection.
func Host(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// kindOf is a line of net/http without the ports in it.
func kindOf(line string) string {
	words := strings.Fields(line)
	for i, w := range words {
		words[i] = Host(strings.TrimSuffix(w, ":"))
	}
	kind := strings.Join(words, " ")
	return kind[:min(len(kind), maxBytes)]
}
