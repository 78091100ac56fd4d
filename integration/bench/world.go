package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/s3backend"
)

const (
	batch     = 256
	bucket    = "bench"
	shardSize = 64 << 20
	chunkSize = 8 << 20
	window    = 4 // chunks; small, so that cold epochs need not wait for all data before the first batch
	loose     = 16
)

// set is one dataset. All its samples have the same length, so that their positions are known.
type set struct {
	name    string
	payload int64
	shards  int
	each    int64 // samples per shard
	objects int   // samples stored as individual objects, for GET1
}

func (d set) stride() int64  { return 512 + (d.payload+511)/512*512 }
func (d set) samples() int64 { return d.each * int64(d.shards) }
func (d set) batches() int64 { return (d.samples() + batch - 1) / batch }
func (d set) body() int64    { return batch*d.stride() + 1024 }
func (d set) shard(i int) string {
	return fmt.Sprintf("%s/shard-%06d.tar", d.name, i)
}
func (d set) object(i int) string { return fmt.Sprintf("loose-%s/%06d", d.name, i) }

// path returns the path of a batch in an epoch of a window plan.
func (d set) path(epoch, batch int64) string {
	return fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d?shuffle=window&window=%d", d.name, epoch, batch, window)
}

func newSet(name string, payload, mib int64) set {
	d := set{name: name, payload: payload, shards: max(1, int(mib<<20/shardSize))}
	d.each = (shardSize - 1024) / d.stride()
	d.objects = int(min(d.samples(), 2048))
	return d
}

// setOf returns one of the two datasets.
func setOf(name string, mib int64) set {
	if name == "text" {
		return newSet(name, 4096, mib)
	}
	return newSet("photos", 110*1024, mib)
}

// fill writes and indexes the shards.
func (d set) fill(ctx context.Context, store objstore.Store) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2)
	for i := range d.shards {
		g.Go(func() error {
			data, err := d.tar(i)
			if err != nil {
				return err
			}
			_, err = store.Put(ctx, d.shard(i), bytes.NewReader(data), int64(len(data)), objstore.Condition{})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("write %s: %w", d.name, err)
	}
	return nil
}

func (d set) index(ctx context.Context, store objstore.Store) error {
	report, err := build.Run(ctx, store, d.name+"/", build.Options{
		ChunkSize: chunkSize, Parallel: 2, Defaults: chunkindex.Defaults{BatchSize: batch},
	})
	if err == nil && int64(report.Samples) != d.samples() {
		err = fmt.Errorf("got %d samples, want %d", report.Samples, d.samples())
	}
	if err != nil {
		return fmt.Errorf("index %s: %w", d.name, err)
	}
	return nil
}

func (d set) tar(shard int) ([]byte, error) {
	buf := bytes.NewBuffer(make([]byte, 0, shardSize))
	w := tar.NewWriter(buf)
	content := make([]byte, d.payload)
	random := rand.NewChaCha8([32]byte{byte(shard), byte(d.payload >> 10)})
	for i := range d.each {
		if _, err := random.Read(content); err != nil {
			return nil, err
		}
		h := &tar.Header{Name: fmt.Sprintf("%06d/%06d.bin", shard, i), Mode: 0o644, Size: d.payload}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}

// scatter stores samples as individual objects.
func (d set) scatter(ctx context.Context, store objstore.Store) error {
	content := make([]byte, d.payload)
	if _, err := rand.NewChaCha8([32]byte{}).Read(content); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(loose)
	for i := range d.objects {
		g.Go(func() error {
			_, err := store.Put(ctx, d.object(i), bytes.NewReader(content), d.payload, objstore.Condition{})
			return err
		})
	}
	return g.Wait()
}

// world is a MinIO server with both datasets.
type world struct {
	minio   *process
	store   *s3backend.Backend
	photos  set
	text    set
	gateway string
	env     []string
	dir     string
}

func newWorld(ctx context.Context, o options) (*world, error) {
	w := &world{
		gateway: o.gateway, photos: setOf("photos", o.mib), text: setOf("text", o.mib),
		dir: filepath.Join(o.dir, "minio"),
	}
	addr, err := freePort()
	if err != nil {
		return w, err
	}
	// A directory at the root of MinIO's drive is a bucket.
	if err := os.MkdirAll(filepath.Join(w.dir, bucket), 0o700); err != nil {
		return w, err
	}
	credentials := []string{"MINIO_ROOT_USER=bench-user", "MINIO_ROOT_PASSWORD=bench-password", "MINIO_BROWSER=off"}
	if w.minio, err = start(ctx, addr, "/minio/health/ready", credentials, o.minio, "server", "--quiet", "--address", addr, w.dir); err != nil {
		return w, fmt.Errorf("%w (run make deps)", err)
	}
	w.env = []string{"AWS_ACCESS_KEY_ID=bench-user", "AWS_SECRET_ACCESS_KEY=bench-password", "AWS_ENDPOINT_URL_S3=http://" + addr, "AWS_REGION=us-east-1"}
	for _, kv := range []string{"AWS_ACCESS_KEY_ID=bench-user", "AWS_SECRET_ACCESS_KEY=bench-password"} {
		name, value, _ := strings.Cut(kv, "=")
		if err := os.Setenv(name, value); err != nil {
			return w, err
		}
	}
	if w.store, err = s3backend.New(s3backend.Config{Bucket: bucket, Endpoint: "http://" + addr, Region: "us-east-1", PathStyle: true}); err != nil {
		return w, err
	}
	for _, d := range []set{w.photos, w.text} {
		if err := d.fill(ctx, w.store); err != nil {
			return w, err
		}
		if err := d.index(ctx, w.store); err != nil {
			return w, err
		}
		if err := d.scatter(ctx, w.store); err != nil {
			return w, err
		}
	}
	return w, nil
}

func (w *world) close() {
	if w != nil {
		w.minio.stop()
		if w.store != nil {
			w.store.Close() // no requests are running
		}
	}
}

// serve starts a gateway with an empty cache. more are additional flags.
func (w *world) serve(ctx context.Context, cache int64, more []string, env ...string) (*process, error) {
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	return w.serveAt(ctx, addr, addr, cache, more, env...)
}

// serveAt is like serve, for a gateway that listens on another address, and reports its readiness
// at addr.
func (w *world) serveAt(ctx context.Context, addr, listen string, cache int64, more []string, env ...string) (*process, error) {
	args := []string{
		"serve", "--listen", listen, "--cache-size", fmt.Sprint(cache), "--log-level", "warn",
		"--dataset", "photos=s3://" + bucket + "/photos", "--dataset", "text=s3://" + bucket + "/text",
	}
	return start(ctx, scheme(more)+addr, "/readyz", append(env, w.env...), w.gateway, append(args, more...)...)
}

// stopwatch returns a function that returns the seconds since this call.
func stopwatch() func() float64 {
	begin := time.Now()
	return func() float64 { return time.Since(begin).Seconds() }
}
