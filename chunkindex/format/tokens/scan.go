package tokens

import (
	"math"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// scan cuts the tokens of a shard into windows of this many bytes. Each begins with the last token
// of the preceding window.
func (f *file) scan(c *format.Cursor, window int64) error {
	if err := c.Gap(f.start); err != nil {
		return err
	}
	token := int64(f.dtype.Size())
	end := int64(math.MaxInt64) // end of the tokens, if the shard records the number of tokens
	if f.count >= 0 {
		end = f.start + f.count*token
	}
	stem := format.Stem(f.Key, ".bin", ".npy", ".tokens")
	c.Keep(int(token))
	for n := uint64(0); ; n++ {
		shared := int64(0)
		if n > 0 {
			shared = token
		}
		b, err := c.Peek(min(window-shared, end-c.Offset()))
		if err != nil {
			return err
		}
		if int64(len(b)) < window-shared {
			return f.rest(c, int64(len(b)), end)
		}
		if err := c.Back(int(shared)); err != nil {
			return err
		}
		if err := c.Whole(format.Numbered(stem, n), framing.ArrayPart, window, window, false); err != nil {
			return err
		}
	}
}

// rest skips the last n bytes, whose tokens fill no window, and checks that the shard ends after
// them.
func (f *file) rest(c *format.Cursor, n, end int64) error {
	if err := c.Gap(n); err != nil {
		return err
	}
	token := int64(f.dtype.Size())
	if n%token != 0 {
		return c.Fail("the last %d bytes are not a whole token of type %s", n%token, f.dtype)
	}
	if missing := end - c.Offset(); f.count >= 0 && missing > 0 {
		return c.Fail("%d of the %d tokens are missing", missing/token, f.count)
	}
	if ended, err := c.Ended(); ended || err != nil {
		return err
	}
	return c.Fail("more bytes follow the %d tokens of the object", f.count)
}
