// Package body builds the bodies of responses from samples.
//
// A body is a list of pieces: ranges of samples, and literal bytes around them. Every form lays out
// its pieces from the index only, so the length and CRC-32C of a body are known before any sample
// is read. Range requests, the required reads and the bytes to send follow from the list, for all
// forms alike.
package body
