// Package files treats loose objects as samples: one object per sample, as in a directory of
// images.
//
// A sample is the object's bytes; its only part contains all these bytes and has the object's
// extension. No two objects have the same key, and their names in a tar differ for every reader
// that groups members by key. The format has no framing of its own: a batch of loose objects is a
// tar.
package files

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// Format returns the format of loose objects.
func Format() format.Format {
	return format.Format{
		Name:   framing.Files,
		Shards: "images, sound, video, arrays (.npz, .safetensors) or text, one per sample",
		Last:   true,
		Survey: survey,
	}
}

// survey claims every object if the user names the format. Otherwise it ignores objects that
// describe data. The names of all other objects must identify them as images, audio, video, arrays or text,
// and no JSON object may hold many samples.
func survey(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	objects := slices.DeleteFunc(slices.Clone(l.Objects()), format.Marker)
	if !o.Named {
		objects = format.Data(objects)
		if err := ofOneKind(objects); err != nil {
			return nil, err
		}
		if err := refuseCollections(ctx, l, objects); err != nil {
			return nil, err
		}
	}
	if len(objects) == 0 {
		return nil, nil
	}
	d := &format.Dataset{Loose: true, Shards: make([]format.Shard, 0, len(objects))}
	last, empty := "", 0
	for _, o := range objects {
		if o.Size == 0 {
			empty++
			last = o.Key
		}
		if o.Size > format.MaxSample {
			return nil, fmt.Errorf("object %s exceeds the maximum sample length of %d bytes: exclude it with --match", o.Key, format.MaxSample)
		}
		d.Shards = append(d.Shards, format.Shard{Object: o})
	}
	switch empty {
	case 0:
	case 1:
		return nil, &format.ChoiceError{
			Cause: fmt.Sprintf("object %s has no bytes", last),
			Ways:  []format.Way{{Flag: "match", Value: "!" + path.Base(last), Effect: "leaves it out"}},
		}
	default:
		return nil, fmt.Errorf("%d objects have no bytes, such as %s: remove them", empty, last)
	}
	if err := distinguish(d.Shards); err != nil {
		return nil, err
	}
	d.Scan = func(ctx context.Context, shard int, in io.Reader, out format.Sink) error {
		key, ext := name(d.Shards[shard])
		o := d.Shards[shard].Object
		return scan(format.NewCursor(ctx, o, in, out), o, key, ext)
	}
	return d, nil
}

// scan passes an object to the cursor as one sample with one part.
func scan(c *format.Cursor, o format.Object, key, ext string) error {
	if err := c.Whole(key, ext, o.Size, o.Size, false); err != nil {
		return err
	}
	if end, err := c.Ended(); end || err != nil {
		return err
	}
	return c.Fail("object %s is longer than its size in the listing, %d bytes", o.Key, o.Size)
}
