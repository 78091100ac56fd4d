// Package arrow writes the bytes around the values of an Arrow IPC stream with one record batch:
// https://arrow.apache.org/docs/format/Columnar.html. It needs only the lengths of the values,
// which are sent directly from where they are stored. Arrow's own libraries would copy the values
// into buffers first, so only tests use them.
package arrow
