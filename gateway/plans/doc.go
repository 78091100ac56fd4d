// Package plans manages the inputs of batches: datasets with their indexes, prepared epochs,
// snapshots of weights, subsets, lists of bad samples and mixtures.
//
// A request acquires a BatchOrder: the plan and epoch of its batch, ready to map positions to
// samples. Plans and epochs are pure functions of the address, so they are only cached: any of them
// can be evicted and computed again.
package plans
