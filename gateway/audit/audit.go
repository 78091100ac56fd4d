// Package audit records changes by callers and refused requests: one JSON line per event in a
// separate file, independent of log levels.
//
// The log buffers a line that it cannot write, and writes it first as soon as possible. Until then
// Err returns the error and the gateway rejects writes, so that nothing changes without a record.
package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// Entry is one line. Empty fields are omitted.
type Entry struct {
	Time            time.Time `json:"time"`
	Event           string    `json:"event"` // write, refusal or strangers
	Principal       string    `json:"principal,omitempty"`
	Address         string    `json:"address"` // address of the caller
	Method          string    `json:"method,omitempty"`
	Route           string    `json:"route,omitempty"`
	Right           string    `json:"right,omitempty"`
	Dataset         string    `json:"dataset,omitempty"`
	Status          int       `json:"status,omitempty"`
	Bytes           int64     `json:"bytes"`                       // size of the response
	RequestID       string    `json:"request_id,omitempty"`        // assigned by the gateway
	CallerRequestID string    `json:"caller_request_id,omitempty"` // assigned by the caller
	Requests        int       `json:"requests,omitempty"`          // strangers: number of requests within a minute
}

// Events.
const (
	Write     = "write"     // a caller changed something, or attempted to
	Refusal   = "refusal"   // a known caller lacked a right or exceeded a limit
	strangers = "strangers" // requests from one address were refused for lack of valid credentials
)

const (
	flushEvery = time.Minute
	most       = 10_000  // maximum addresses of strangers counted separately within a minute
	mostKept   = 4 << 20 // maximum bytes of unwritten lines; beyond it refusals are only counted
)

// Log writes entries. It is safe for concurrent use; a nil Log discards entries.
type Log struct {
	name string

	mu      sync.Mutex // guards the fields below
	out     io.Writer
	file    *os.File // out, if it is a file
	kept    []byte   // lines not written yet
	dropped int      // refusals dropped since the last written line
	err     error    // error of the last write
	unknown map[string]int
}

// Open opens a log: a file to append to, or "stderr".
func Open(name string) (*Log, error) {
	l := &Log{name: name, unknown: map[string]int{}}
	if name == "stderr" {
		l.out = os.Stderr
		return l, nil
	}
	return l, l.open()
}

// open opens the file. It reopens the file if log rotation has moved it.
func (l *Log) open() error {
	if l.file == nil && l.out != nil {
		return nil // stderr
	}
	if l.file != nil {
		there, err := os.Stat(l.name)
		here, herr := l.file.Stat()
		if err == nil && herr == nil && os.SameFile(there, here) {
			return nil
		}
		_ = l.file.Close() // all written lines are complete in it
		l.file, l.out = nil, nil
	}
	f, err := os.OpenFile(l.name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	l.file, l.out = f, f
	return nil
}

// Add writes an entry.
func (l *Log) Add(e Entry) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(e)
}

func (l *Log) add(e Entry) {
	if e.Event != Write && len(l.kept) > mostKept {
		l.dropped++
		return
	}
	line, err := json.Marshal(e)
	if err != nil {
		l.err = fmt.Errorf("audit log: %w", err)
		return
	}
	l.kept = append(append(l.kept, line...), '\n')
	l.write()
}

// write writes the kept lines. It repeats a partially written line completely.
func (l *Log) write() {
	if l.err = l.open(); l.err != nil {
		return
	}
	n, err := l.out.Write(l.kept)
	whole := bytes.LastIndexByte(l.kept[:n], '\n') + 1
	torn := n > whole
	if torn && n < len(l.kept) && l.kept[n] == '\n' {
		whole, torn = n, false // only the newline is missing
	}
	l.kept = slices.Delete(l.kept, 0, whole)
	if err != nil {
		l.err = fmt.Errorf("audit log: %w", err)
		if torn {
			l.kept = slices.Insert(l.kept, 0, '\n') // terminates the partial line, which is then invalid JSON
		}
		return
	}
	if l.dropped > 0 {
		n := l.dropped
		l.dropped = 0
		l.add(Entry{Time: time.Now(), Event: Refusal, Requests: n})
	}
}

// Stranger counts a request that was refused for lack of valid credentials. The counts are written
// per address each minute, so that strangers cannot fill the disk.
func (l *Log) Stranger(address string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.unknown[address]; !known && len(l.unknown) >= most {
		address = "others"
	}
	l.unknown[address]++
}

// Err tries to write the kept lines and returns the error if that fails. The gateway then rejects
// writes.
func (l *Log) Err() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		l.write()
	}
	return l.err
}

// Run writes the counts of strangers each minute until ctx ends.
func (l *Log) Run(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.flush()
		case <-ctx.Done():
			return
		}
	}
}

func (l *Log) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for address, n := range l.unknown {
		l.add(Entry{Time: time.Now(), Event: strangers, Address: address, Requests: n})
	}
	clear(l.unknown)
}

// Close writes the remaining entries and closes the file.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.flush()
	err := l.Err()
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
	}
	return err
}
