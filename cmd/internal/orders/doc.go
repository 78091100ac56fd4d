// Package orders compares the orders in which a dataset can be read. It computes the memory and the
// store requests that each order needs, how evenly its batches mix sorted classes, and the share of
// samples that locality moves. It reads an index, or asks a gateway, and reads no data.
package orders
