// Package records reads shards of fixed-size records: flat files, NumPy's .npy, and the binary
// version of the CIFAR datasets. A sample is a record, and a batch is a flat array of records.
//
// The .npy format is documented in NumPy (numpy.lib.format, versions 1.0 to 3.0), and the layout of
// CIFAR's files at https://www.cs.toronto.edu/~kriz/cifar.html.
package records
