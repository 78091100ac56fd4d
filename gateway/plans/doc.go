// Package plans holds what a batch is answered from: datasets with their indexes, prepared epochs, snapshots of
// weights, subsets, lists of bad samples and mixtures.
//
// A request asks for a Reading: the plan and the epoch of its batch, ready to name the samples. Plans and epochs are
// pure functions of the address, so all of them are caches: any can be dropped and made again.
package plans
