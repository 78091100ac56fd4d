// Package webdataset reads tar shards that follow the WebDataset convention: adjacent
// members whose names differ only after the first dot of the base name are one sample.
//
// It parses tar headers itself, because it needs the offsets of headers and padding,
// which archive/tar keeps to itself, and because what is ambiguous between readers is
// refused here instead of being resolved one way or the other.
package webdataset

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync/atomic"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// Name is what an index calls this format.
const Name = "tar"

// Tar is the format of tar shards.
type Tar struct{}

// Name returns "tar".
func (Tar) Name() string { return Name }

// Rules returns 1: none have been released before.
func (Tar) Rules() int { return 1 }

// Survey takes objects whose keys end in ".tar" for shards, compressed or not. Where there is none and the user named this format, all objects
// are looked at: those that begin with the header of a member are shards.
func (Tar) Survey(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	d := &format.Dataset{}
	hidden := new(atomic.Int64)
	d.HiddenMembers = hidden.Load
	says := ""
	if o.Hidden {
		hidden, says = nil, "hidden members are taken" // a scan that left them out is another one
	}
	d.Scan = func(ctx context.Context, shard int, in io.Reader, out format.Sink) error {
		return scan(ctx, in, out, buffer(d.Shards[shard].Object), hidden)
	}
	for _, object := range l.Objects() {
		if strings.HasSuffix(format.Plain(object.Key), ".tar") {
			d.Shards = append(d.Shards, format.Shard{Object: object, Says: says})
		}
	}
	if len(d.Shards) == 0 && o.Named {
		err := format.EachHead(ctx, l, l.Objects(), func(object format.Object, head []byte) (bool, error) {
			if len(head) >= blockSize && string(head[257:262]) == "ustar" {
				d.Shards = append(d.Shards, format.Shard{Object: object, Says: says})
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(d.Shards) == 0 {
		return nil, nil
	}
	return d, nil
}

// Framing needs no constants.
func (Tar) Framing(constants json.RawMessage) (format.Framing, error) {
	if constants != nil {
		return nil, errors.New("tar has no constants")
	}
	return Framing{}, nil
}

// Framing turns samples of tar shards into a tar: two zero blocks follow them.
type Framing struct{}

// ContentType of a batch.
func (Framing) ContentType() string { return "application/x-tar" }

// Frame returns the end-of-archive blocks, whatever the samples are.
func (Framing) Frame([]uint32) (before, after []byte, err error) {
	return nil, make([]byte, 2*blockSize), nil
}

// Split cuts a member's name where its key ends: at the first dot of its base name. A base
// name without a dot, or with the dot first, is a key with an empty extension.
func Split(name string) (key, ext string) {
	base := strings.LastIndexByte(name, '/') + 1
	i := strings.IndexByte(name[base:], '.')
	if i <= 0 {
		return name, ""
	}
	at := base + i
	return name[:at], name[at+1:]
}
