// Package audit keeps a record of what callers changed and what they were refused: one JSON line for each, in a file of
// its own. No log level silences it.
//
// A line that cannot be written is kept and written first as soon as that is possible. Until then Err says why not, and a
// gateway takes no writes: nobody changes anything without a record.
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

// Entry is one line. Empty fields are left out.
type Entry struct {
	Time            time.Time `json:"time"`
	Event           string    `json:"event"` // write, refusal or strangers
	Principal       string    `json:"principal,omitempty"`
	Address         string    `json:"address"` // of the caller
	Method          string    `json:"method,omitempty"`
	Route           string    `json:"route,omitempty"`
	Right           string    `json:"right,omitempty"`
	Dataset         string    `json:"dataset,omitempty"`
	Status          int       `json:"status,omitempty"`
	Bytes           int64     `json:"bytes"`                       // of the answer
	RequestID       string    `json:"request_id,omitempty"`        // the gateway's own
	CallerRequestID string    `json:"caller_request_id,omitempty"` // what the caller calls it
	Requests        int       `json:"requests,omitempty"`          // of strangers: how many came within a minute
}

// The events.
const (
	Write     = "write"     // a caller changed something, or tried to
	Refusal   = "refusal"   // a caller that is known lacked a right, or was over a limit
	strangers = "strangers" // callers of one address were refused for want of valid credentials
)

const (
	flushEvery = time.Minute
	most       = 10_000  // addresses of strangers within a minute that are counted one by one
	mostKept   = 4 << 20 // bytes of lines that could not be written; beyond it refusals are dropped, and counted
)

// Log writes entries. It is safe for concurrent use; nil is a log that keeps nothing.
type Log struct {
	name string

	mu      sync.Mutex // guards what follows
	out     io.Writer
	file    *os.File // out, where it is a file
	kept    []byte   // lines that could not be written yet
	dropped int      // refusals since the last line that was written
	err     error    // why the last line could not be written
	unknown map[string]int
}

// Open opens a log: a file that is appended to, or "stderr".
func Open(name string) (*Log, error) {
	l := &Log{name: name, unknown: map[string]int{}}
	if name == "stderr" {
		l.out = os.Stderr
		return l, nil
	}
	return l, l.open()
}

// open opens the file, anew where somebody has moved it away.
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
		_ = l.file.Close() // each line that it was given is in it
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

// write writes the lines that are kept. A line that the disk took in part is written whole once more.
func (l *Log) write() {
	if l.err = l.open(); l.err != nil {
		return
	}
	n, err := l.out.Write(l.kept)
	whole := bytes.LastIndexByte(l.kept[:n], '\n') + 1
	torn := n > whole
	if torn && n < len(l.kept) && l.kept[n] == '\n' {
		whole, torn = n, false // it lacks its end alone
	}
	l.kept = slices.Delete(l.kept, 0, whole)
	if err != nil {
		l.err = fmt.Errorf("audit log: %w", err)
		if torn {
			l.kept = slices.Insert(l.kept, 0, '\n') // ends the torn line, which is no JSON then
		}
		return
	}
	if l.dropped > 0 {
		n := l.dropped
		l.dropped = 0
		l.add(Entry{Time: time.Now(), Event: Refusal, Requests: n})
	}
}

// Stranger counts a refusal for want of valid credentials. Refusals of an address are added up and written each minute, so
// that strangers cannot fill the disk.
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

// Err returns why no line can be written, after it has tried to. A gateway takes no writes meanwhile.
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

// Run writes what strangers were refused, each minute until ctx ends.
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

// Close writes what is left, and closes the file.
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
