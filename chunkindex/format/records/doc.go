// Package records reads shards of records that all have one size: flat files, NumPy's .npy, and the binary form of the
// CIFAR data sets. A sample is a record, and a batch is a flat array of them.
//
// It also knows how NumPy describes elements and arrays, for other formats of numbers and for whoever puts a header
// before a batch. The .npy format is that of NumPy's own documentation (numpy.lib.format, versions 1.0 to 3.0); the
// layout of CIFAR's files is that of https://www.cs.toronto.edu/~kriz/cifar.html.
package records
