package scantest_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/scantest"
)

// steps is a format whose shards are scanned by taking these steps, until one is refused.
type steps struct {
	format.Format
	take []func(format.Sink) error
}

func (s steps) Survey(context.Context, format.Listing, format.Options) (*format.Dataset, error) {
	return &format.Dataset{
		Shards: []format.Shard{{Object: format.Object{Key: "a"}}}, Overlap: 2,
		Scan: func(_ context.Context, _ int, _ io.Reader, out format.Sink) error {
			for _, step := range s.take {
				if err := step(out); err != nil {
					return err
				}
			}
			return nil
		},
	}, nil
}

func gap(text string) func(format.Sink) error {
	return func(out format.Sink) error { return out.Gap([]byte(text)) }
}

func data(text string) func(format.Sink) error {
	return func(out format.Sink) error { return out.Data([]byte(text)) }
}

func again(text string) func(format.Sink) error {
	return func(out format.Sink) error { return out.Again([]byte(text)) }
}

func ahead(n int64) func(format.Sink) error {
	return func(out format.Sink) error { return out.Ahead(n) }
}

func begin(out format.Sink) error     { return out.Begin("k") }
func beginPart(out format.Sink) error { return out.BeginPart("x") }

// Of a shard "abcd", a scanner may say what is true, and in order.
func TestRules(t *testing.T) {
	end, endPart := format.Sink.End, format.Sink.EndPart
	type row = []func(format.Sink) error
	for name, take := range map[string]row{
		"all of it":               {gap("a"), begin, ahead(2), beginPart, data("bc"), endPart, end, begin, again("bc"), data("d"), end},
		"nothing but gaps":        {gap("ab"), gap("cd")},
		"a sample without a part": {begin, data("abcd"), end},
	} {
		if _, err := scantest.Scan(t.Context(), steps{take: take}, format.Options{}, scantest.Objects{"a": []byte("abcd")}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, take := range map[string]row{
		"bytes left out":                     {gap("abc")},
		"bytes that are not there":           {gap("abcde")},
		"other bytes":                        {gap("abcx")},
		"a gap inside a sample":              {begin, gap("abcd"), end},
		"data outside a sample":              {data("abcd")},
		"a sample inside a sample":           {begin, begin, data("abcd"), end},
		"a sample without an end":            {begin, data("abcd")},
		"an end without a beginning":         {end, gap("abcd")},
		"less than was promised":             {begin, ahead(3), data("ab"), end, gap("cd")},
		"a part outside a sample":            {beginPart, gap("abcd")},
		"a part inside a part":               {begin, beginPart, beginPart, data("abcd"), endPart, end},
		"a part without an end":              {begin, beginPart, data("abcd"), end},
		"a part without a beginning":         {begin, endPart, data("abcd"), end},
		"again outside a sample":             {begin, data("ab"), end, again("b"), gap("cd")},
		"again before all samples":           {again(""), gap("abcd")},
		"again after the beginning":          {begin, data("ab"), end, begin, data("c"), again("c"), data("d"), end},
		"again, more than samples may share": {begin, data("abc"), end, begin, again("abc"), data("d"), end},
		"again, other bytes":                 {begin, data("ab"), end, begin, again("a"), data("cd"), end},
	} {
		if _, err := scantest.Scan(t.Context(), steps{take: take}, format.Options{}, scantest.Objects{"a": []byte("abcd")}); !errors.Is(err, scantest.ErrRule) {
			t.Errorf("%s: got %v, want %v", name, err, scantest.ErrRule)
		}
	}
}
