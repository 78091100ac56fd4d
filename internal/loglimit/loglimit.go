// Package loglimit limits the rate of log lines that clients cause: a scanner, or a client with a
// wrong configuration that retries every second, must not fill the log.
package loglimit

import (
	"bytes"
	"log"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Limits of the lines that clients cause.
const (
	Interval = time.Minute // shortest time between two lines of one kind
	kinds    = 256         // number of kinds counted separately; all others are one kind
	maxBytes = 512         // maximum length of a line or kind
)

// Limiter allows one line of each kind per Interval. The zero value is ready. It is safe for
// concurrent use.
type Limiter struct {
	mu    sync.Mutex // guards the fields below
	kinds map[string]*lineCount
}

// lineCount counts the lines of one kind.
type lineCount struct {
	at   time.Time // time of the last line
	more int       // number of lines omitted since then
}

// Allow reports whether to write a line of this kind now, and the number of lines omitted since the
// last one.
func (l *Limiter) Allow(kind string) (leftOut int, write bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.kinds[kind] == nil && len(l.kinds) >= kinds {
		for other, t := range l.kinds {
			if now.Sub(t.at) >= Interval && t.more == 0 {
				delete(l.kinds, other)
			}
		}
		if len(l.kinds) >= kinds {
			kind = ""
		}
	}
	t := l.kinds[kind]
	switch {
	case t == nil:
		if l.kinds == nil {
			l.kinds = map[string]*lineCount{}
		}
		l.kinds[kind] = &lineCount{at: now}
		return 0, true
	case now.Sub(t.at) < Interval:
		t.more++
		return 0, false
	}
	leftOut, t.at, t.more = t.more, now, 0
	return leftOut, true
}

// HTTP returns a log for an HTTP server. It limits net/http's lines about connections, such as
// failed handshakes, and always writes panics.
func (l *Limiter) HTTP(to zerolog.Logger, message string) *log.Logger {
	return log.New(&httpLog{l, to, message}, "", 0)
}

type httpLog struct {
	limiter *Limiter
	to      zerolog.Logger
	message string
}

func (l *httpLog) Write(p []byte) (int, error) {
	leftOut, write := 0, bytes.Contains(p, []byte("panic"))
	said := p
	if !write {
		leftOut, write = l.limiter.Allow(kindOf(string(p)))
		said = p[:min(len(p), maxBytes)]
	}
	if write {
		l.to.Warn().Bytes("said", bytes.TrimSpace(said)).Int("left_out", leftOut).Msg(l.message)
	}
	return len(p), nil
}

// Host returns an address without its port, which differs for each connection.
func Host(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// kindOf returns a line of net/http without its ports.
func kindOf(line string) string {
	words := strings.Fields(line)
	for i, w := range words {
		words[i] = Host(strings.TrimSuffix(w, ":"))
	}
	kind := strings.Join(words, " ")
	return kind[:min(len(kind), maxBytes)]
}
