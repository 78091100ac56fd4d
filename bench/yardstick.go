package main

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"time"
)

// yardstick is the child process of the arms HOT and COLD-MEM.
func yardstick(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("yardstick", flag.ContinueOnError)
	addr := f.String("listen", "", "address")
	body := f.Int64("body", 0, "length of a response")
	memory := f.Int64("memory", 0, "length of the buffer that responses are cut from")
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
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	srv := &http.Server{Addr: *addr, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// startYardstick runs the bare handlers.
func startYardstick(ctx context.Context, body, memory int64) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	return start(ctx, addr, "/healthz", nil, self, "yardstick", "-listen", addr,
		"-body", strconv.FormatInt(body, 10), "-memory", strconv.FormatInt(memory, 10))
}
