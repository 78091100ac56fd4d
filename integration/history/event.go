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

// The outcomes. Only Whole and Part have a body.
const (
	Whole     Outcome = "whole"     // a 200 that was read completely
	Part      Outcome = "part"      // a 206
	Refused   Outcome = "refused"   // an explicit error
	Broken    Outcome = "broken"    // no response, or an incomplete body that the client noticed
	Completed Outcome = "completed" // not a request: the client reports that the epoch of Job is complete
)

// Digest is the SHA-256 of a body.
type Digest [sha256.Size]byte

// MarshalText writes hexadecimal digits.
func (d Digest) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(d[:])), nil }

// UnmarshalText reads hexadecimal digits.
func (d *Digest) UnmarshalText(text []byte) error {
	if n, err := hex.Decode(d[:], text); err != nil || n != len(d) {
		return fmt.Errorf("digest %q: want %d hexadecimal digits: %w", text, 2*len(d), errors.Join(err))
	}
	return nil
}

// Event is one observation of a client.
type Event struct {
	Client     string    `json:"client"`
	URL        string    `json:"url"` // path and query, which name dataset, generation and plan
	Start      time.Time `json:"start,omitzero"`
	End        time.Time `json:"end,omitzero"`
	Outcome    Outcome   `json:"outcome"`
	Reason     string    `json:"reason,omitempty"` // for Refused and Broken
	ETag       string    `json:"etag,omitempty"`
	Generation string    `json:"generation,omitempty"` // generation in the response
	Length     int64     `json:"length,omitempty"`
	SHA256     Digest    `json:"sha256,omitzero"`
	Job        string    `json:"job,omitempty"`     // epoch of a job that receives the samples; "": they do not count
	Samples    []string  `json:"samples,omitempty"` // in order; empty: the plan's samples
	Total      int       `json:"total,omitempty"`   // for Completed: samples of the epoch; 0: the plan's number

	body []byte
}

// WithBody returns the event with a body, its length and its digest.
func (e Event) WithBody(body []byte) Event {
	e.body, e.Length, e.SHA256 = body, int64(len(body)), sha256.Sum256(body)
	return e
}

// WithoutBody returns the event with only the digest of its body.
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

// Answer returns the event of an HTTP response; err is the error of the request or of reading the
// body.
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

// register returns path and query of an address with the parameters in sorted order. Every gateway
// must send the same response for it.
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

// place returns the epoch and the generation that a URL names; both are empty if it names none.
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
