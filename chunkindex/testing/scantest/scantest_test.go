package scantest_test

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

// steps returns a format whose scan of a shard calls these steps until a step returns an error.
func steps(take []func(format.Sink) error) format.Format {
	return format.Format{Survey: func(context.Context, format.Listing, format.Options) (*format.Dataset, error) {
		return &format.Dataset{
			Shards: []format.Shard{{Object: format.Object{Key: "a"}}}, Overlap: 2,
			Scan: func(_ context.Context, _ int, _ io.Reader, out format.Sink) error {
				for _, step := range take {
					if err := step(out); err != nil {
						return err
					}
				}
				return nil
			},
		}, nil
	}}
}

func gap(text string) func(format.Sink) error {
	return func(out format.Sink) error { return out.Gap([]byte(text)) }
}

func data(key, text string) func(format.Sink) error {
	return func(out format.Sink) error { return out.Data(&format.Sample{Key: key}, []byte(text)) }
}

func shares(text string, n int) func(format.Sink) error {
	return func(out format.Sink) error { return out.Data(&format.Sample{Key: "k", Shared: n}, []byte(text)) }
}

func end(parts ...format.Part) func(format.Sink) error {
	return func(out format.Sink) error { return out.End(&format.Sample{Key: "k", Parts: parts}) }
}

func lineFeed(out format.Sink) error { return out.End(&format.Sample{Key: "k", LineFeed: true}) }

func part(text string, offset int64) format.Part {
	return format.Part{Ext: "x", Offset: offset, Length: int64(len(text)), CRC32C: crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli))}
}

// TestRules checks that a scanner of the shard "abcd" may report only correct samples, and only in
// order.
func TestRules(t *testing.T) {
	type row = []func(format.Sink) error
	for name, take := range map[string]row{
		"all of it":               {gap("a"), data("k", "b"), data("k", "c"), end(part("b", 0), part("c", 1)), shares("bcd", 2), end()},
		"nothing but gaps":        {gap("ab"), gap("cd")},
		"a sample without a part": {data("k", "abcd"), end()},
		"a line feed that lacks":  {data("k", "abcd"), lineFeed},
	} {
		if _, err := scantest.Scan(t.Context(), steps(take), format.Options{}, scantest.Objects{"a": []byte("abcd")}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, take := range map[string]row{
		"bytes left out":                  {gap("abc")},
		"bytes that are not there":        {gap("abcde")},
		"other bytes":                     {gap("abcx")},
		"a gap inside a sample":           {data("k", "a"), gap("bcd"), end()},
		"another sample inside a sample":  {data("k", "a"), data("other", "bcd"), end()},
		"a sample without an end":         {data("k", "abcd")},
		"an end without a beginning":      {end(), gap("abcd")},
		"a part outside the sample":       {gap("a"), data("k", "bc"), end(part("bcd", 0)), gap("d")},
		"a part before the one before it": {data("k", "abcd"), end(part("b", 1), part("a", 0))},
		"a part of other bytes":           {data("k", "abcd"), end(part("b", 0))},
		"shared before all samples":       {gap("ab"), shares("abcd", 2), end()},
		"more than samples may share":     {data("k", "abc"), end(), shares("abcd", 3), end()},
		"other bytes shared":              {data("k", "ab"), end(), shares("acd", 1), end()},
		"a line feed that does not lack":  {data("k", "ab"), lineFeed, gap("cd")},
	} {
		if _, err := scantest.Scan(t.Context(), steps(take), format.Options{}, scantest.Objects{"a": []byte("abcd")}); !errors.Is(err, format.ErrRule) {
			t.Errorf("%s: got %v, want %v", name, err, format.ErrRule)
		}
	}
}
