// Command wire is a proxy between the readers of a benchmark and an S3 server. It counts requests
// and bytes. On request it behaves like a distant store, or cuts an answer in the middle.
//
//	wire --listen 127.0.0.1:9100 --control 127.0.0.1:9101 --backend 127.0.0.1:9000 --first-byte 20ms --stream 80e6 --total 500e6
//
// At the control address, GET /counts answers {"requests","gets","heads","lists","bytes"}, POST
// /reset sets them to zero, and POST /cut?after=N&answers=K ends each of the next K bodies of more
// than N bytes after N of them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "wire:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("wire", flag.ContinueOnError)
	listen := set.String("listen", "127.0.0.1:9100", "`ADDRESS` for readers")
	control := set.String("control", "127.0.0.1:9101", "`ADDRESS` for counts and cuts")
	backend := set.String("backend", "127.0.0.1:9000", "`ADDRESS` of the S3 server")
	var s shape
	set.DurationVar(&s.firstByte, "first-byte", 0, "`TIME` before an answer begins")
	set.Float64Var(&s.stream, "stream", 0, "`BYTES` a second of one answer; 0: as they come")
	set.Float64Var(&s.total, "total", 0, "`BYTES` a second of all answers together; 0: as they come")
	if err := set.Parse(args); err != nil {
		return err
	}
	w := newWire(s)
	g, ctx := errgroup.WithContext(ctx)
	for address, handler := range map[string]http.Handler{*listen: w.forward(*backend), *control: w.control()} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
		g.Go(func() error {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
		g.Go(func() error {
			<-ctx.Done()
			return server.Close()
		})
	}
	return g.Wait()
}

// forward returns a handler that forwards requests to the backend.
func (w *wire) forward(backend string) http.Handler {
	proxy := &httputil.ReverseProxy{
		ErrorLog:  log.New(io.Discard, "", 0), // it would report each cut
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
		// On an aborted connection unflushed bytes are lost, but all bytes before a cut
		// must be sent.
		FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: backend})
			p.Out.Host = p.In.Host // the signature covers the host
		},
		ModifyResponse: func(r *http.Response) error {
			if r.Request.Method == http.MethodGet {
				r.Body = w.body(r.Request.Context(), r.Body, r.ContentLength)
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.count(r)
		if !w.wait(r.Context(), time.Now().Add(w.shape.firstByte)) {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(out, r)
	})
}

// control returns a handler for the benchmark's control requests.
func (w *wire) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /counts", func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(out).Encode(w.counted()) // the client has left
	})
	mux.HandleFunc("POST /reset", func(http.ResponseWriter, *http.Request) { w.reset() })
	mux.HandleFunc("POST /cut", func(out http.ResponseWriter, r *http.Request) {
		after, err1 := strconv.ParseInt(r.FormValue("after"), 10, 64)
		answers, err2 := strconv.Atoi(r.FormValue("answers"))
		if err := errors.Join(err1, err2); err != nil {
			http.Error(out, err.Error(), http.StatusBadRequest)
			return
		}
		w.cut(after, answers)
	})
	return mux
}
