// Package simulate predicts how long the epochs of a job take, how much they read and how long
// ranks wait. It runs the same code as a gateway: the orders of shuffle, the table of readers of
// lookahead and the cache policies of chunkcache. It runs them under its own clock, against a model
// of the store.
//
// The model includes the store (time to first byte, total bandwidth and bandwidth of one read), the
// fetchers and their queue, the memory budget with prefetching and eviction, the disk tier, the
// line from the gateway to the ranks, and the ranks' think time between two batches. Gateways form
// one cluster with a common cache, even if there is only one. A cluster has owners by placement,
// queries, read-ahead from other gateways, and links. The model does not include processor time,
// failures and other users of the store.
//
// One task runs at a time, in the order of the virtual clock, so the same setting always has the
// same result. Up to a few million samples are simulated one by one, as the data path would
// read them. A larger setting is scaled down first (scale.go), and Result.Coarse reports how.
package simulate
