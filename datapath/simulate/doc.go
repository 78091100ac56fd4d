// Package simulate predicts how long the epochs of a job take, what they read and what they wait
// for, before anybody buys a disk: it runs the orders of shuffle, the table of readers of
// lookahead and the cache policies of chunkcache, the very ones of a gateway, under a clock of its
// own against a model of the store.
//
// What is modelled: the store (time to first byte, bandwidth of all reads together and of
// one), the fetchers and whose turn it is, the memory budget with what readers come for and what may go, the
// disk tier, the way from the gateway to the ranks, and how long a rank thinks between two batches.
// Gateways are one cache, a single one being a cluster of one: owners by placement, questions, what is asked for in the background for the next batches, links.
// Processor time, failures and other tenants of the store are not.
//
// Everything happens in one goroutine, in the order of the virtual clock, so that the same
// question always has the same answer. Up to a few million samples are followed one by one, as the data path would. A larger
// question is scaled down first (scale.go), and Result.Coarse says how.
package simulate
