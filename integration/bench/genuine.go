package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/millrace-data/millrace/internal/objstore"
)

// trailer is the length of a tar's end blocks.
const trailer = 1024

// whole returns an error unless a gateway's response is as long as its samples. Without this check
// a gateway that sends no samples would be the fastest.
func whole(path string, samples, length int64) error {
	for _, name := range []string{"photos", "text"} {
		if !strings.HasPrefix(path, "/v1/datasets/"+name+"/") {
			continue
		}
		if want := samples*setOf(name, 0).stride() + trailer; samples == 0 || length != want {
			return fmt.Errorf("got %d bytes of %d samples, want %d", length, samples, want)
		}
	}
	return nil
}

// looked is the number of samples of a batch that genuine compares byte by byte.
const looked = 16

// genuine reads a batch from a gateway, and returns the names of its samples. It returns an error
// unless the names are distinct and every sample equals the stored sample with its name.
func (d set) genuine(ctx context.Context, store objstore.Store, addr, path string) ([]string, error) {
	resp, err := ask(ctx, http.MethodGet, base(addr)+path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() // read to the end
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	names, err := d.look(ctx, store, body)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	return names, nil
}

// look makes genuine's checks on the body of a batch.
func (d set) look(ctx context.Context, store objstore.Store, body []byte) (names []string, err error) {
	seen := map[string]bool{}
	for ; int64(len(body)) >= d.stride()+trailer; body = body[d.stride():] {
		name, _, _ := bytes.Cut(body[:100], []byte{0})
		names = append(names, string(name))
		if seen[string(name)] {
			return nil, fmt.Errorf("sample %s came twice", name)
		}
		seen[string(name)] = true
		if len(names)%(batch/looked) != 1 {
			continue
		}
		if err := d.stored(ctx, store, string(name), body[:d.stride()]); err != nil {
			return nil, err
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no samples came")
	}
	return names, nil
}

// stored returns an error unless a sample, with its header, equals the bytes in the store.
func (d set) stored(ctx context.Context, store objstore.Store, name string, sample []byte) error {
	var shard int
	var place int64
	if _, err := fmt.Sscanf(name, "%06d/%06d.bin", &shard, &place); err != nil {
		return fmt.Errorf("sample %q: %w", name, err)
	}
	obj, err := store.Stat(ctx, d.shard(shard))
	if err != nil {
		return fmt.Errorf("sample %s: %w", name, err)
	}
	want := make([]byte, len(sample))
	if err := store.ReadRange(ctx, obj.Ref(), place*d.stride(), want); err != nil {
		return fmt.Errorf("sample %s: %w", name, err)
	}
	if !bytes.Equal(sample, want) {
		return fmt.Errorf("sample %s is not what the store has", name)
	}
	return nil
}
