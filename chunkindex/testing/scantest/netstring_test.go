package scantest_test

import (
	"bytes"
	"context"
	"strconv"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

// The format of this file is the example of docs/dev/adding-a-format.md.

// Format reads netstrings: each record has the form "5:hello," (https://cr.yp.to/proto/netstrings.txt).
func Format() format.Format {
	return format.Format{
		Name:   "netstring",
		Shards: "names in .netstr",
		Survey: survey,
	}
}

func survey(_ context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	return format.NewDataset(format.Called(l, o, ".netstr"), scan), nil
}

// scan finds the samples of one shard. A sample is a netstring as stored. Its only part is the text without length and comma.
func scan(shard format.Object, c *format.Cursor) error {
	stem := format.Stem(shard.Key, ".netstr")
	for n := uint64(0); ; n++ {
		head, err := c.Peek(11) // a length of up to ten digits and the colon
		if err != nil || len(head) == 0 {
			return err
		}
		digits, _, ok := bytes.Cut(head, []byte(":"))
		size, err := strconv.ParseUint(string(digits), 10, 32)
		if !ok || err != nil || size > format.MaxSample-12 || string(digits) != strconv.FormatUint(size, 10) {
			return c.Fail("record %d has no length", n)
		}
		before := int64(len(digits)) + 1
		if err := c.Begin(format.Numbered(stem, n)); err != nil {
			return err
		}
		c.Ahead(before + int64(size) + 1)
		if err := c.Data(before); err != nil {
			return err
		}
		if err := c.Part("bin", int64(size)); err != nil {
			return err
		}
		if end, err := c.Peek(1); err != nil {
			return err
		} else if string(end) != "," {
			return c.Fail("record %d does not end in a comma", n)
		}
		if err := c.Data(1); err != nil {
			return err
		}
		if err := c.End(); err != nil {
			return err
		}
	}
}

func dataset() scantest.Dataset {
	return scantest.Dataset{
		Format:  Format(),
		Framing: format.Bare("application/x-netstring"),
		Objects: scantest.Objects{"a.netstr": []byte("5:hello,0:,"), "b.netstr": {}, "c.netstr": []byte("3:end,")},
		AsShard: func(batch []byte, _ int) scantest.Objects { return scantest.Objects{"batch.netstr": batch} },
	}
}

func TestConforms(t *testing.T) { scantest.Conforms(t, dataset()) }

func FuzzConforms(f *testing.F) { scantest.Fuzz(f, dataset()) }
