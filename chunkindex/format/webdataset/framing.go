// Package webdataset reads tar shards that follow the WebDataset convention: adjacent
// members whose names differ only after the first dot of the base name are one sample.
//
// It parses tar headers itself, because it needs the offsets of headers and padding,
// which archive/tar keeps to itself, and because what is ambiguous between readers is
// refused here instead of being resolved one way or the other.
package webdataset

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// Format reads tar shards.
func Format() format.Format {
	return format.Format{
		Name:   framing.Tar,
		Shards: "names in .tar, .tar.gz, .tgz, .tar.zst",
		Survey: survey,
	}
}

// survey takes objects whose keys end in ".tar" for shards, compressed or not. Where the user named this format every object that
// holds data is one, and those whose names do not say so must begin as a tar does.
func survey(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	d := &format.Dataset{}
	hidden := new(atomic.Int64)
	d.HiddenMembers = hidden.Load
	says := ""
	if o.Hidden {
		hidden, says = nil, "hidden members are taken" // a scan that left them out is another one
	}
	d.Scan = func(ctx context.Context, shard int, in io.Reader, out format.Sink) error {
		return scan(format.NewCursor(ctx, d.Shards[shard].Object, in, out), hidden)
	}
	var others []format.Object
	for _, object := range format.Data(l.Objects()) {
		switch {
		case format.Ext(object.Key) == ".tar":
		case !o.Named:
			continue
		case object.Size > 0:
			others = append(others, object)
		}
		d.Shards = append(d.Shards, format.Shard{Object: object, Says: says})
	}
	err := format.EachHead(ctx, l, others, func(object format.Object, head []byte) (bool, error) {
		if !begins(head) {
			return false, fmt.Errorf("object %s does not begin as a tar does: exclude it with --match, if it is none", object.Key)
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	if len(d.Shards) == 0 {
		return nil, nil
	}
	return d, nil
}

// begins says whether a tar can begin with these bytes: by the header of a member, or by the end of the archive.
func begins(head []byte) bool {
	if len(head) < blockSize {
		return false
	}
	head = head[:blockSize]
	return zero(head) || checksumOK(head)
}
