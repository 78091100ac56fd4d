// Package webdataset reads tar shards that follow the WebDataset convention: adjacent members whose
// names differ only after the first dot of the base name form one sample.
//
// It parses tar headers itself because it needs the offsets of headers and padding, which
// archive/tar does not expose. It also rejects input that readers interpret differently.
package webdataset

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// Format returns the format of tar shards.
func Format() format.Format {
	return format.Format{
		Name:   framing.Tar,
		Shards: "names in .tar, .tar.gz, .tgz, .tar.zst",
		Survey: survey,
	}
}

// survey claims objects whose keys end in ".tar", compressed or not. If the user names the format,
// survey claims all objects that can hold samples. Those without ".tar" must then begin like a tar.
func survey(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	d := &format.Dataset{}
	hidden := new(atomic.Int64)
	d.HiddenMembers = hidden.Load
	says := ""
	if o.Hidden {
		hidden, says = nil, "hidden members are taken" // a scan depends on this option
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
			return false, fmt.Errorf("object %s does not begin like a tar archive: restore it if it is damaged, or exclude it with --match", object.Key)
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

// begins reports whether a tar can begin with these bytes: a member's header or the end of an
// archive.
func begins(head []byte) bool {
	if len(head) < blockSize {
		return false
	}
	head = head[:blockSize]
	return zero(head) || checksumOK(head)
}
