package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shaped"
)

// shapedSet writes a dataset into a store in this process, behind a simulated connection: 20 ms to
// the first byte, 80 MB/s per stream and 500 MB/s in total.
func (s *suite) shapedSet(ctx context.Context, d set) (inner objstore.Store, line *shaped.Store, err error) {
	inner = memstore.New()
	if err = d.fill(ctx, inner); err == nil {
		err = d.index(ctx, inner)
	}
	return inner, shaped.New(inner, shaped.Shape{FirstByte: 20 * time.Millisecond, Stream: 80e6, Total: 500e6}), err
}

// shaped measures cold epochs for which the network to the store is the bottleneck. All parts run
// in this process, because these measurements use little processor time.
func (s *suite) shaped(ctx context.Context) error {
	d := setOf("photos", s.mib)
	inner, store, err := s.shapedSet(ctx, d)
	if err != nil {
		return err
	}
	// To keep the line full to the end, parts are smaller and more parallel than for a real store.
	pieces, err := d.parts(ctx, inner, chunkSize)
	if err != nil {
		return err
	}
	own := make([]piece, window) // as many chunks as the first batch's window has, from different positions
	for i := range own {
		own[i] = piece{pieces[i*len(pieces)/window].ref, 0, chunkSize}
	}
	s.logf("shaped store: %d rounds of 2 arms", s.rounds)
	var ours, straight, first, alone []float64
	for round := range s.rounds {
		t, err := fetch(ctx, store, pieces, 16, 0)
		if err != nil {
			return err
		}
		a, err := fetch(ctx, store, own, window, 0)
		if err != nil {
			return err
		}
		o, err := s.inProcess(ctx, d, store, d.once(int64(round)))
		if err != nil {
			return err
		}
		f, err := s.inProcess(ctx, d, store, func(i int64) string {
			if i > 0 {
				return ""
			}
			return d.path(int64(round), 0)
		})
		if err != nil {
			return err
		}
		straight, alone = append(straight, t.rate()), append(alone, a.elapsed.Seconds())
		ours, first = append(ours, o.rate()), append(first, median(f.latencies))
	}
	s.table.paired(5, "cold epoch, shaped store", "STRAIGHT", ours, straight, gigabytes())
	s.table.paired(5, "first batch", "the download of its window alone", first, alone, seconds())
	return nil
}

// settle waits until the path has mapped its memory.
func settle(dp *datapath.Path) {
	for before := int64(-1); ; {
		now := dp.Stats().BudgetInUse
		if now == before {
			return
		}
		before = now
		time.Sleep(50 * time.Millisecond)
	}
}

// local is a gateway in this process, composed like that of the serve command.
type local struct {
	addr  string
	path  *datapath.Path
	close func() error
}

// startLocal starts a local gateway with an empty cache and waits until its memory is mapped.
func startLocal(ctx context.Context, d set, store objstore.Store, cache int64) (*local, error) {
	b := budget.New(cache, budget.DefaultWait)
	dp := datapath.New(datapath.Config{Budget: b})
	index, err := chunkindex.Open(ctx, store, d.name+"/", chunkindex.OpenOptions{Tables: dp.Tables()})
	if err != nil {
		return nil, err
	}
	gw, err := gateway.New(gateway.Config{
		Datasets: []gateway.Dataset{{Name: d.name, Index: index, Source: dp.Open(index, store, d.name+"/")}},
		Budget:   b, Log: zerolog.Nop(), Version: "bench",
	})
	if err != nil {
		return nil, errors.Join(err, index.Close())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, index.Close())
	}
	run, stop := context.WithCancel(ctx)
	srv := &http.Server{Handler: gw.Handler(), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 2)
	go func() { ended <- dp.Run(run) }()
	go func() { ended <- srv.Serve(l) }()
	settle(dp)
	return &local{addr: l.Addr().String(), path: dp, close: func() error {
		err := srv.Close()
		stop()
		for range cap(ended) {
			if e := <-ended; !errors.Is(e, http.ErrServerClosed) && !errors.Is(e, context.Canceled) {
				err = errors.Join(err, e)
			}
		}
		dp.Close()
		return errors.Join(err, index.Close())
	}}, nil
}

// inProcess reads from a gateway whose cache is empty and can hold all data.
func (s *suite) inProcess(ctx context.Context, d set, store objstore.Store, path func(int64) string) (load, error) {
	gw, err := startLocal(ctx, d, store, s.room())
	if err != nil {
		return load{}, err
	}
	got, err := read(ctx, gw.addr, conns, 0, path)
	if err == nil {
		_, err = d.genuine(ctx, store, gw.addr, path(0))
	}
	return got, errors.Join(err, gw.close())
}
