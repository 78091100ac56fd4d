package history

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Outcome is how a request ended.
type Outcome string

// The outcomes. Only Whole and Part carry bytes.
const (
	Whole     Outcome = "whole"     // a 200 that was read to its end
	Part      Outcome = "part"      // a 206
	Refused   Outcome = "refused"   // an explicit error
	Broken    Outcome = "broken"    // no answer, or a body that broke off: the client knows
	Completed Outcome = "completed" // no request: the client says that the epoch of Job is complete
)

// Digest is the SHA-256 of a body.
type Digest [sha256.Size]byte

// MarshalText writes hexadecimal digits.
func (d Digest) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(d[:])), nil }

// UnmarshalText reads them.
func (d *Digest) UnmarshalText(text []byte) error {
	if n, err := hex.Decode(d[:], text); err != nil || n != len(d) {
		return fmt.Errorf("digest %q: want %d hexadecimal digits: %w", text, 2*len(d), errors.Join(err))
	}
	return nil
}

// Event is one thing that a client saw.
type Event struct {
	Client     string    `json:"client"`
	URL        string    `json:"url"` // path and query; dataset, generation and plan
	Start      time.Time `json:"start,omitzero"`
	End        time.Time `json:"end,omitzero"`
	Outcome    Outcome   `json:"outcome"`
	Reason     string    `json:"reason,omitempty"` // of Refused and Broken
	ETag       string    `json:"etag,omitempty"`
	Generation string    `json:"generation,omitempty"` // that the answer names
	Length     int64     `json:"length,omitempty"`
	SHA256     Digest    `json:"sha256,omitzero"`
	Job        string    `json:"job,omitempty"`     // epoch of a job that takes the samples; "": they do not count
	Samples    []string  `json:"samples,omitempty"` // in order; empty: those of the plan
	Total      int       `json:"total,omitempty"`   // of Completed: samples of the epoch; 0: those of the plan

	body []byte
}

// WithBody returns the event with a body, its length and its digest.
func (e Event) WithBody(body []byte) Event {
	e.body, e.Length, e.SHA256 = body, int64(len(body)), sha256.Sum256(body)
	return e
}

// WithoutBody returns the event with the digest of its body alone.
func (e Event) WithoutBody() Event {
	e.body = nil
	return e
}

// String names the event in a violation.
func (e Event) String() string {
	s := e.Client
	if !e.End.IsZero() {
		s += e.End.UTC().Format(" at 15:04:05.000000")
	}
	s += ": " + e.URL
	if e.ETag != "" {
		s += " ETag " + e.ETag
	}
	return s
}

// Answer is the event of an HTTP answer; err is that of the request or of its body.
func Answer(client, address string, start time.Time, status int, header http.Header, body []byte, err error) Event {
	e := Event{Client: client, URL: register(address), Start: start, End: time.Now(), ETag: header.Get("ETag"), Generation: header.Get("Millrace-Generation")}
	switch {
	case err != nil:
		e.Outcome, e.Reason = Broken, err.Error()
	case status == http.StatusOK:
		e.Outcome = Whole
		return e.WithBody(body)
	case status == http.StatusPartialContent:
		e.Outcome = Part
	default:
		e.Outcome, e.Reason = Refused, fmt.Sprintf("status %d", status)
	}
	return e
}

// register returns path and query of an address, with parameters in one order: what every gateway answers alike.
func register(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	if u.RawQuery == "" {
		return u.EscapedPath()
	}
	return u.EscapedPath() + "?" + u.Query().Encode()
}

// place returns the epoch and the generation that a URL names; empty where it names none.
func place(address string) (epoch, generation string) {
	path, query, _ := strings.Cut(address, "?")
	parts := strings.Split(path, "/")
	for i, p := range parts[:len(parts)-1] {
		if p == "epochs" || p == "epoch" {
			epoch = parts[i+1]
		}
	}
	if q, err := url.ParseQuery(query); err == nil {
		generation = q.Get("generation")
	}
	return epoch, generation
}

// Read adds the events of a log in JSON lines, which clients in other languages write.
func (l *Log) Read(r io.Reader) error {
	for in := json.NewDecoder(r); ; {
		var e Event
		err := in.Decode(&e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read history: event %d: %w", l.Events(), err)
		}
		e.URL = register(e.URL)
		l.Add(e)
	}
}
