// Package files takes loose objects for samples, one object one sample, as a directory of images has them.
//
// A sample is the object's bytes and nothing else; its one part, the whole of it, has the object's extension. No two objects have
// one key, and their names in a tar differ for every reader that groups members by their keys. There is no framing of its own: a
// batch of loose objects is a tar.
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

// Format reads loose objects.
func Format() format.Format {
	return format.Format{
		Name:   framing.Files,
		Shards: "images, sound, video or text, one a sample",
		Last:   true,
		Survey: survey,
	}
}

// survey takes every object for a sample if the format was named. Else it does so only where names say that each is one: all
// are images, or sound, or video, or text, and no JSON holds many samples; what merely describes data is left out then.
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
			return nil, fmt.Errorf("object %s is longer than a sample can be, %d bytes: exclude it with --match", o.Key, format.MaxSample)
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

// scan hands on one object as one sample of one part.
func scan(c *format.Cursor, o format.Object, key, ext string) error {
	if err := c.Begin(key); err != nil {
		return err
	}
	if err := c.Part(ext, o.Size); err != nil {
		return err
	}
	if err := c.End(); err != nil {
		return err
	}
	if end, err := c.Ended(); end || err != nil {
		return err
	}
	return c.Fail("object %s is longer than the %d bytes that were listed", o.Key, o.Size)
}
