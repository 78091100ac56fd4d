package main

import (
	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/location"
)

// defineStores defines the flags of S3 stores, for addresses that do not say otherwise.
func defineStores(s *location.Stores, f *cli.Flags) {
	f.Text(&s.Endpoint, "s3-endpoint", "", "`URL` of the S3 service (default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, then AWS)")
	f.Text(&s.Region, "s3-region", "", "`REGION` of the bucket (default AWS_REGION)")
	f.Flag(&s.PathStyle, "s3-path-style", "address buckets in the path, not in the host name")
	f.Text(&s.CAFile, "s3-ca-file", "", "PEM `FILE` with the authorities to trust for the S3 service")
	f.Number(&s.Conns, "s3-max-conns", 0, "connections to the S3 service at most (default chosen by the backend)")
}

// checkStores finds faults that need no connection.
func checkStores(s *location.Stores, f *cli.Flags) {
	if s.Endpoint == "" {
		return
	}
	if err := location.CheckEndpoint(s.Endpoint); err != nil {
		f.Fault("--s3-endpoint: %w", err)
	}
}

// one parses the single dataset of a command and notes a fault.
func one(f *cli.Flags, arg string) location.Location {
	l, err := location.Parse(arg)
	if err != nil {
		f.Fault("%w", err)
	}
	return l
}
