package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/millrace-data/millrace/client"
)

// Took adds a batch that a client of package client received for an epoch of a job. Without a
// manifest its samples are those of the plan.
func (l *Log) Took(who, job string, b *client.Batch) {
	e := Event{Client: who, URL: register(b.Location), End: time.Now(), Outcome: Whole, Generation: b.Generation, Job: job}
	if b.HasManifest() {
		for i := range b.Samples() - int(b.Padded) {
			s := b.Describe(i)
			e.Samples = append(e.Samples, sampleName(fmt.Sprint(s.Shard), s.Key))
		}
	}
	l.Add(e.WithBody(b.Bytes()))
}

// sampleName names a sample by its shard, relative to the dataset, and its key.
func sampleName(shard, key string) string { return shard + " " + key }

// Complete records that an epoch of a job is complete, with the given number of samples; 0: the
// plan's number.
func (l *Log) Complete(who, job string, samples uint64) {
	l.Add(Event{Client: who, URL: job, End: time.Now(), Outcome: Completed, Job: job, Total: int(samples)})
}

// Client returns an HTTP client with its own connections. The log records its responses for
// batches.
func (l *Log) Client(who string) *http.Client {
	return &http.Client{Transport: l.Through(who, http.DefaultTransport.(*http.Transport).Clone())}
}

// Through returns a transport that records each response for a batch, whether or not its reader
// accepts it.
func (l *Log) Through(who string, base http.RoundTripper) http.RoundTripper {
	return transport{l, who, base}
}

type transport struct {
	log  *Log
	who  string
	base http.RoundTripper
}

// CloseIdleConnections implements the method that http.Client.CloseIdleConnections calls.
func (t transport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if path := r.URL.Path; r.Method != http.MethodGet || !strings.Contains(path, "/batch") || strings.HasSuffix(path, "/manifest") {
		return t.base.RoundTrip(r)
	}
	start := time.Now()
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		t.log.Add(Answer(t.who, r.URL.String(), start, 0, nil, nil, err))
		return nil, err
	}
	resp.Body = &recorded{ReadCloser: resp.Body, add: func(body []byte, err error) {
		t.log.Add(Answer(t.who, r.URL.String(), start, resp.StatusCode, resp.Header, body, err))
	}}
	return resp, nil
}

// recorded is a body that is added to a log when it ends.
type recorded struct {
	io.ReadCloser
	came bytes.Buffer
	add  func(body []byte, err error) // nil after its call
}

func (r *recorded) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.came.Write(p[:n])
	if errors.Is(err, io.EOF) {
		r.end(nil)
	} else if err != nil {
		r.end(err)
	}
	return n, err
}

func (r *recorded) Close() error {
	r.end(errors.New("closed before its end"))
	return r.ReadCloser.Close()
}

func (r *recorded) end(err error) {
	if r.add != nil {
		r.add(r.came.Bytes(), err)
		r.add = nil
	}
}
