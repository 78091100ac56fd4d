package main

import (
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
