// Package arrow writes what stands around the values of an Arrow IPC stream of one record batch, whose columns are text or
// bytes: https://arrow.apache.org/docs/format/Columnar.html. The values themselves never pass through: their lengths are known
// before they are read, and they go from where they lie to the client. Arrow's own libraries copy them into buffers first,
// which is why none is used here but in tests.
package arrow
