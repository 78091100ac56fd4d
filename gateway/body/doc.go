// Package body makes the body of an answer out of samples.
//
// A body is a list of pieces: stretches of samples, and literal bytes around them. Every form lays its pieces out from
// the index alone, so the length and the CRC-32C of a body are known before a byte of a sample is read. What a Range
// asks for, what must be read and what is sent follow from the list, for all forms alike.
package body
