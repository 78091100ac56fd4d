package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/s3backend"
)

// yardstick runs the arms HOT, COLD-MEM, RELAY and two bare hops in a child process.
func yardstick(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("yardstick", flag.ContinueOnError)
	addr := f.String("listen", "", "address")
	body := f.Int64("body", 0, "length of a response")
	memory := f.Int64("memory", 0, "length of the buffer that responses are cut from")
	from := f.String("from", "", "address of the yardstick that /relay asks for its responses")
	hop := f.String("hop-listen", "", "address at which another yardstick's /relay asks this one")
	hopCert := f.String("hop-cert", "", "certificate of both ends of that hop, for mutual TLS 1.3")
	hopKey := f.String("hop-key", "", "its key")
	streamed := f.String("stream", "", "dataset that /stream sends, as RELAY")
	endpoint := f.String("store", "", "URL of the store that has it")
	mib := f.Int64("mib", 0, "its size")
	cert := f.String("tls-cert", "", "certificate: its responses are encrypted")
	key := f.String("tls-key", "", "its key")
	if err := f.Parse(args); err != nil {
		return err
	}
	data := make([]byte, max(*memory, *body))
	for i := range data {
		data[i] = byte(i>>8) | 1 // touched: resident
	}
	mux := http.NewServeMux()
	mux.Handle("/hot", answers(data, *body, true))
	mux.Handle("/cold", answers(data, *body, false))
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	var between *tls.Config
	if *hopCert != "" {
		var err error
		if between, err = mutual(*hopCert, *hopKey); err != nil {
			return err
		}
		mux.Handle("/relay", relay(*from, *body, between))
	}
	g, ctx := errgroup.WithContext(ctx)
	if *streamed != "" {
		store, err := s3backend.New(s3backend.Config{Bucket: bucket, Endpoint: *endpoint, Region: "us-east-1", PathStyle: true})
		if err != nil {
			return err
		}
		s, err := newStream(ctx, store, setOf(*streamed, *mib))
		if err != nil {
			return err
		}
		s.begin = sync.OnceFunc(func() { g.Go(func() error { return s.fetch(ctx) }) })
		mux.Handle("/stream", s)
	}
	if *hop != "" {
		srv := &http.Server{Addr: *hop, Handler: mux, TLSConfig: between.Clone(), ReadHeaderTimeout: 5 * time.Second}
		g.Go(func() error { return serveUntil(ctx, srv, func() error { return srv.ListenAndServeTLS("", "") }) })
	}
	srv := &http.Server{Addr: *addr, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	g.Go(func() error {
		return serveUntil(ctx, srv, func() error {
			if *cert != "" {
				return srv.ListenAndServeTLS(*cert, *key)
			}
			return srv.ListenAndServe()
		})
	})
	return g.Wait()
}

// answers returns a handler that sends body bytes of data: the first bytes if hot, otherwise bytes
// from a random position.
func answers(data []byte, body int64, hot bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		at := int64(0)
		if room := int64(len(data)) - body; !hot && room > 0 {
			at = rand.Int64N(room)
		}
		w.Header().Set("Content-Type", "application/x-tar")
		w.Header().Set("Content-Length", strconv.FormatInt(body, 10))
		w.Write(data[at : at+body]) //nolint:errcheck // the reader has gone
	}
}

// serveUntil serves until ctx ends.
func serveUntil(ctx context.Context, srv *http.Server, serve func() error) error {
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// relay returns a handler that forwards the responses of another yardstick. These two bare hops are
// the least work of a gateway that requests data from another one.
func relay(from string, body int64, between *tls.Config) http.HandlerFunc {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true, TLSClientConfig: between}}
	buffers := sync.Pool{New: func() any { b := make([]byte, body); return &b }}
	return func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, https+from+"/hot", nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close() // read to the end
		buf := buffers.Get().(*[]byte)
		defer buffers.Put(buf)
		if _, err := io.ReadFull(resp.Body, *buf); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/x-tar")
		w.Header().Set("Content-Length", strconv.FormatInt(body, 10))
		w.Write(*buf) //nolint:errcheck // the reader has gone
	}
}

// startYardstick starts a child process with the bare handlers. more are additional arguments.
func startYardstick(ctx context.Context, body, memory int64, more ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	args := append([]string{
		"yardstick", "-listen", addr,
		"-body", strconv.FormatInt(body, 10), "-memory", strconv.FormatInt(memory, 10),
	}, more...)
	return start(ctx, scheme(more)+addr, "/healthz", nil, self, args...)
}
