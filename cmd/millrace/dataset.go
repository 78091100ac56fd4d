package main

import (
	"context"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
)

// one parses the single dataset of a command and records a fault.
func one(f *cli.Flags, arg string) location.Location {
	l, err := location.Parse(arg)
	if err != nil {
		f.Fault("%w", err)
	}
	return l
}

// onDataset returns the body of a command that opens a dataset and its index.
func onDataset(l *location.Location, body func(context.Context, location.Dataset) error) func(context.Context, []string) error {
	return func(ctx context.Context, _ []string) error {
		var s location.Stores
		d, err := s.OpenIndex(ctx, *l, chunkindex.OpenOptions{})
		if err != nil {
			return err
		}
		defer d.Close()
		return body(ctx, d)
	}
}
