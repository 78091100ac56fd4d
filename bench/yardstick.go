package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// yardstick is the child process of the arms HOT, COLD-MEM and RELAY.
func yardstick(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("yardstick", flag.ContinueOnError)
	addr := f.String("listen", "", "address")
	body := f.Int64("body", 0, "length of a response")
	memory := f.Int64("memory", 0, "length of the buffer that responses are cut from")
	from := f.String("from", "", "address of the yardstick that /relay asks for its responses")
	cert := f.String("tls-cert", "", "certificate: its responses are encrypted")
	key := f.String("tls-key", "", "its key")
	if err := f.Parse(args); err != nil {
		return err
	}
	data := make([]byte, max(*memory, *body))
	for i := range data {
		data[i] = byte(i>>8) | 1 // touched: resident
	}
	handler := func(hot bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			at := int64(0)
			if room := int64(len(data)) - *body; !hot && room > 0 {
				at = rand.Int64N(room)
			}
			w.Header().Set("Content-Type", "application/x-tar")
			w.Header().Set("Content-Length", strconv.FormatInt(*body, 10))
			w.Write(data[at : at+*body]) //nolint:errcheck // the reader has gone
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/hot", handler(true))
	mux.Handle("/cold", handler(false))
	mux.Handle("/relay", relay(*from, *body))
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	srv := &http.Server{Addr: *addr, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	serve := srv.ListenAndServe
	if *cert != "" {
		serve = func() error { return srv.ListenAndServeTLS(*cert, *key) }
	}
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// relay answers with what another yardstick answers: two bare hops, the least that a gateway does which asks another one.
func relay(from string, body int64) http.HandlerFunc {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
	buffers := sync.Pool{New: func() any { b := make([]byte, body); return &b }}
	return func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://"+from+"/hot", nil)
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

// startYardstick runs the bare handlers. more are further arguments.
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
