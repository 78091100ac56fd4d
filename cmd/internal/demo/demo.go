// Package demo finds a directory for shards and a free port. With these a gateway can be tried without
// a server or an account.
package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/pack"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/node"
)

// Sizes of the demo: small enough to be fast, with enough chunks to shuffle.
const (
	shardSize = 16 << 20
	chunkSize = 512 << 10
	batchSize = 64
)

// Packing returns the options for packing files into shards. Links are skipped, since a user's
// directory may contain any links.
func Packing() pack.Options {
	return pack.Options{ShardSize: shardSize, Key: pack.KeyGroup, SkipSpecial: true}
}

// Indexing returns the options for indexing the shards.
func Indexing() build.Options {
	return build.Options{
		ChunkSize: chunkSize, Defaults: chunkindex.Defaults{BatchSize: batchSize, Window: 32, Shuffle: "slot", Tail: "short"},
	}
}

// Source returns the absolute path of a directory.
func Source(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%s is not a directory", dir)
	}
	return dir, nil
}

// Place returns the directory for the shards of a source. Its name depends on the source. It is
// below cacheHome or the user's cache directory.
func Place(source, cacheHome string) (location.Location, error) {
	if !filepath.IsAbs(cacheHome) {
		var err error
		if cacheHome, err = location.CacheDir(); err != nil {
			return location.Location{}, fmt.Errorf("find the cache directory: %w", err)
		}
	}
	sum := sha256.Sum256([]byte(source))
	return location.Location{Name: "demo", Dir: filepath.Join(cacheHome, "millrace", "demo", hex.EncodeToString(sum[:6]))}, nil
}

// Listen binds the requested port, or else 8080, or a free one. The port stays bound: another process
// could take a port that was only checked.
func Listen(ctx context.Context, asked string) (net.Listener, error) {
	if asked != "" {
		return node.Listen(ctx, asked, 0)
	}
	l, err := node.Bind(ctx, "127.0.0.1:8080", 0)
	if errors.Is(err, syscall.EADDRINUSE) {
		l, err = node.Bind(ctx, "127.0.0.1:0", 0)
	}
	if err != nil {
		return nil, fmt.Errorf("listen: %v", err) //nolint:errorlint // no store: the exit code must not say so
	}
	return l, nil
}

// Hints returns commands to try with a demo that is served at the address base.
func Hints(base string) string { return fmt.Sprintf(text, base, os.Args[0]) }

const text = `
Serving on %[1]s. In another terminal, try:

    curl -fsS %[1]s/epoch/0/batch/0 | tar -t
    curl -fsS %[1]s/epoch/0/batch/0 | sha256sum    # the same bytes, always and from any gateway
    curl -fsS %[1]s/epoch/1/batch/0 | tar -t       # another epoch, another order
    curl -fsSI %[1]s/epoch/0/batch/0               # its headers
    curl -fsS '%[1]s/epoch/0/batch/0?rank=1&world_size=4' | tar -t
    curl -fsS %[1]s/v1/datasets/demo/epochs/0/batches/0/manifest
    curl -fsS %[1]s/v1/datasets/demo
    %[2]s fetch %[1]s --epoch 0

Press Ctrl-C to end.
`
