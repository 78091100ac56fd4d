// Package address turns URLs into requests, and requests back into URLs.
//
// A batch is an address: Plan and Batch hold what its path and query say, each parameter
// that was left out with the dataset's default. Canonical writes every parameter out again,
// so equal batches have equal URLs and equal ETags.
//
// The package is pure. It knows neither HTTP nor the index nor a clock.
package address
