// Package orders compares the orders that a dataset can be read in: the memory and the store's requests
// that each takes, how evenly its batches mix sorted classes, and the share that locality moves. It
// reads an index, or asks a gateway, and reads no data.
package orders
