// Package address converts URLs into requests and requests into URLs.
//
// Plan and Batch hold the parameters of a URL's path and query, with the dataset's defaults for
// missing ones. Canonical writes every parameter, so equal batches have equal URLs and equal ETags.
//
// The package is pure: it depends on neither HTTP, nor the index, nor a clock.
package address
